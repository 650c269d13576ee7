"""Mitigation is a tax: tokens for every answer that is delivered, with loops let be, stopped, asked again.

An attempt costs what it wrote until something stopped it. What is not healthy and whole is asked again, each
attempt like any other (a prompt that always loops never gets there: then the tax is higher), or given to
another model. Intervals are 95 % of bootstrapped streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stresstest.economics.mitigation import Chosen, Setting, Stream
from stresstest.model.cost import CostArm, Span

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RESAMPLES = 1_000
LET_RUN = "nothing stops a loop; ask again"
ABORTED = "abort at the alarm; ask again"
IDS, PIECES, WORDS = "token ids", "token texts", "words"
"""What stands for a token in a replay."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """tokens: for every answer delivered, lo and hi its interval. attempts: for every answer delivered."""

    policy: str
    tokens: float
    lo: float
    hi: float
    attempts: float


@dataclass(frozen=True, slots=True)
class Audited:
    """An audit of stored outputs.

    scale: what stands for a token: "token ids" (exact), "token texts" (exact but for tokens that are spelled
    alike), "words" (patterns are of words: an estimate, and no setting for a server). masked: outputs that a
    server's own repetition detection had stopped already; aborted: degenerate ones that we stopped, whose
    savings are a lower bound. loops and other degenerate ones together are `degenerate`.
    """

    chosen: Chosen
    taxes: tuple[Delivery, ...]
    streams: int
    loops: int
    degenerate: int
    scale: str
    masked: int
    aborted: int

    @property
    def usable(self) -> Setting | None:
        """The chosen setting where it can be sent to a server, which counts tokens and never words."""
        return None if self.scale == WORDS else self.chosen.setting


def deliveries(
    streams: Sequence[Stream],
    stops: Sequence[int | None] | None = None,
    *,
    fallback: float = 1.0,
    seed: int = 0,
) -> tuple[Delivery, ...]:
    """What each policy costs. stops: of a `repetition_detection` setting, one a stream.

    fallback: what a token of the other model costs, in tokens of this one; it answers in the mean healthy
    length. ValueError without a healthy stream.
    """
    import numpy as np

    whole = np.array([stream.length for stream in streams], dtype=float)
    healthy = np.array([stream.onset is None and not stream.endless for stream in streams])
    if not healthy.any():
        raise ValueError("no healthy answer was delivered at all")
    alarm = np.array([s.length if s.alarm is None else min(s.alarm, s.length) for s in streams], dtype=float)
    rng = np.random.default_rng(seed)
    draws = rng.integers(0, len(streams), (RESAMPLES, len(streams)))
    found = [
        _again(LET_RUN, whole, healthy, draws),
        _again(ABORTED, alarm, healthy, draws),
        _fallen("abort at the alarm; another model answers", alarm, healthy, whole, draws, fallback),
    ]
    if stops is not None:
        cut = np.array([s.length if at is None else at for s, at in zip(streams, stops, strict=True)], float)
        kept = healthy & np.array([at is None for at in stops])
        if kept.any():
            found.append(_again("repetition_detection; ask again", cut, kept, draws))
    return tuple(found)


def measured_deliveries(spans: Sequence[Span], *, seed: int = 0) -> tuple[Delivery, ...]:
    """The same requests in both arms of measured pairs: loops let run, and loops aborted at their alarm.

    () where an arm delivered nothing. What is not healthy and whole is asked again, each attempt alike.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    found = []
    for arm, policy in ((CostArm.LOOPS, LET_RUN), (CostArm.CAPPED, ABORTED)):
        own = [span for span in spans if span.arm == arm and span.failure is None]
        cost = np.array([span.output_tokens for span in own], dtype=float)
        useful = np.array([span.healthy and not span.capped for span in own], dtype=bool)
        if not useful.any():
            return ()
        found.append(_again(policy, cost, useful, rng.integers(0, len(own), (RESAMPLES, len(own)))))
    return tuple(found)


def _again(
    policy: str, cost: NDArray[np.float64], useful: NDArray[np.bool_], draws: NDArray[np.int_]
) -> Delivery:
    """Ask until it comes: by renewal, the mean cost of an attempt over the share that is useful."""
    hits = useful[draws].sum(axis=1)
    some = hits > 0
    spread = cost[draws].sum(axis=1)[some] / hits[some]
    return _delivery(policy, float(cost.sum() / useful.sum()), spread, len(useful) / float(useful.sum()))


def _fallen(
    policy: str,
    cost: NDArray[np.float64],
    useful: NDArray[np.bool_],
    whole: NDArray[np.float64],
    draws: NDArray[np.int_],
    fallback: float,
) -> Delivery:
    """Ask once, and another model for what went wrong: it is taken to succeed."""
    length = float(whole[useful].mean())
    each = cost + ~useful * length * fallback
    return _delivery(policy, float(each.mean()), each[draws].mean(axis=1), 2.0 - float(useful.mean()))


def _delivery(policy: str, tokens: float, spread: NDArray[np.float64], attempts: float) -> Delivery:
    import numpy as np

    lo, hi = (float(each) for each in np.quantile(spread, (0.025, 0.975)))
    return Delivery(policy, tokens, lo, hi, attempts)
