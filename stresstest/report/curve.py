"""The survival curve as a terminal can show it: how many answers are still coherent after so many tokens."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from stresstest.model import RunResult
from stresstest.report.glyphs import Glyphs
from stresstest.report.text import count

HEIGHT = 5
_GUTTER = 7
"""Columns left of the picture: " 100 % "."""


def survival_lines(result: RunResult, width: int, glyphs: Glyphs) -> list[str]:
    """The Kaplan–Meier curve of the certifying sample, its axis below with T and the safe limit.

    Empty where no onset was seen: a flat line shows nothing. width: columns of the terminal.
    """
    points = [(tokens, coherent) for tokens, coherent, _, _ in result.survival]
    if not points or points[-1][1] >= 1.0:
        return []
    columns = max(20, min(width - _GUTTER - 1, 72))
    end = points[-1][0]
    heights = [_coherent(points, end * (column + 0.5) / columns) for column in range(columns)]
    rows = _area(heights, glyphs)
    labels = {0: " 100 % ", HEIGHT // 2: "  50 % "}
    picture = [f"{labels.get(n, ' ' * _GUTTER)}{row}".rstrip() for n, row in enumerate(rows)]
    return [*picture, *_axis(result, end, columns, glyphs)]


def _coherent(points: Sequence[tuple[float, float]], tokens: float) -> float:
    """The step function's value at `tokens`."""
    at = bisect_right(points, tokens, key=lambda point: point[0])
    return points[max(at - 1, 0)][1]


def _area(heights: Sequence[float], glyphs: Glyphs) -> list[str]:
    """The area under the curve, top row first, in parts of a character's height."""
    steps = len(glyphs.levels) - 1
    rows = []
    for row in range(HEIGHT - 1, -1, -1):
        filled = [round(height * HEIGHT * steps) - row * steps for height in heights]
        rows.append("".join(glyphs.levels[min(max(n, 0), steps)] for n in filled))
    return rows


def _axis(result: RunResult, end: float, columns: int, glyphs: Glyphs) -> list[str]:
    """The line below the picture, the limit's mark on it, and what it stands for."""
    line = [glyphs.line] * columns
    says = f"0 to {count(end)} tokens"
    safe = result.safe_max_tokens
    if safe is not None and safe <= end:
        line[min(columns - 1, int(safe / end * columns))] = glyphs.limit
        says += f"; {glyphs.limit} safe max_tokens {count(safe)}"
    limit = result.threshold.tokens
    if limit is not None:
        says += f", T {count(limit)}"
    return [f"   0 % {''.join(line)}", f"{' ' * _GUTTER}{says}"]
