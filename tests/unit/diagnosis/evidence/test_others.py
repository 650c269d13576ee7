"""How many requests other clients have at a server, by its `/metrics` and the campaign's own requests."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stresstest.diagnosis.evidence.others import OthersLoad, measure_others
from stresstest.model import GenerationRecord, ServerSample
from tests.support.generations import make, make_job


def generation(index: int, started: float, ended: float) -> GenerationRecord:
    return replace(make(make_job(index=index), 10).to_record(), started=started, ended=ended)


OWN = [generation(i, 10.0 + i, 20.0 + i) for i in range(4)]


def test_what_the_server_counts_beyond_the_own_requests_is_others() -> None:
    """Four of its own at 15 s, two at 21.5 s; the server's queue counts too, a missing gauge is no zero."""
    samples = [
        ServerSample(15.0, running=7.0, waiting=2.0),
        ServerSample(16.0, running=None),
        ServerSample(21.5, running=3.0, waiting=None),
        ServerSample(40.0, running=30.0),
    ]
    assert measure_others(OWN, samples) == OthersLoad(3.0, 5.0, 2)
    assert measure_others(OWN, samples[-1:]) is None
    assert measure_others([], samples) is None


@given(st.lists(st.tuples(st.floats(0, 50), st.integers(0, 4)), min_size=1, max_size=30))
def test_a_server_of_ones_own_has_no_others(readings: list[tuple[float, int]]) -> None:
    """A server that counts the own requests, or fewer of them, is never said to have others."""
    samples = [
        ServerSample(at, running=max(0.0, sum(g.started <= at < g.ended for g in OWN) - late))
        for at, late in readings
    ]
    found = measure_others(OWN, samples)
    assert found is None or found.median == found.most == 0.0
