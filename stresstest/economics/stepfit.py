"""The step model's parameters from what each request lived through: linear, robust, quick.

A request gets one token a step. Between two of its moments it therefore lived through as many steps as it got
tokens, and the time between them is the sum of those steps' times: linear in the step model's parameters,
with the mean number of running sequences and the mean resident KV that it met as regressors. Robust least
squares (soft L1 on relative errors, parameters >= 0) with a weak pull towards a typical card's proportions,
which only decides what the data leave open (at a constant load, base and per-sequence time cannot be told
apart).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from stresstest.model.cost import Span
from stresstest.simulation.engine import StepTime

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_SEGMENTS = 16
"""Equations that one request gives at most: its moments are thinned to so many."""
_GRID = 4096
"""Moments at which the load of a busy period is reckoned."""
PULL = 0.02
"""Weight of the prior proportions, beside one relative error of each request."""


def equations(periods: Sequence[Sequence[Span]]) -> tuple[Floats, Floats]:
    """(segments x 4 of steps, their sequences, 1k KV tokens and 1k prefilled tokens; seconds of each)."""
    import numpy as np

    rows: list[list[float]] = []
    seconds: list[float] = []
    for period in periods:
        load = _Load(period)
        for span in period:
            marks = _moments(span)
            for (first, begin), (last, end) in pairwise(marks):
                if end > begin and last > first:
                    rows.append(load.row(last - first, begin, end))
                    seconds.append(end - begin)
    return np.asarray(rows), np.asarray(seconds)


def _moments(span: Span) -> list[tuple[int, float]]:
    """(tokens by then, seconds): thinned; a request without marks is known at its beginning and end only."""
    if len(span.marks) > 1:
        every = max(1, (len(span.marks) - 1) // _SEGMENTS)
        return [*span.marks[:-1:every], span.marks[-1]]
    began = span.submitted if span.start is None else span.start
    end = (span.output_tokens, span.end)
    return [(0, began), end] if span.first_token is None else [(1, span.first_token), end]


class _Load:
    """How many sequences ran and how much KV was resident, over one busy period."""

    def __init__(self, period: Sequence[Span]) -> None:
        import numpy as np

        begin = min(span.submitted for span in period)
        end = max(span.end for span in period)
        self._grid = np.linspace(begin, end, _GRID)
        running, resident = np.zeros(_GRID), np.zeros(_GRID)
        prefills = []
        for span in period:
            marks = _moments(span)
            lo, hi = np.searchsorted(self._grid, (marks[0][1], marks[-1][1]), side="left")
            inside = self._grid[lo:hi]
            running[lo:hi] += 1.0
            tokens = np.interp(inside, [at for _, at in marks], [float(n) for n, _ in marks])
            resident[lo:hi] += tokens + (span.prompt_tokens or 0)
            known = span.prompt_tokens is not None
            prefills.append((marks[0][1], float(span.prompt_tokens or 0) if known else 0.0))
        prefills.sort()
        self._at = np.asarray([at for at, _ in prefills])
        self._prefilled = np.concatenate([[0.0], np.cumsum([n for _, n in prefills])])
        self._running, self._resident = _integral(running, self._grid), _integral(resident, self._grid)

    def row(self, steps: int, begin: float, end: float) -> list[float]:
        """What the steps of a request between two moments depend on, summed over them."""
        import numpy as np

        span = end - begin
        running = float(np.diff(np.interp((begin, end), self._grid, self._running))[0]) / span
        resident = float(np.diff(np.interp((begin, end), self._grid, self._resident))[0]) / span
        lo, hi = np.searchsorted(self._at, (begin, end), side="left")
        prefilled = float(self._prefilled[hi] - self._prefilled[lo])
        return [float(steps), steps * max(running, 1.0), steps * resident / 1e3, prefilled / 1e3]


def _integral(values: Floats, grid: Floats) -> Floats:
    import numpy as np

    width = grid[1] - grid[0]
    return np.concatenate([[0.0], np.cumsum((values[1:] + values[:-1]) / 2.0 * width)])


def solved(rows: Floats, seconds: Floats) -> StepTime:
    """Milliseconds of the step model. Prefill that nothing depends on stays as the prior has it."""
    import numpy as np
    from scipy.optimize import least_squares

    usual = StepTime()
    prior = np.array([usual.base, usual.per_sequence, usual.per_1k_kv_tokens, usual.per_1k_prefill_tokens])
    relative = rows / seconds[:, None] / 1e3  # of milliseconds
    prior *= 1.0 / float(np.median(relative @ prior))
    pull = PULL * np.sqrt(len(seconds))

    def errors(theta: Floats) -> Floats:
        return np.concatenate([relative @ theta - 1.0, pull * (theta / prior - 1.0) / len(theta)])

    found = least_squares(errors, prior, bounds=(0.0, np.inf), loss="soft_l1", f_scale=0.1, x_scale=prior)
    base, sequence, kv, prefill = (float(each) for each in found.x)
    return StepTime(base, sequence, kv, prefill)
