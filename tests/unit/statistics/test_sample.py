"""From generations to observations: what censors, what is doubtful, what counts once."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.model import RIGORS, FailureKind, GenerationRecord, Observation, SymptomKind
from stresstest.model.tokens import Token
from stresstest.statistics import certified_threshold, deduplicate, observations, risk_at, upper_bound
from stresstest.statistics.sample import censor, count_distinct_prompts, redrawn
from tests.support.generations import make, make_job

JOB = make_job()


def test_onset_and_healthy_end() -> None:
    """A failing generation keeps its onset; a healthy end is the competing event."""
    failing, healthy = observations([make(JOB, 900, 300), make(JOB, 400)])
    assert (failing.onset, failing.observed, failing.ended) == (300, 299, False)
    assert (healthy.onset, healthy.observed, healthy.ended, healthy.unresolved) == (None, 400, True, False)


def test_service_failure_censors_at_its_loss() -> None:
    """What was healthy up to the cut stays evidence up to the cut, and no longer."""
    (found,) = observations([make(JOB, 250, lost=True)])
    assert (found.onset, found.observed, found.ended, found.unresolved) == (None, 250, False, False)


@pytest.mark.parametrize(
    ("kind", "doubtful"),
    [
        (FailureKind.HTTP_ERROR, True),
        (FailureKind.CUT, True),
        (FailureKind.TIMEOUT, True),
        (FailureKind.BAD_REQUEST, False),
        (FailureKind.RATE_LIMITED, False),
    ],
)
def test_an_answer_of_which_nothing_arrived_is_doubtful(kind: FailureKind, doubtful: bool) -> None:
    """A proxy that buffers turns loops into time-outs: by chance, nothing is lost three times in a row."""
    made = make(JOB, 0, lost=True)
    assert made.failure is not None
    (found,) = observations([replace(made, failure=replace(made.failure, kind=kind))])
    assert (found.onset, found.observed, found.unresolved) == (None, 0, doubtful)


@pytest.mark.parametrize("lost", [1, 4, 9])
def test_answers_that_never_arrive_are_no_evidence_of_health(lost: int) -> None:
    """A fifth of the sample is missing: nothing is certified. One in forty is a failure at worst."""
    healthy = [make(make_job(index=i), 1000) for i in range(40 - lost)]
    missing = [make(make_job(index=40 + i), 0, lost=True) for i in range(lost)]
    threshold = certified_threshold([*healthy, *missing], RIGORS["quick"])
    assert threshold.certified is (lost == 1)


def test_a_request_that_was_refused_at_last_may_have_failed_before() -> None:
    """A loop ran into a time limit, and the second attempt got a 429: no model refused the first."""
    made = make(JOB, 0, lost=True)
    assert made.failure is not None
    refused = replace(made, failure=replace(made.failure, kind=FailureKind.RATE_LIMITED), unanswered_s=60.0)
    (found,) = observations([refused])
    assert (found.onset, found.observed, found.unresolved) == (None, 0, True)


def answered(
    index: int, *, first: float = 4.0, onset: int | None = None, vain: float = 0.0
) -> GenerationRecord:
    """An answer of five seconds. first: when its first token came; vain: seconds of an attempt before."""
    made = make(make_job(index=index), 400, onset)
    return replace(made, started=10.0, first_token=10.0 + first, ended=15.0, unanswered_s=vain)


def test_an_answer_drawn_anew_says_nothing_of_the_first() -> None:
    """A service that holds answers back shows nothing of a loop that it fails: the first draw counts."""
    sample = [*map(answered, range(8)), answered(8, vain=60.0), answered(9, onset=300, vain=60.0)]
    *calm, healthy, failed = observations(sample)
    assert all((o.observed, o.unresolved, o.ended) == (400, False, True) for o in calm)
    assert (healthy.onset, healthy.observed, healthy.unresolved, healthy.ended) == (None, 0, True, False)
    assert (failed.onset, failed.observed, failed.unresolved) == (300, 0, False)


def test_an_answer_whose_first_draw_failed_is_no_evidence_of_health() -> None:
    """Its process was killed, and the server gave another one when it was asked again."""
    first, second = observations([replace(answered(0), redrawn=True), answered(1)])
    assert (first.observed, first.unresolved, second.observed) == (0, True, 400)


@pytest.mark.parametrize(
    ("late", "vain", "counted"),
    [
        (10, 60.0, True),
        (1, 60.0, True),
        (0, 60.0, False),
        (10, 5.0, True),
        (10, 4.9, False),
        (10, 0.0, False),
    ],
)
def test_only_what_may_have_been_generated_counts(late: int, vain: float, counted: bool) -> None:
    """Where answers are streamed, or nothing lasted as long as an answer takes, no loop can have hidden."""
    sample = [answered(i, first=4.0 if i < late else 0.1, vain=vain if i == 5 else 0.0) for i in range(10)]
    assert redrawn(sample) == ({sample[5].key} if counted else set())


@pytest.mark.parametrize(("tokens", "reason", "ended"), [
    (1000, "eos", True), (1000, "completed", False), (700, "completed", True), (1000, "length", False),
    (700, "weird", False), (700, "content_filter", False), (700, "tool_calls", True),
    (1000, "MAX_TOKENS", False),
])  # fmt: skip
def test_an_unknown_finish_reason_at_the_cap_is_no_natural_end(tokens: int, reason: str, ended: bool) -> None:
    """Else a server with its own word for the cap would make every capped answer a healthy end."""
    [found] = observations([replace(make(make_job(max_tokens=1000), tokens), finish_reason=reason)])
    assert found.ended is ended


@pytest.mark.parametrize("reason", ["content_filter", "RECITATION", "repetition", "weird", "ERROR_LIMIT"])
def test_an_answer_that_the_service_ended_may_have_failed(reason: str) -> None:
    """A filter cut each loop ten tokens into its second copy, before any alarm: "0 of 21" for 40 %."""
    [found] = observations([replace(make(make_job(max_tokens=1000), 700), finish_reason=reason)])
    assert (found.onset, found.observed, found.unresolved, found.ended) == (None, 700, True, False)


def test_a_loss_with_an_open_candidate_is_doubtful() -> None:
    """Leaving it out at its candidate while the healthy ones stay on to the loss would drop failures only."""
    (found,) = observations([make(JOB, 352, observed=288, lost=True)])
    assert (found.onset, found.observed, found.unresolved) == (None, 288, True)


@pytest.mark.parametrize("end", [[" the"] * 31, ["\n"] * 16, ["and", "so", "it", "went", "on,"] * 4])
def test_a_loss_in_the_midst_of_repetitions_is_doubtful(end: list[str]) -> None:
    """Ollama breaks an answer off after 31 equal tokens: "none of 317" was certified where 3 % failed."""
    told = [f"w{n} " for n in range(300)]
    cut = make(JOB, 300 + len(end), observed=300, lost=True)
    repeated, healthy = (
        replace(cut, tokens=tuple(map(Token, texts)))
        for texts in ([*told, *end], [*told, *[f"x{n} " for n in range(len(end))]])
    )
    assert [o.unresolved for o in observations([repeated, healthy])] == [True, False]


def test_no_position_lies_beyond_the_cap() -> None:
    """Whatever a server counted, nothing was asked for beyond max_tokens and nothing is known there."""
    job = make_job(max_tokens=400)
    healthy, failing = observations([make(job, 1200), make(job, 1200, 781)])
    assert healthy.observed == 400
    assert (failing.onset, failing.observed) == (400, 399)


def test_truncation_by_a_cut_is_no_onset() -> None:
    """A stream cut in mid-sentence is the service's doing; a loop before the cut is still a loop."""
    cut = make(JOB, 250, 240, symptom=SymptomKind.TRUNCATION, lost=True)
    loop = make(JOB, 250, 120, lost=True)
    assert [o.onset for o in observations([cut, loop])] == [None, 120]
    assert observations([cut])[0].observed == 239


