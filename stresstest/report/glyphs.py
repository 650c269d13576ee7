"""The signs that pictures in a terminal are made of: bars and strips, with plain ASCII where need be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class Glyphs:
    """levels: from empty to full, for strips and curves. healthy, degenerate, lost, pending: pieces of a
    bar, told apart without colour. here: the onset in a text. limit: a place on an axis. line: the axis.
    more: text goes on."""

    levels: str
    healthy: str
    degenerate: str
    lost: str
    pending: str
    here: str
    limit: str
    line: str
    more: str


BLOCKS = Glyphs(" ▁▂▃▄▅▆▇█", "█", "▓", "▒", "░", "▶", "▲", "─", "…")
ASCII = Glyphs(" .:-=+*#", "#", "x", "?", ".", ">>", "^", "-", "...")


def glyphs_for(console: Console) -> Glyphs:
    """Blocks where the console's encoding can write them, else ASCII."""
    try:
        "".join((BLOCKS.levels, BLOCKS.degenerate, BLOCKS.here)).encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return BLOCKS


def strip(values: Sequence[float | None], glyphs: Glyphs, *, top: float | None = None) -> str:
    """A sparkline, one character a value, from 0 to `top` (the largest value). Not measured: a blank.

    A value above 0 never looks like 0.
    """
    highest = top if top is not None else max((v for v in values if v is not None), default=0.0)
    return "".join(" " if v is None else _level(v, highest, glyphs) for v in values)


def _level(value: float, top: float, glyphs: Glyphs) -> str:
    steps = len(glyphs.levels) - 1
    share = min(max(value / top, 0.0), 1.0) if top > 0.0 else 0.0
    return glyphs.levels[max(1, round(share * steps))]


def shares(parts: Sequence[int], total: int, width: int) -> list[int]:
    """`width` cells dealt out to `parts` of `total`; a part that is not 0 gets a cell where there is one.

    The cells of all parts together are at most `width`; what is left belongs to the rest.
    """
    if total <= 0 or width <= 0:
        return [0 for _ in parts]
    cells = [max(1, part * width // total) if part else 0 for part in parts]
    while sum(cells) > width:
        cells[cells.index(max(cells))] -= 1
    if sum(parts) >= total and any(parts):
        cells[cells.index(max(cells))] += width - sum(cells)
    return cells
