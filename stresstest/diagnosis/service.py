"""Service failures as a link of the chain: the system plane by fact, without an intervention. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from stresstest.diagnosis.evidence import lost
from stresstest.diagnosis.forks import failing
from stresstest.diagnosis.wording import link_sentence
from stresstest.model import Basis, Generation, Link, Plane

_FEW = 0.1
"""A campaign of which a smaller share fails has no further link: what is left is rare."""


def service_link(run_id: str, generations: Sequence[Generation]) -> Link | None:
    """The link of a run whose failures are service failures in at least half; None where they are fewer."""
    taken = [g for g in generations if lost(g)]
    if not taken or len(taken) < len(failing(generations)):
        return None
    kinds = Counter(str(g.failure.kind) for g in taken if g.failure is not None)
    link = Link(
        run_id=run_id,
        plane=Plane.SYSTEM,
        basis=Basis.OBSERVED,
        symptom=None,
        median_onset=None,
        n=len(taken),
        sentence="",
        kinds=dict(kinds),
        notes=(f"{len(taken)} of {len(generations)} generations were lost to service failures, a fact",),
    )
    return replace(link, sentence=link_sentence(link))


def fails_enough(generations: Sequence[Generation]) -> bool:
    """Whether enough of a campaign fails to be a link of its own."""
    down = len(failing(generations)) + sum(lost(g) for g in generations)
    return down >= max(2, _FEW * len(generations))