def test_open_candidate_at_the_end_is_doubtful() -> None:
    """Stopped inside an open run, by the cap or by itself (drifting just before its end): unresolved."""
    capped = make(JOB, 1000, observed=960, finish="length")
    clean = make(JOB, 1000, finish="length")
    ended = make(JOB, 1000, observed=960)
    server = make(JOB, 1000, finish="repetition")
    assert [o.unresolved for o in observations([capped, clean, ended, server])] == [True, False, True, True]


@given(st.integers(1, 100), st.none() | st.integers(1, 100), st.integers(1, 120))
def test_an_invalid_window_hides_all_that_follows(observed: int, onset: int | None, cut: int) -> None:
    """Nothing from `invalid_from` on counts, whatever the outcome was."""
    raw = Observation(onset, onset - 1 if onset else observed, invalid_from=cut)
    found = censor(raw)
    assert found.reach < cut
    assert (found.onset is not None) == (onset is not None and onset < cut)
    for tokens in range(cut, 125):
        assert risk_at(tokens, [raw]) in ((0, 0), (1, 1))


def test_identical_outputs_count_once_at_temperature_zero() -> None:
    """Ten copies of one answer are one answer, whoever asked."""
    copies = [make(make_job(index=i), 30, timed=True) for i in range(10)]
    other = make(make_job(index=11), 30, timed=True, word="x")
    assert len(deduplicate(observations([*copies, other]), 0.0)) == 2


@pytest.mark.parametrize("temperature", [None, 0.0, 0.7])
def test_identical_outputs_of_a_prompt_count_once_at_any_temperature(temperature: float | None) -> None:
    """A server that is greedy by default or ignores the seed gives copies, and copies are no sample."""
    copies = [make(make_job(index=i), 300, timed=True, prompt_id="a") for i in range(38)]
    failing = [make(make_job(index=i), 300, 250, timed=True, prompt_id="b", word="x") for i in range(38)]
    for sample, expected in ((copies, (1, 0)), (failing, (1, 0))):
        assert risk_at(200, deduplicate(observations(sample), temperature)) == expected
    for sample in (copies, failing):
        assert not certified_threshold(sample, RIGORS["quick"], temperature=temperature).certified


