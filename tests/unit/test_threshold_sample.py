"""From generations to observations: what censors, what is doubtful, what counts once."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stresstest.model import Observation, SymptomKind
from stresstest.threshold import deduplicate, observations, outcome, risk_at
from tests.unit._deciding import make, make_job

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


def test_truncation_by_a_cut_is_no_onset() -> None:
    """A stream cut in mid-sentence is the service's doing; a loop before the cut is still a loop."""
    cut = make(JOB, 250, 240, symptom=SymptomKind.TRUNCATION, lost=True)
    loop = make(JOB, 250, 120, lost=True)
    assert [o.onset for o in observations([cut, loop])] == [None, 120]
    assert observations([cut])[0].observed == 239


def test_open_candidate_at_the_cap_is_doubtful() -> None:
    """Stopped by the cap inside an open run: unresolved. Ended by itself, or nothing open: not."""
    capped = make(JOB, 1000, observed=960, finish="length")
    clean = make(JOB, 1000, finish="length")
    ended = make(JOB, 1000, observed=960)
    server = make(JOB, 1000, finish="repetition")
    assert [o.unresolved for o in observations([capped, clean, ended, server])] == [True, False, False, True]


@given(st.integers(1, 100), st.none() | st.integers(1, 100), st.integers(1, 120))
def test_an_invalid_window_hides_all_that_follows(observed: int, onset: int | None, cut: int) -> None:
    """Nothing from `invalid_from` on counts, whatever the outcome was."""
    raw = Observation(onset, onset - 1 if onset else observed, invalid_from=cut)
    found = outcome(raw)
    assert found.reach < cut
    assert (found.onset is not None) == (onset is not None and onset < cut)
    for tokens in range(cut, 125):
        assert risk_at(tokens, [raw]) in ((0, 0), (1, 1))


def test_identical_outputs_count_once_at_temperature_zero() -> None:
    """Ten copies of one answer are one answer; under sampling they are ten that happen to agree."""
    copies = [make(make_job(index=i), 30, timed=True) for i in range(10)]
    other = make(make_job(index=11), 30, timed=True, word="x")
    found = observations([*copies, other])
    assert len(deduplicate(found, 0.0)) == 2
    assert len(deduplicate(found, 0.7)) == len(deduplicate(found, None)) == 11


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
