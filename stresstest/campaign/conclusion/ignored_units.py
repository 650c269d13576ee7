"""Answers without any of the numbered units that were asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from stresstest.errors import UsageError
from stresstest.model import GenerationRecord, PlaneVerdict, RunSettings
from stresstest.tasks import OPEN_FORM, load_task

_MANY = 0.25
"""Share of the answers from which on the verdict says so."""


@dataclass(frozen=True, slots=True)
class IgnoredUnits:
    """`without` of the `asked` answers contain none of the units; what the service lost is left out."""

    without: int
    asked: int

    @property
    def many(self) -> bool:
        return self.without >= max(1.0, _MANY * self.asked)


def find_ignored_units(generations: Iterable[GenerationRecord]) -> IgnoredUnits | None:
    """None where no answer was asked for units, or none was read for them."""
    asked = [g for g in generations if g.job.units is not None and g.failure is None and not g.unseen_tokens]
    headings = [g.verdict.headings for g in asked if g.verdict.headings is not None]
    return IgnoredUnits(headings.count(0), len(headings)) if headings else None


def add_ignored_units(
    verdict: PlaneVerdict, found: IgnoredUnits | None, settings: RunSettings
) -> PlaneVerdict:
    """The verdict, with what many answers without units mean for it and the prompts that do without them."""
    if found is None or not found.many:
        return verdict
    words = (
        f"{found.without} of {found.asked} answers contain none of the requested numbered units; "
        f"structure breaks could not be detected there."
    )
    return replace(
        verdict, sentence=f"{verdict.sentence} {words}", advice=(*verdict.advice, _followed_prompts(settings))
    )


def _followed_prompts(settings: RunSettings) -> str:
    """Which prompts ask for nothing that this model ignores."""
    source = f"{settings.task_source}{OPEN_FORM}"
    try:
        load_task(source).language(settings.subject.language)
    except UsageError:
        return "The model ignores the numbering. Measure with prompts that it follows: --prompts FILE."
    return (
        f"The model ignores the numbering. Measure with prompts for prose without numbers: --task {source}."
    )