def test_outputs_that_agree_over_prompts_are_kept_under_sampling() -> None:
    """Two prompts may well get the same short answer; an empty one repeats nothing."""
    agreeing = [make(make_job(index=i), 30, timed=True) for i in range(10)]
    empty = [make(make_job(index=20 + i), 0, prompt_id="a", lost=True) for i in range(3)]
    found = observations([*agreeing, *empty])
    assert len(deduplicate(found, 0.7)) == len(deduplicate(found, None)) == 13


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [None, 0.0, 0.7])
def test_one_answer_for_every_prompt_is_no_sample(temperature: float | None) -> None:
    """A cache that gives one long text to every prompt certified that text's length at the 38th copy."""
    cached = [make(make_job(index=i), 900, timed=True) for i in range(124)]
    assert len(deduplicate(observations(cached), temperature)) == 1
    assert not certified_threshold(cached, RIGORS["standard"], temperature=temperature).certified
    own = [make(make_job(index=i), 900, timed=True, word=f"w{i}") for i in range(124)]
    assert certified_threshold(own, RIGORS["standard"], temperature=temperature).certified


@pytest.mark.parametrize("temperature", [None, 0.0, 0.7])
def test_copies_of_rubbish_stay_failures(temperature: float | None) -> None:
    """A server that gives "!!!!" to every fourth request fails in a fourth of them, not once."""
    rubbish = [make(make_job(index=i), 30, 1, timed=True, word="!") for i in range(30)]
    healthy = [make(make_job(index=30 + i), 300, timed=True, word=f"w{i}") for i in range(94)]
    assert risk_at(300, deduplicate(observations([*rubbish, *healthy]), temperature)) == (124, 30)


def test_repeats_of_a_prompt_count_once_at_temperature_zero() -> None:
    """Near-identical replays of one greedy prompt: once, at the earliest onset."""
    twins = [
        make(make_job(index=0), 900, 500, prompt_id="a"),
        make(make_job(index=1), 900, 450, prompt_id="a"),
        make(make_job(index=2), 700, prompt_id="a"),
        make(make_job(index=3), 700, prompt_id="b"),
    ]
    distinct = [replace(o, digest=str(i)) for i, o in enumerate(observations(twins))]
    merged = deduplicate(distinct, 0.0)
    assert sorted((o.onset or 0, o.observed) for o in merged) == [(0, 700), (450, 449)]


@given(st.lists(st.tuples(st.integers(1, 60), st.booleans(), st.sampled_from("ab")), max_size=40))
def test_merging_keeps_the_bound_monotone(drawn: list[tuple[int, bool, str]]) -> None:
    """Copies that enter as failures only never make a larger T look safer."""
    sample = [
        Observation(at if fails else None, at - 1 if fails else at, name, f"{name}{fails}{at % 3}")
        for at, fails, name in drawn
    ]
    merged = deduplicate(sample, None)
    bounds = [upper_bound(d, n, 0.9) for n, d in (risk_at(t, merged) for t in range(1, 65))]
    assert all(a <= b + 1e-12 for a, b in pairwise(bounds))


@given(st.permutations(range(6)))
def test_deduplication_ignores_the_order(order: list[int]) -> None:
    """A resumed run stores in another order and must certify the same."""
    sample = [
        Observation(50, 49, "a", "1"),
        Observation(None, 80, "a", "2", invalid_from=30),
        Observation(None, 80, "b", "3"),
        Observation(None, 90, "b", "3", unresolved=True),
        Observation(None, 20, "c", "3", ended=True),
        Observation(None, 20, "d", "4", ended=True),
    ]

    def shape(found: list[Observation]) -> list[tuple[int, int, bool, bool]]:
        return sorted((o.onset or 0, o.observed, o.ended, o.unresolved) for o in found)

    assert shape(deduplicate([sample[i] for i in order], 0.0)) == shape(deduplicate(sample, 0.0))


@pytest.mark.parametrize(
    ("template", "distinct"),
    [
        ("Tell a story of a lighthouse. Request 8f14e45f-ceea-467f-ab7b-{0:012x}", 1),
        ("[2026-11-27T21:{0:02}:07Z] Tell a story of a lighthouse.", 1),
        ("请写第{0}章的故事", 1),
        ("Tell  a story{1}of a lighthouse.{1}", 1),
        ("Tell a story of {2}.", 12),
        ("Question {0}: tell a story of {2}.", 12),
        ("", 12),
    ],
)
def test_prompts_that_differ_only_in_numbers_and_blanks_are_one(template: str, distinct: int) -> None:
    """A prompt with a new request id in each line was certified as 38 distinct prompts. A store without
    texts goes by their names."""
    names = ("ash", "elm", "oak", "fir", "yew", "fig", "bay", "box", "plum", "pear", "lime", "larch")
    asked = [
        replace(make(make_job(index=i), 40), prompt_text=template.format(i + 1, " " * (i + 1), names[i]))
        for i in range(12)
    ]
    assert count_distinct_prompts(asked) == distinct
