"""System evidence in time: before an onset a suspicion, after it nothing; health is censored alike."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stresstest.diagnosis import annotate_planes
from stresstest.model import EndpointProfile, Generation, GenerationRecord, Plane, ServerSample, SymptomKind
from stresstest.statistics import observations, risk_at
from tests.support.generations import make, make_job

PROFILE = EndpointProfile("http://localhost:8000/v1", "lab", metrics=True)


def samples(
    preempted_at: float = 1e9, kv: float = 0.2, kv_late: float | None = None, queue_from: float = 1e9
) -> list[ServerSample]:
    """One reading every 250 ms for 15 s, from half a second before the start. kv_late: from second 5 on."""
    found = []
    for i in range(-2, 60):
        at = i * 0.25
        usage = kv_late if kv_late is not None and at >= 5.0 else kv
        waiting = 6.0 if at >= queue_from else 0.0
        found.append(ServerSample(at, 4.0, waiting, usage, 3.0 + (at >= preempted_at)))
    return found


def failing(onset: int = 400) -> Generation:
    """Tokens every 10 ms from time 0: an onset at token 400 arrives at second 4."""
    return make(make_job(), 900, onset, timed=True)


def one(generation: Generation, readings: list[ServerSample]) -> GenerationRecord:
    (found,) = annotate_planes([generation], readings, PROFILE)
    return found


def test_quiet_server_is_listed_against_the_system() -> None:
    """Clean facts count too: no preemption, a nearly empty cache, an empty queue before the onset."""
    found = one(failing(), samples())
    assert (found.plane, found.invalid_from) == (None, None)
    assert [e.supports for e in found.evidence] == [False, False, False]
    facts = " | ".join(e.fact for e in found.evidence)
    assert "0 preemptions before the onset" in facts
    assert "KV cache ≤ 20 %" in facts
    assert "at most 0 requests waiting" in facts


def test_calm_readings_prove_nothing_where_others_are_missing() -> None:
    """A busy API process does not answer /metrics: what happened in those seconds is not known. A full cache
    that was seen remains evidence."""
    long = make(make_job(), 1400, 1200, timed=True)
    gap = [s for s in samples() if s.at < 1.0 or s.at > 11.0]
    found = one(long, gap)
    assert found.plane is None
    (fact,) = found.evidence
    assert fact.value is None
    assert "not measured before the onset: preemptions, KV cache usage, the waiting queue" in fact.fact
    assert "no reading of /metrics for 10.5 s" in fact.fact
    early = [replace(s, kv_usage=0.97) if s.at < 1.0 else s for s in gap]
    assert one(long, early).plane is Plane.SYSTEM
    assert len(one(long, samples()).evidence) == 3


def test_preemption_before_the_onset_is_suspected_and_invalidates() -> None:
    """Seen at second 2, it can have happened since second 1.75: token 176 is the first in doubt."""
    found = one(failing(), samples(preempted_at=2.0))
    assert found.plane is Plane.SYSTEM
    assert found.invalid_from == 176
    (fact,) = [e for e in found.evidence if e.supports]
    assert (fact.value, fact.at) == (1.0, 2.0)


def test_preemption_after_the_onset_is_the_loops_own_doing() -> None:
    """A preemption at second 6, two after the onset, neither excuses it nor hides it."""
    found = one(failing(), samples(preempted_at=6.0))
    assert (found.plane, found.invalid_from) == (None, None)


def test_healthy_generations_are_censored_by_the_same_preemption() -> None:
    """Dropping only the failures would flatter the model: both sides lose what followed."""
    readings = samples(preempted_at=2.0)
    healthy, bad = annotate_planes([make(make_job(), 900, timed=True), failing()], readings, PROFILE)
    assert healthy.invalid_from == bad.invalid_from == 176
    assert healthy.plane is None
    assert risk_at(175, observations([healthy, bad])) == (2, 0)
    assert risk_at(176, observations([healthy, bad])) == (0, 0)


@given(st.floats(0.1, 14.0), st.integers(1, 850))
def test_a_preemption_never_hides_an_earlier_onset(preempted_at: float, onset: int) -> None:
    """Whatever the timing: an onset that arrived before the preemption could be seen always counts."""
    found = one(failing(onset), samples(preempted_at=preempted_at))
    if preempted_at > onset * 0.01 + 0.25:
        assert found.invalid_from is None
    if found.invalid_from is not None:
        assert found.plane is Plane.SYSTEM
        assert found.invalid_from <= onset + 1


def test_full_cache_and_growing_queue_raise_suspicion_only_before_the_onset() -> None:
    """KV at 97 % and a queue of six: suspicious from the start, irrelevant from second 5 on."""
    assert one(failing(), samples(kv=0.97)).plane is Plane.SYSTEM
    assert one(failing(), samples(queue_from=2.0)).plane is Plane.SYSTEM
    assert one(failing(), samples(kv_late=0.97, queue_from=5.0)).plane is None


def test_not_measured_is_said_and_is_no_evidence() -> None:
    """Without readings nothing is claimed either way."""
    (found,) = annotate_planes([failing()], [], replace(PROFILE, metrics=False))
    (note,) = found.evidence
    assert (note.supports, note.value, found.plane) == (False, None, None)
    assert "not measured before the onset: preemptions, KV cache usage, the waiting queue" in note.fact
    assert "shows no metrics" in note.fact


def test_readings_of_an_earlier_session_are_no_base() -> None:
    """A counter last read an hour ago says nothing about this generation."""
    old = ServerSample(-3600.0, 0.0, 0.0, 0.1, 0.0)
    found = one(failing(), [old, *samples()])
    assert (found.plane, found.invalid_from) == (None, None)
    assert one(failing(), [old]).evidence[0].value is None


def test_service_failure_is_system_by_fact() -> None:
    """A cut stream needs no further proof; its truncated last sentence is no failure of the model."""
    cut = make(make_job(), 300, lost=True, timed=True)
    found = one(cut, samples())
    assert found.plane is Plane.SYSTEM
    assert "service failure after 300 tokens" in found.evidence[0].fact
    truncated = make(make_job(), 300, 290, symptom=SymptomKind.TRUNCATION, lost=True, timed=True)
    assert one(truncated, samples()).plane is Plane.SYSTEM


def test_failure_after_an_onset_does_not_take_the_blame() -> None:
    """A loop that ran into a timeout is a loop."""
    found = one(make(make_job(), 900, 400, lost=True, timed=True), samples())
    assert found.plane is None
    assert "came after the onset at token 400" in found.evidence[-1].fact


def test_own_lag_decides_nothing_and_annotating_twice_is_the_same() -> None:
    """Our event loop's lag spoils timings only; a resumed run annotates stored generations again."""
    lagging = replace(failing(), loop_lag=9.0)
    once = one(lagging, samples(preempted_at=2.0))
    assert once == replace(one(failing(), samples(preempted_at=2.0)), loop_lag=9.0)
    assert one(once.with_tokens(lagging.tokens), samples(preempted_at=2.0)) == once
