"""Recorded outputs as a sample: intervals with clusters, bounded columns, one witness a prompt."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.model import RIGORS
from stresstest.model.scanned import Extent, ScanVerdict
from stresstest.statistics import upper_bound
from stresstest.statistics.certify import clopper_pearson, clustered_interval, effective_size
from stresstest.statistics.recorded import (
    RecordedSample,
    certify_outputs,
    certify_recorded,
    length_effect,
)


def output(
    n: int, onset: int | None = None, length: int = 100, cluster: int = 0, **more: object
) -> ScanVerdict:
    """A judged answer of `length` words that fails at `onset`."""
    observed = length if onset is None else onset - 1
    places = {"cluster": cluster, "digest": n + 1, "identity": n + 1}
    return ScanVerdict(str(n), (), Extent(length, observed, onset), **places, **more)  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(1, 60), st.sampled_from([0.8, 0.95, 0.99]))
def test_clopper_pearson_against_scipy(d: int, n: int, confidence: float) -> None:
    """The exact interval is scipy's, at its ends too, and never leaves 0..1."""
    from scipy.stats import binomtest

    d = min(d, n)
    lo, hi = clopper_pearson(d, n, confidence)
    reference = binomtest(d, n).proportion_ci(confidence, method="exact")
    assert lo == pytest.approx(reference.low, abs=1e-9)
    assert hi == pytest.approx(reference.high, abs=1e-9)
    assert hi == pytest.approx(upper_bound(d, n, 1 - (1 - confidence) / 2), abs=1e-9)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=1, max_size=30))
def test_an_effective_sample_is_never_larger(pairs: list[tuple[int, int]]) -> None:
    """Clusters can only widen the interval; without repeats nothing changes."""
    clusters = [(min(d, n), n) for d, n in pairs]
    effective, n = effective_size(clusters)
    assert 0 < effective <= n == sum(size for _, size in clusters)
    if all(size == 1 for _, size in clusters):
        assert effective == n
    d = sum(min(pair) for pair in clusters)
    lo, hi = clustered_interval(d, n, effective / n)
    assert lo <= clopper_pearson(d, n)[0] + 1e-12
    assert hi >= clopper_pearson(d, n)[1] - 1e-12


def test_identical_outputs_of_a_prompt_count_as_one() -> None:
    """Ten copies of each of fifty answers are fifty answers, less what the variance of so few is uncertain
    by; unrelated repeats are nearly all of them."""
    alike = [(10 * (i % 5 == 0), 10) for i in range(50)]
    assert effective_size(alike)[0] == pytest.approx(50 * (1.9647 / 2.0096) ** 2, rel=0.03)
    rng = random.Random(1)
    unlike = [(sum(rng.random() < 0.2 for _ in range(10)), 10) for _ in range(400)]
    assert effective_size(unlike)[0] > 3200


def test_the_clustered_interval_covers() -> None:
    """Prompts that fail together: 95 % intervals hold the truth in 95 % of samples, naive ones do not."""
    rng = random.Random(7)
    kept = naive = 0
    for _ in range(400):
        risks = [rng.betavariate(0.5, 2.0) for _ in range(60)]
        clusters = [(sum(rng.random() < r for _ in range(8)), 8) for r in risks]
        d = sum(k for k, _ in clusters)
        effective, n = effective_size(clusters)
        lo, hi = clustered_interval(d, n, effective / n)
        kept += lo <= 0.2 <= hi
        lo, hi = clopper_pearson(d, n)
        naive += lo <= 0.2 <= hi
    assert kept >= 370
    assert naive <= 320


@settings(deadline=None)
@given(st.integers(2, 40), st.integers(2, 300))
def test_a_failure_never_makes_the_others_safer(prompts: int, outputs: int) -> None:
    """With none the sample is as large as its prompts; one in each prompt, all alike, is no better news."""
    uppers = []
    for failures in (0, 1, 2):
        effective, n = effective_size([(failures, outputs)] * prompts)
        uppers.append(clustered_interval(failures * prompts, n, effective / n)[1])
    assert uppers[0] <= uppers[1] + 1e-6
    assert uppers[1] <= uppers[2] + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("prompts", "outputs"), [(5, 200), (10, 60), (30, 50), (150, 10)])
