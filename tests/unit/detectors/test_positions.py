"""Positions on another scale: what began, what ended, and zones that meet without a gap."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stresstest.detectors.verdict import PositionMap
from stresstest.model import GenerationVerdict, Symptom, SymptomKind, Zone, ZoneKind


@given(st.integers(1, 12), st.integers(1, 40), st.integers(0, 40), st.integers(2, 40))
def test_a_mapped_verdict_keeps_its_order(size: int, onset: int, later: int, tokens: int) -> None:
    """Tokens in groups of `size`: alarm and end never lie before the onset, the zones cover everything."""
    onset = min(onset, tokens)
    end = min(onset + later, tokens)
    zones = tuple(
        zone
        for zone in (Zone(ZoneKind.STABLE, 1, onset - 1), Zone(ZoneKind.COLLAPSED, onset, tokens))
        if zone.start <= zone.end
    )
    symptom = Symptom(SymptomKind.LOOP, onset, end, end=end)
    verdict = GenerationVerdict(tokens, onset - 1, onset, end, SymptomKind.LOOP, (symptom,), zones)
    groups = PositionMap(-(-tokens // size), first=lambda n: (n - 1) // size + 1, last=lambda n: n // size)
    found = groups.verdict(verdict)
    assert found.onset is not None
    assert found.alarm is not None
    assert found.observed == found.onset - 1 < found.onset <= found.alarm
    assert found.symptoms[0].end is not None
    assert found.onset == found.symptoms[0].onset <= found.symptoms[0].end
    covered = [n for zone in found.zones for n in range(zone.start, zone.end + 1)]
    assert covered == list(range(1, found.tokens + 1))


def test_the_identity_changes_nothing() -> None:
    """One scale, one verdict."""
    symptom = Symptom(SymptomKind.LOOP, 5, 8, start=3, end=9)
    zones = (Zone(ZoneKind.STABLE, 1, 4), Zone(ZoneKind.COLLAPSED, 5, 9))
    verdict = GenerationVerdict(9, 4, 5, 8, SymptomKind.LOOP, (symptom,), zones)
    assert PositionMap(9, first=lambda n: n, last=lambda n: n).verdict(verdict) == verdict
    healthy = GenerationVerdict(9, 7)
    assert PositionMap(9, first=lambda n: n, last=lambda n: n).verdict(healthy) == healthy
