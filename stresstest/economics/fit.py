"""The virtual engine's step time, fitted to a measured server: from when requests began, and what they wrote.

First linear, from what each request lived through (`stepfit`). From there the parameters are moved until a
replay of the same requests agrees best with how long each took and with the wall clock: that sees queues,
preemptions and the end of a batch, which averages blur.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stresstest.economics.replay import UNBOUNDED, clients, groups_of, replay, work_of
from stresstest.economics.stepfit import PULL, equations, solved
from stresstest.model.cost import Span
from stresstest.simulation.engine import EngineSpec, StepTime
from stresstest.simulation.engine.scenario import BLOCK

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FLOOR = 8
"""Requests below which no engine is fitted."""
_WALL = 0.5
"""Weight of a wall clock, beside the relative errors of all its requests together."""
_FAR = 2.0
"""How far a parameter is moved from its first estimate, as a logarithm."""
_ALIKE = 0.6
"""Running sequences that the loneliest request met, over those that the most crowded one met."""
_ENOUGH = 1_500
"""Requests that are replayed while the parameters are moved."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """An engine that behaves like the measured server.

    spec: its step time and sizes; concurrency: clients of the measured workload, None where requests arrived
    by themselves. error: median relative error of the replayed durations of the same requests, wall_error: of
    their wall clock (signed, replayed over measured, minus 1). n: requests that it stands on. kv_known:
    whether the size of the KV cache is the server's; else it is one that nothing fills. narrow: every request
    met about the same number of others, so that what fewer or more of them take is a typical card's guess.
    """

    spec: EngineSpec
    concurrency: int | None
    n: int
    error: float
    wall_error: float
    kv_known: bool = False
    narrow: bool = False


def fit_engine(
    spans: Sequence[Span], *, max_num_seqs: int | None = None, kv_cache_tokens: int | None = None
) -> Fitted | None:
    """Fit the engine to requests of one server; None when there are fewer than `FLOOR` usable ones.

    max_num_seqs, kv_cache_tokens: the server's sizes where they are known; else nothing is held back by them.
    """
    usable = [s for s in spans if s.failure is None and s.output_tokens > 1 and s.end > s.submitted]
    if len(usable) < FLOOR:
        return None
    periods = groups_of(usable)
    spec = EngineSpec(
        kv_cache_tokens=kv_cache_tokens or _ample(periods),
        max_num_seqs=max_num_seqs or UNBOUNDED,
        max_num_batched_tokens=8_192,
        prefix_caching=False,
    )
    replays = _Replays(spec, _first(periods, _ENOUGH))
    spec = replays.polished(_starts(periods))
    errors, walls = replays.compared(spec)
    error, wall = _median([abs(each) for each in errors]), _median(walls)
    known = kv_cache_tokens is not None
    return Fitted(spec, replays.clients, len(usable), error, wall, known, _narrow(periods))


def _starts(periods: Sequence[Sequence[Span]]) -> list[StepTime]:
    """First estimates: from every moment that was seen, and from beginnings and ends alone.

    A client or a proxy that is short of processor time gets tokens late and in heaps: then their moments tell
    nothing, while the whole request still took as long as it took.
    """
    found = [equations(groups) for groups in (periods, _plain(periods))]
    return [solved(rows, seconds) for rows, seconds in found if len(rows)]


def _plain(periods: Sequence[Sequence[Span]]) -> list[list[Span]]:
    """The requests with nothing but their beginnings and ends."""
    return [[replace(span, marks=(), first_token=None) for span in period] for period in periods]


def _narrow(periods: Sequence[Sequence[Span]]) -> bool:
    rows, _ = equations(_plain(periods))
    running = rows[:, 1] / rows[:, 0]
    return bool(running.min() > _ALIKE * running.max())


def _ample(periods: Sequence[Sequence[Span]]) -> int:
    """A KV cache that nothing of this workload could fill."""
    most = max(sum(work_of(s).prompt_tokens + work_of(s).output_tokens + BLOCK for s in p) for p in periods)
    return max(most, 1 << 20)


class _Replays:
    """The measured requests, scheduled again with one step model after another."""

    def __init__(self, spec: EngineSpec, periods: Sequence[Sequence[Span]]) -> None:
        self.clients = clients(max(periods, key=len))
        self._spec = spec
        self._periods = [(period, [work_of(span) for span in period]) for period in periods]

    def compared(self, spec: EngineSpec) -> tuple[list[float], list[float]]:
        """(replayed over measured, minus 1) of every duration, and of the wall clock of every busy period."""
        errors, walls = [], []
        for period, work in self._periods:
            again = replay(spec, work, self.clients)
            wall = max(span.end for span in period) - period[0].submitted
            walls.append(again.seconds / wall - 1.0)
            for span, seconds in zip(period, again.durations, strict=True):
                errors.append(0.0 if seconds is None else seconds / span.duration - 1.0)
        return errors, walls

    def polished(self, starts: Sequence[StepTime]) -> EngineSpec:
        """The step model whose replay agrees best, near the better one of the starts."""
        import numpy as np
        from scipy.optimize import least_squares

        given = min((self._to_scale(step) for step in starts), key=self._disagreement)
        start = np.array(
            [given.base, given.per_sequence, given.per_1k_kv_tokens, given.per_1k_prefill_tokens]
        )
        start = np.maximum(start, 1e-3 * start.max())

        def errors(logs: Floats) -> Floats:
            each, walls = self.compared(self._with(start * np.exp(logs)))
            weight = _WALL * np.sqrt(len(each) / len(walls))
            return np.concatenate(
                [np.log1p(each), weight * np.log1p(walls), PULL * np.sqrt(len(each)) * logs]
            )

        found = least_squares(
            errors,
            np.zeros(4),
            bounds=(-_FAR, _FAR),
            loss="soft_l1",
            f_scale=0.1,
            diff_step=0.03,
            max_nfev=12,
        )
        return self._with(start * np.exp(found.x))

    def _to_scale(self, step: StepTime) -> StepTime:
        """All four times as many, so that the replayed wall clocks are the measured ones."""
        _, walls = self.compared(replace(self._spec, step_ms=step))
        scale = 1.0 / (1.0 + _median(walls))
        return StepTime(
            step.base * scale,
            step.per_sequence * scale,
            step.per_1k_kv_tokens * scale,
            step.per_1k_prefill_tokens * scale,
        )

    def _disagreement(self, step: StepTime) -> float:
        errors, walls = self.compared(replace(self._spec, step_ms=step))
        return _median([abs(each) for each in errors]) + abs(_median(walls))

    def _with(self, theta: Floats) -> EngineSpec:
        return replace(self._spec, step_ms=StepTime(*(float(each) for each in theta)))


def _first(periods: Sequence[Sequence[Span]], most: int) -> list[Sequence[Span]]:
    """The first busy periods, up to so many requests in all; the beginning of a longer one."""
    found: list[Sequence[Span]] = []
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
