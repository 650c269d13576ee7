"""The characters of bars, curves and sparklines in the terminal, with an ASCII fallback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class Glyphs:
    """A set of drawing characters.

    levels: from empty to full, for sparklines and curves. healthy, degenerate, lost, pending: segments of
    a bar, distinguishable without colour. here: marks the onset in a text. limit: marks a position on an
    axis. line: the axis. more: ellipsis.
    """

    levels: str
    healthy: str
    degenerate: str
    lost: str
    pending: str
    here: str
    limit: str
    line: str
    more: str


BLOCK_GLYPHS = Glyphs(" ▁▂▃▄▅▆▇█", "█", "▓", "▒", "░", "▶", "▲", "─", "…")
ASCII_GLYPHS = Glyphs(" .:-=+*#", "#", "x", "?", ".", ">>", "^", "-", "...")


def glyphs_for(console: Console) -> Glyphs:
    """Block characters if the console's encoding supports them, else ASCII."""
    try:
        "".join((BLOCK_GLYPHS.levels, BLOCK_GLYPHS.degenerate, BLOCK_GLYPHS.here)).encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII_GLYPHS
    return BLOCK_GLYPHS


def sparkline(values: Sequence[float | None], glyphs: Glyphs, *, top: float | None = None) -> str:
    """A sparkline with one character per value; a blank for None.

    top: the value of the highest level, by default the maximum. The lowest level is never blank, so that
    a value of 0 differs from a missing one.
    """
    highest = top if top is not None else max((v for v in values if v is not None), default=0.0)
    return "".join(" " if v is None else _level(v, highest, glyphs) for v in values)


def _level(value: float, top: float, glyphs: Glyphs) -> str:
    steps = len(glyphs.levels) - 1
    share = min(max(value / top, 0.0), 1.0) if top > 0.0 else 0.0
    return glyphs.levels[max(1, round(share * steps))]


def allocate_cells(parts: Sequence[int], total: int, width: int) -> list[int]:
    """Cells for each of `parts`, in proportion to its share of `total`, out of `width` cells.

    A part above 0 gets at least one cell if there are enough. The sum is at most `width`; the remaining
    cells represent the rest of `total`.
    """
    if total <= 0 or width <= 0:
        return [0 for _ in parts]
    cells = [max(1, part * width // total) if part else 0 for part in parts]
    while sum(cells) > width:
        cells[cells.index(max(cells))] -= 1
    if sum(parts) >= total and any(parts):
        cells[cells.index(max(cells))] += width - sum(cells)
    return cells