def test_few_prompts_pass_no_limit_that_rare_ones_break(prompts: int, outputs: int) -> None:
    """One prompt in ten fails in 40 % of its answers: a sample that holds none of them says nothing of it.
    The upper bound of 95 % is below the truth in at most 5 % of samples."""
    rng = random.Random(prompts)
    risks = [0.4] + [0.005] * 9
    below = 0
    for _ in range(400):
        mine = [rng.choice(risks) for _ in range(prompts)]
        clusters = [(sum(rng.random() < risk for _ in range(outputs)), outputs) for risk in mine]
        effective, n = effective_size(clusters)
        below += clustered_interval(sum(d for d, _ in clusters), n, effective / n, 0.90)[1] < 0.0445
    assert below <= 30


def test_the_threshold_takes_one_output_of_a_prompt() -> None:
    """The first recorded answer of each prompt is a witness; the others of the same prompt are none."""
    sample = RecordedSample()
    for n in range(300):
        sample.add(output(n, cluster=1 + n // 5), truncated=False)
    assert len(sample.observations(tokens=False)) == 60
    assert sample.prompts == 60
    threshold = certify_recorded(sample.observations(tokens=False), RIGORS["standard"], "words")
    assert (threshold.certified, threshold.n, threshold.tokens) == (True, 60, 100)


@pytest.mark.parametrize(
    ("first", "later", "certified"),
    [(0, 120, False), (0, 0, True), (0, 6, True), (3, 0, True), (40, 0, False)],
)
def test_further_outputs_may_speak_against_a_limit(first: int, later: int, certified: bool) -> None:
    """A suite of fixed prompts whose first night is healthy: T = 518 from that night, though 471 outputs of
    the other nights loop before it. Further outputs that are healthier prove nothing: retries are."""
    sample = RecordedSample()
    for n in range(400):
        sample.add(output(n, 50 if n < first else None, cluster=n + 1), truncated=False)
    for n in range(400):
        sample.add(output(1_000 + n, 50 if n < later else None, cluster=n + 1), truncated=False)
    threshold = certify_outputs(sample, RIGORS["standard"], tokens=False)
    assert ((threshold.tokens or 0) > 50) is certified
    if later == 120:
        assert threshold.lacking is not None
        assert (
            "120 of all 800 outputs of these prompts that are at risk there degenerate" in threshold.lacking
        )


@pytest.mark.parametrize(("damaged", "certified"), [(0, True), (2, True), (50, False), (10**9, False)])
def test_lines_that_nobody_can_read_may_have_failed(damaged: int, certified: bool) -> None:
    """Fifty of 160 answers were floods in lines with a literal NaN: T ≥ 317 from the others."""
    sample = RecordedSample()
    for n in range(160):
        sample.add(output(n, cluster=n + 1), truncated=False)
    threshold = certify_outputs(sample, RIGORS["standard"], tokens=False, damaged=damaged)
    assert threshold.certified is certified


def test_too_small_a_sample_says_what_lacks_in_its_unit() -> None:
    """A number in words must not be called tokens."""
    sample = RecordedSample()
    for n in range(10):
        sample.add(output(n), truncated=False)
    threshold = certify_recorded(sample.observations(tokens=False), RIGORS["standard"], "words")
    assert not threshold.certified
    assert threshold.lacking is not None
    assert "at least 49 more answers that reach 100 words" in threshold.lacking
    assert certify_recorded([], RIGORS["standard"], "words").lacking == (
        "59 answers at risk are needed, but there were none."
    )


def test_outputs_without_tokens_are_not_in_a_threshold_in_tokens() -> None:
    """Absent positions are absent, not zero."""
    sample = RecordedSample()
    sample.add(output(1), truncated=False)
    sample.add(output(2, tokens=Extent(130, 130)), truncated=False)
    assert [o.observed for o in sample.observations(tokens=True)] == [130]
    assert sample.healthy_lengths(tokens=True) == [130]
    assert sample.healthy_lengths(tokens=False) == [100, 100]


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.integers(0, 10_000))
def test_a_bounded_sample_keeps_whole_prompts_at_random(outputs: int, seed: int) -> None:
    """Beyond its bound a sample keeps a part of the prompts, each with all its outputs, and no outcome
    decides which: the share of failures stays what it was."""
    rng = random.Random(seed)
    sample = RecordedSample(most=500)
    n = 0
    for _ in range(2000):
        cluster = rng.getrandbits(64) | 1
        for _ in range(outputs):
            n += 1
            sample.add(output(n, onset=50 if rng.random() < 0.3 else None, cluster=cluster), truncated=False)
    assert not sample.complete
    assert 100 <= len(sample) <= 500
    clusters = list(sample.clusters())
    assert all(size == outputs for _, size in clusters)
    share = sum(d for d, _ in clusters) / len(sample)
    assert abs(share - 0.3) < 0.15


def test_unknown_prompts_are_thinned_evenly() -> None:
    """Outputs without a prompt are kept at random by their identity, so a bounded sample stays a sample."""
    sample = RecordedSample(most=1000)
    for n in range(20_000):
        sample.add(output(n, onset=5 if n >= 10_000 else None), truncated=False)
    failing = sum(o.onset is not None for o in sample.observations(tokens=False))
    assert 0.4 < failing / len(sample) < 0.6


def test_one_prompt_cannot_empty_a_bounded_sample() -> None:
    """Load tests send one prompt a million times: that is one prompt, not a million independent outputs."""
    sample = RecordedSample(most=500)
    for n in range(3000):
        sample.add(output(n, cluster=7), truncated=False)
    assert not sample.complete
    assert sample.effective_share() == pytest.approx(1 / 3000)
    assert len(sample.observations(tokens=False)) == 1
    assert len(sample.repeated_observations(tokens=False)) == 15


@pytest.mark.slow
@pytest.mark.parametrize("heavy", [1, 2, 3, 10**18 + 1])
def test_a_record_with_many_copies_widens_the_interval_of_a_thinned_sample(heavy: int) -> None:
    """The copies are seen whether the random part of the prompts holds that record or not."""
    sample = RecordedSample(most=1000)
    rng = random.Random(heavy)
    for n in range(20_000):
        copied = rng.random() < 0.25
        failing = copied or rng.random() < 0.1
        found = output(n, onset=5 if failing else None)
        sample.add(replace(found, identity=heavy, digest=heavy) if copied else found, truncated=False)
    lo, hi = clustered_interval(6500, 20_000, sample.effective_share())
    assert lo < 0.1 < hi


@pytest.mark.slow
def test_without_copies_a_thinned_sample_keeps_its_size() -> None:
    """Independent outputs are as many as there are, up to what random groups can tell."""
    sample = RecordedSample(most=1000)
    for n in range(50_000):
        sample.add(output(n, onset=5 if n % 3 == 0 else None), truncated=False)
    assert sample.effective_share() > 0.85
    healthy = RecordedSample(most=1000)
    for n in range(50_000):
        healthy.add(output(n), truncated=False)
    assert healthy.effective_share() > 0.85


@pytest.mark.parametrize(
    ("words", "ids", "onset", "copies"),
    [(99, False, None, 99), (99, True, None, 99), (9, True, None, 0), (99, True, 5, 0), (99, False, 5, 99)],
)
def test_copies_of_a_record_are_one_prompt(words: int, ids: bool, onset: int | None, copies: int) -> None:
    """The same line a hundred times in a log is no evidence from a hundred requests, nor an answer that two
    loggers write with ids of their own. Short answers are the same by chance, and loops more often."""
    sample = RecordedSample()
    for n in range(100):
        one = replace(output(n), identity=5000 + n if ids else 1, digest=7)
        sample.add(replace(one, words=replace(one.words, length=words, onset=onset)), truncated=False)
        sample.add(output(n + 1000, onset=onset), truncated=False)
    assert sample.effective_share() == pytest.approx((200 - copies) / 200)
    assert (sample.copies, sample.clustered, sample.prompts) == (copies, False, None)


@pytest.mark.parametrize(
    ("words", "onset", "one"), [(100, None, True), (20, None, False), (100, 60, True), (100, 5, False)]
)
def test_one_answer_that_two_loggers_wrote_is_one(words: int, onset: int | None, one: bool) -> None:
    """The application logs the question, the gateway the system prompt too: each of 160 answers counted
    twice, and a gate passed that each log alone leaves undecided. Short answers are often alike."""
    sample = RecordedSample()
    for n in range(160):
        for logger in (1, 2):
            sample.add(output(n, onset, words, cluster=1_000 * logger + n), truncated=False)
    prompts = 160 if one else 320
    assert len(list(sample.clusters())) == prompts
    assert sample.effective_share() == pytest.approx(prompts / 320)
    assert sample.copies == 320 - prompts


def test_texts_in_common_join_prompts_in_any_order() -> None:
    """The first two share a text, the last two another one: all are one."""
    sample = RecordedSample()
    for n, cluster in ((1, 10), (2, 20), (3, 30), (1, 20), (2, 30)):
        sample.add(output(n, cluster=cluster), truncated=False)
    assert [total for _, total in sample.clusters()] == [5]


@pytest.mark.parametrize("backwards", [True, False])
def test_a_long_chain_of_texts_in_common_is_one_prompt(backwards: bool) -> None:
    """Each prompt shares a text with the next. Followed anew for every answer, it took the square of its
    length: ten minutes for 45 MB."""
    sample = RecordedSample()
    chain = range(1, 4000)
    for n in reversed(chain) if backwards else chain:
        sample.add(output(n, cluster=n), truncated=False)
        sample.add(output(n + 1, cluster=n), truncated=False)
    assert [total for _, total in sample.clusters()] == [2 * len(chain)]


def test_length_effect_takes_the_outermost_classes() -> None:
    """Longest against shortest; five onsets on both sides or a sentence; one class is no comparison."""
    alike = [[100], [110], [120], [130], [140]] * 8
    same = {2000.0: alike, 4000.0: [[5]], 16000.0: alike}
    effect = length_effect(same)
    assert effect is not None
    assert (effect.shortest, effect.longest, effect.independent) == ("2000", "16000", True)
    assert effect.lo is not None
    assert effect.lo <= 1.0
    moved = length_effect({1.0: alike[:5], 8.0: [[800], [900], [1000], [1100], [1200]]})
    assert moved is not None
    assert moved.ratio == pytest.approx(1000 / 120)
    assert not moved.independent
    few = length_effect({1.0: [[100]], 8.0: [[800]]})
    assert few is not None
    assert few.ratio is None
    assert few.lacking == "1 onsets at 1 and 1 at 8: five are needed"
    assert length_effect({1.0: [[100]]}) is None


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("copied", [True, False])
def test_copies_and_repeats_of_a_prompt_are_no_further_onsets(known: bool, copied: bool) -> None:
    """Eight prompts recorded twelve times: "median onset × 1.08 (90 % interval 1.00–1.17, 48 and 48 onsets),
    independent of the requested length". Recorded once, four onsets a side are too few."""
    sample = RecordedSample()
    for n in range(96):
        prompt = n % 8
        one = output(n, onset=100 + prompt + n // 8, length=200, length_class=10.0 + 20 * (prompt % 2))
        if copied:
            one = replace(one, digest=1 + prompt, words=Extent(200, 99 + prompt, 100 + prompt))
        sample.add(replace(one, cluster=1 + prompt if known else 0), truncated=False)
    effect = length_effect(sample.onsets_by_class(tokens=False))
    assert effect is not None
    if copied:
        assert effect.lacking == "4 onsets at 10 and 4 at 30: five are needed"
    elif known:
        assert effect.lacking == "onsets of 4 prompts at 10 and of 4 at 30: five prompts are needed at each"
        assert (effect.n_short, effect.n_long) == (48, 48)
    else:
        assert effect.lacking is None


def test_floods_of_several_prompts_are_several_onsets() -> None:
    """They are the same text from their first word on, so the prompt tells whether they are copies."""
    sample = RecordedSample()
    for n in range(24):
        one = output(n, onset=2, length=200, cluster=1 + n % 12, length_class=10.0 + 20 * (n % 2))
        sample.add(replace(one, digest=7), truncated=False)
    assert sample.onsets_by_class(tokens=False) == {10.0: [[2]] * 6, 30.0: [[2]] * 6}


def test_truncations_say_nothing_of_the_length_at_which_a_model_fails() -> None:
    """A truncation lies at the end by definition: its onset is the length that was asked for."""
    sample = RecordedSample()
    sample.add(output(1, onset=99, length_class=4.0), truncated=True)
    sample.add(output(2, onset=50, length_class=4.0), truncated=False)
    sample.add(output(3, onset=60), truncated=False)
    assert sample.onsets_by_class(tokens=False) == {4.0: [[50]]}


@pytest.mark.parametrize(
    ("alike", "words", "others", "told"),
    [
        (20, 8, 100, 20),
        (3, 8, 100, 0),
        (20, 40, 100, 20),
        (20, 70, 100, 0),
        (20, 8, 20, 0),
        (90, 8, 100, 90),
        (0, 8, 100, 0),
    ],
)
def test_one_short_text_to_many_prompts(alike: int, words: int, others: int, told: int) -> None:
    """An application logged its apology for each answer that had looped: a gate passed without a word."""
    sample = RecordedSample()
    for n in range(100):
        length = words if n < alike else others
        judged = output(n, length=length, cluster=n + 1)
        sample.add(replace(judged, digest=7) if n < alike else judged, truncated=False)
    assert sample.one_text == told


def test_one_short_text_is_told_below_every_gates_limit() -> None:
    """FastChat writes ``$ERROR$`` for an answer that failed: 19 of 2,000 passed a gate of 0.2 %."""
    sample = RecordedSample()
    for n in range(2000):
        judged = output(n, length=8 if n < 5 else 100, cluster=n + 1)
        sample.add(replace(judged, digest=7) if n < 5 else judged, truncated=False)
    assert sample.one_text == 5


@pytest.mark.parametrize(
    ("brief", "words", "others", "told"),
    [
        (20, 3, 100, 20),
        (9, 3, 100, 0),
        (20, 7, 100, 0),
        (20, 3, 40, 20),
        (20, 3, 20, 0),
        (90, 3, 100, 90),
        (100, 3, 100, 0),
    ],
)
def test_answers_as_short_as_labels_beside_long_ones(brief: int, words: int, others: int, told: int) -> None:
    """Scores that a log keeps where it has answers lower the rate, and a gate passed without a word."""
    sample = RecordedSample()
    for n in range(100):
        sample.add(output(n, length=words if n < brief else others, cluster=n + 1), truncated=False)
    assert sample.brief == told


@pytest.mark.parametrize("traced", [True, False])
def test_two_spans_of_one_request_are_one_prompt(traced: bool) -> None:
    """The client's span and its gateway's, whose prompt has a system message more: 80 short answers passed a
    gate that needs 149."""
    sample = RecordedSample()
    for n in range(80):
        for side in (0, 1000):
            one = output(n, length=8, cluster=1 + n + side, request=n + 1 if traced else 0)
            sample.add(one, truncated=False)
    assert len(list(sample.clusters())) == (80 if traced else 160)
    assert len(sample.observations(tokens=False)) == (80 if traced else 160)
    again = RecordedSample.load(sample.dump())
    assert list(again.clusters()) == list(sample.clusters())
