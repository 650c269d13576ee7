"""Service failures as a link of the chain: the system plane by fact, where they are most of what fails."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stresstest.diagnosis.intervention.chain import has_enough_failures, service_link
from stresstest.model import Basis, Generation, Plane
from tests.support.generations import make, make_job


def campaign(healthy: int, degenerate: int, lost: int) -> list[Generation]:
    """So many of each, one prompt each."""
    made = [make(make_job(index=i), 900) for i in range(healthy)]
    made += [make(make_job(index=100 + i), 900, 400, prompt_id=f"d{i}") for i in range(degenerate)]
    return made + [make(make_job(index=200 + i), 90, lost=True) for i in range(lost)]


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_service_failures_lead_where_they_are_at_least_half_of_what_fails(
    healthy: int, degenerate: int, lost: int
) -> None:
    """Observed, never confirmed; with fewer of them the text is looked at first."""
    link = service_link("r", campaign(healthy, degenerate, lost))
    assert (link is not None) == (lost > 0 and lost >= degenerate)
    if link is not None:
        assert (link.plane, link.basis, link.n) == (Plane.SYSTEM, Basis.OBSERVED, lost)
        assert link.kinds == {"cut": lost}
        assert link.sentence == "service failures, caused by the system (observed)"


def test_a_rare_failure_is_no_further_link() -> None:
    """The chain ends where under a tenth of a campaign fails, or a single answer of a small one."""
    assert has_enough_failures(campaign(30, 2, 2))
    assert not has_enough_failures(campaign(38, 3, 0))
    assert not has_enough_failures(campaign(3, 1, 0))
    assert has_enough_failures(campaign(3, 1, 1))
