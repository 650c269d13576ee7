"""Fits the step time of the virtual engine to a measured server, from request times and lengths.

A linear fit gives the first estimate. A running request receives one token per step, so the number of steps
between two of its marks is its number of tokens, and the time between them is the sum of the step times. That
sum is linear in the step model's parameters, with the mean number of running sequences and the mean resident
KV in that interval as regressors. The fit is robust least squares (soft L1 on relative errors, parameters
>= 0) with a weak prior at the proportions of a typical GPU, which only matters where the data do not identify
a parameter (at constant load, base and per-sequence time cannot be distinguished).

The parameters are then adjusted until a replay of the same requests agrees best with the measured durations
and wall clocks: unlike the linear fit, a replay accounts for queues, preemptions and the end of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from stresstest.economics.replay import (
    UNBOUNDED_SEQUENCES,
    count_clients,
    group_by_batch,
    replay_request,
    replay_workload,
)
from stresstest.model.cost import RequestSpan
from stresstest.simulation.engine import EngineSpec, StepTime
from stresstest.simulation.engine.scenario.spec import KV_BLOCK_TOKENS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


_SEGMENTS = 16
"""Approximate maximum number of equations per request, to which its marks are thinned."""
_GRID = 4096
"""Number of grid points at which the load of a busy period is computed."""
PRIOR_WEIGHT = 0.02
"""Weight of the prior proportions, relative to one relative error per request."""


def step_equations(periods: Sequence[Sequence[RequestSpan]]) -> tuple[Floats, Floats]:
    """Regressors and seconds, one row per segment.

    The four columns are steps, and summed over the steps the sequences, 1k KV tokens and 1k prefilled tokens.
    """
    import numpy as np

    rows: list[list[float]] = []
    seconds: list[float] = []
    for period in periods:
        load = _LoadProfile(period)
        for span in period:
            marks = _moments(span)
            for (first, begin), (last, end) in pairwise(marks):
                if end > begin and last > first:
                    rows.append(load.row(last - first, begin, end))
                    seconds.append(end - begin)
    return np.asarray(rows), np.asarray(seconds)


def _moments(span: RequestSpan) -> list[tuple[int, float]]:
    """(tokens so far, seconds), thinned; without marks, only the start and end of the request."""
    if len(span.marks) > 1:
        every = max(1, (len(span.marks) - 1) // _SEGMENTS)
        return [*span.marks[:-1:every], span.marks[-1]]
    began = span.submitted if span.start is None else span.start
    end = (span.output_tokens, span.end)
    return [(0, began), end] if span.first_token is None else [(1, span.first_token), end]


class _LoadProfile:
    """Running sequences and resident KV tokens over one busy period."""

    def __init__(self, period: Sequence[RequestSpan]) -> None:
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
            prefills.append((marks[0][1], float(span.prompt_tokens or 0)))
        prefills.sort()
        self._at = np.asarray([at for at, _ in prefills])
        self._prefilled = np.concatenate([[0.0], np.cumsum([n for _, n in prefills])])
        self._running, self._resident = _integral(running, self._grid), _integral(resident, self._grid)

    def row(self, steps: int, begin: float, end: float) -> list[float]:
        """The regressors of `steps` steps of a request between two times in seconds."""
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


def solve_step_model(rows: Floats, seconds: Floats) -> StepTime:
    """The step model in milliseconds. Without prefill in the data, its parameter stays at the prior."""
    import numpy as np
    from scipy.optimize import least_squares

    usual = StepTime()
    prior = np.array([usual.base, usual.per_sequence, usual.per_1k_kv_tokens, usual.per_1k_prefill_tokens])
    relative = rows / seconds[:, None] / 1e3  # of milliseconds
    prior *= 1.0 / float(np.median(relative @ prior))
    pull = PRIOR_WEIGHT * np.sqrt(len(seconds))

    def errors(theta: Floats) -> Floats:
        return np.concatenate([relative @ theta - 1.0, pull * (theta / prior - 1.0) / len(theta)])

    found = least_squares(errors, prior, bounds=(0.0, np.inf), loss="soft_l1", f_scale=0.1, x_scale=prior)
    base, sequence, kv, prefill = (float(each) for each in found.x)
    return StepTime(base, sequence, kv, prefill)


MIN_REQUESTS = 8
"""Minimum number of requests to fit an engine."""
_WALL_CLOCK_WEIGHT = 0.5
"""Weight of a wall clock relative to the errors of all its requests together."""
_MAX_LOG_SHIFT = 2.0
"""Maximum change of a parameter from its first estimate, as a natural logarithm."""
_BATCHED_TOKENS = 8_192
_PREFILL_STEPS, _PREFILL_STEPS_EACH = 20_000, 4
"""Steps that all prompts of a replay may take, at least and for each request."""
_MAX_ESTIMATED, _MAX_REPLAYED = 20_000, 1_500
"""Maximum number of requests for the first estimates, and of those replayed during the fit."""


@dataclass(frozen=True, slots=True)
class FittedEngine:
    """A virtual engine fitted to a measured server.

    spec: its step time and sizes. concurrency: number of clients of the measured workload, None for an open
    loop. n: requests used for the fit. error: median absolute relative error of the replayed durations;
    wall_error: median relative error of the wall clocks (signed, replayed over measured, minus 1).
    """

    spec: EngineSpec
    concurrency: int | None
    n: int
    error: float
    wall_error: float


def fit_engine(spans: Sequence[RequestSpan], *, kv_cache_tokens: int | None = None) -> FittedEngine | None:
    """Fit the engine to requests of one server; None with fewer than `MIN_REQUESTS` usable ones.

    kv_cache_tokens: that of the server, if known; otherwise the KV cache is large enough for all requests.
    """
    known = (s for s in spans if s.failure is None or s.loops)  # a loop that was given up held its place
    usable = [s for s in known if s.output_tokens > 1 and s.end > s.submitted]
    if len(usable) < MIN_REQUESTS:
        return None
    periods = group_by_batch(usable)
    spec = EngineSpec(
        kv_cache_tokens=kv_cache_tokens or _with_ample_cache(periods),
        max_num_seqs=UNBOUNDED_SEQUENCES,
        max_num_batched_tokens=_prefill_chunk(usable),
        prefix_caching=False,
    )
    replays = _StepModelFit(spec, _first(periods, _MAX_REPLAYED))
    spec = replays.optimize(_first_estimates(_first(periods, _MAX_ESTIMATED)))
    errors, walls = replays.replay_errors(spec)
    error, wall = _median([abs(each) for each in errors]), _median(walls)
    return FittedEngine(spec, replays.clients, len(usable), error, wall)


def _prefill_chunk(spans: Sequence[RequestSpan]) -> int:
    """Tokens of prompts that one step computes: vLLM's own number, or more where prompts of millions of
    tokens would take a replay, of which a fit needs dozens, more steps than all the answers."""
    tokens = sum(replay_request(span).prompt_tokens for span in spans)
    steps = max(_PREFILL_STEPS, _PREFILL_STEPS_EACH * len(spans))
    return max(_BATCHED_TOKENS, math.ceil(tokens / steps))


def _first_estimates(periods: Sequence[Sequence[RequestSpan]]) -> list[StepTime]:
    """First estimates, from all token arrival times and from start and end times only.

    A client or proxy that is short of CPU receives tokens late and in bursts. Arrival times are then
    unreliable, but the duration of the whole request is not.
    """
    without_marks = [[replace(s, marks=(), first_token=None) for s in period] for period in periods]
    found = [step_equations(groups) for groups in (periods, without_marks)]
    return [solve_step_model(rows, seconds) for rows, seconds in found if len(rows)]


def _with_ample_cache(periods: Sequence[Sequence[RequestSpan]]) -> int:
    """Tokens of a KV cache that this workload cannot fill."""
    most = max(
        sum(replay_request(s).prompt_tokens + replay_request(s).output_tokens + KV_BLOCK_TOKENS for s in p)
        for p in periods
    )
    return max(most, 1 << 20)


class _StepModelFit:
    """Replays the measured requests with different step models."""

    def __init__(self, spec: EngineSpec, periods: Sequence[Sequence[RequestSpan]]) -> None:
        self.clients = count_clients(max(periods, key=len))
        self._spec = spec
        self._periods = [(period, [replay_request(span) for span in period]) for period in periods]

    def replay_errors(self, spec: EngineSpec) -> tuple[list[float], list[float]]:
        """Relative errors (replayed over measured, minus 1) of all durations, and of the wall clock of each
        busy period."""
        errors, walls = [], []
        for period, work in self._periods:
            again = replay_workload(spec, work, self.clients)
            wall = max(span.end for span in period) - period[0].submitted
            walls.append(again.seconds / wall - 1.0)
            for span, seconds in zip(period, again.durations, strict=True):
                errors.append(0.0 if seconds is None else seconds / span.duration - 1.0)
        return errors, walls

    def optimize(self, starts: Sequence[StepTime]) -> EngineSpec:
        """The engine with the step model whose replay agrees best, searched from the best of `starts`."""
        import numpy as np
        from scipy.optimize import least_squares

        given = min((self._rescale(step) for step in starts), key=self._disagreement)
        start = np.array(
            [given.base, given.per_sequence, given.per_1k_kv_tokens, given.per_1k_prefill_tokens]
        )
        start = np.maximum(start, 1e-3 * start.max())

        def errors(logs: Floats) -> Floats:
            each, walls = self.replay_errors(self._spec_with(start * np.exp(logs)))
            weight = _WALL_CLOCK_WEIGHT * np.sqrt(len(each) / len(walls))
            return np.concatenate(
                [np.log1p(each), weight * np.log1p(walls), PRIOR_WEIGHT * np.sqrt(len(each)) * logs]
            )

        found = least_squares(
            errors,
            np.zeros(4),
            bounds=(-_MAX_LOG_SHIFT, _MAX_LOG_SHIFT),
            loss="soft_l1",
            f_scale=0.1,
            diff_step=0.03,
            max_nfev=12,
        )
        return self._spec_with(start * np.exp(found.x))

    def _rescale(self, step: StepTime) -> StepTime:
        """Scale all four parameters so that the replayed wall clocks match the measured ones."""
        _, walls = self.replay_errors(replace(self._spec, step_ms=step))
        scale = 1.0 / (1.0 + _median(walls))
        return StepTime(
            step.base * scale,
            step.per_sequence * scale,
            step.per_1k_kv_tokens * scale,
            step.per_1k_prefill_tokens * scale,
        )

    def _disagreement(self, step: StepTime) -> float:
        errors, walls = self.replay_errors(replace(self._spec, step_ms=step))
        return _median([abs(each) for each in errors]) + abs(_median(walls))

    def _spec_with(self, theta: Floats) -> EngineSpec:
        return replace(self._spec, step_ms=StepTime(*(float(each) for each in theta)))


def _first(periods: Sequence[Sequence[RequestSpan]], most: int) -> list[Sequence[RequestSpan]]:
    """The first busy periods with at most `most` requests in total; if the first is longer, its beginning."""
    found: list[Sequence[RequestSpan]] = []
    if len(periods[0]) > most:
        return [periods[0][:most]]
    for period in periods:
        if found and sum(map(len, found)) + len(period) > most:
            break
        found.append(period)
    return found


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else 0.0
