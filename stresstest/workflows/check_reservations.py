"""What may stand against a pass on recorded outputs: nobody planned them, nobody vouches for them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from stresstest.errors import UsageError
from stresstest.threshold.assessment import Rule
from stresstest.threshold.reservations import LeftAside, left_aside, repeated
from stresstest.workflows.check_sample import Sample


@dataclass(frozen=True, slots=True)
class Reservations:
    """What may stand against a pass on recorded outputs. same, healthy: of the candidate's healthy ones at T,
    those that are word for word the baseline's."""

    aside: LeftAside | None = None
    same: int = 0
    healthy: int = 0

    @property
    def mostly_same(self) -> bool:
        return 2 * self.same > self.healthy

    def against_a_pass(self, rule: Rule) -> str | None:
        """Why a pass is not believed: the outputs left aside fail, or the sample is the baseline's own."""
        aside = self.aside
        if aside is not None and aside.lower is not None and aside.lower > rule.alpha:
            return (
                f"the first output of every prompt passes, but of {aside.outputs} further outputs of the "
                f"same prompts, which are not used, {aside.failed} of {aside.at_risk} at risk for T = "
                f"{rule.tokens:,} {rule.unit} degenerate: surely more than {rule.alpha:.1%}"
            )
        if self.mostly_same:
            return (
                f"{self.same} of the candidate's {self.healthy} answers that reach T = {rule.tokens:,} "
                f"{rule.unit} in health are word for word the baseline's: the sample that chose T cannot "
                "test it"
            )
        return None


def refuse_itself(before: Collection[str], after: Collection[str]) -> None:
    """UsageError where one file, or a copy of it, is on both sides: a run against itself is refused too."""
    for one in before:
        for other in after:
            if _same_file(Path(one), Path(other)):
                raise UsageError(
                    f"{other} is {one}, or a copy of it: its sample chose T and cannot test it.",
                    hint="Record the candidate's own outputs.",
                )


def _same_file(one: Path, other: Path) -> bool:
    try:
        if one.samefile(other):
            return True
        sizes = one.stat().st_size, other.stat().st_size
        return sizes[0] == sizes[1] > 0 and _content(one) == _content(other)
    except OSError:  # stdin, or a file that is gone since it was read
        return False


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").digest()


def reservations_of(baseline: Sample, candidate: Sample, rule: Rule) -> Reservations:
    """Those of a recorded candidate; none of a run, whose every prompt was planned."""
    if not candidate.files:
        return Reservations()
    aside = left_aside(rule.tokens, candidate.further, rule.confidence)
    if not baseline.files:
        return Reservations(aside)
    known = (*baseline.observations, *baseline.further)
    return Reservations(aside, *repeated(rule.tokens, known, candidate.observations))


def reservation_notes(baseline: Sample, candidate: Sample, found: Reservations) -> list[str]:
    """What a reader must know of recorded outputs, whatever the verdict."""
    notes = []
    if candidate.unread or candidate.lost:
        notes.append(
            "What holds no answer, or was given up by the service, may have failed: for a pass it has."
        )
    if found.same and not found.mostly_same:
        notes.append(
            f"{found.same} of the candidate's {found.healthy} answers that reach T in health are word for "
            "word the baseline's."
        )
    if baseline.further:
        notes.append(
            f"Of the baseline {len(baseline.further)} further outputs of the same prompts are not used: T "
            "stands on the first of each."
        )
    return notes
