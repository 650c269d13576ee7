"""Which generation represents the failures of a run: its text is the one that reports show. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from stresstest.model import GenerationRecord


def representative_failure(generations: Iterable[GenerationRecord]) -> GenerationRecord | None:
    """The degenerate generation with the median onset; None where nothing degenerated."""
    failing = sorted(
        (g for g in generations if g.verdict.degenerate), key=lambda g: (g.verdict.onset or 0, g.key)
    )
    return failing[len(failing) // 2] if failing else None
