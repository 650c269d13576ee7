"""Cost of mitigation policies, in generated tokens per delivered answer.

An attempt costs the tokens generated until it ended or was stopped. An answer that is not healthy and
complete is requested again, with independent attempts (for a prompt that always loops the true cost is
higher), or sent to another model. Intervals are 95 %, from a bootstrap over prompts, each with all of its
outputs (a cluster bootstrap: Davison & Hinkley 1997, section 3.8).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stresstest.economics.mitigation import ChosenSetting, RepetitionSetting, TokenStream
from stresstest.model.cost import CostArm, RequestSpan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BOOTSTRAP_RESAMPLES = 1_000
LET_RUN_POLICY = "let loops run to the cap, then ask again"
ABORT_POLICY = "abort at the alarm, then ask again"
IDS, PIECES, WORDS = "token ids", "token texts", "words"
"""The units that a replay uses as tokens."""


@dataclass(frozen=True, slots=True)
class DeliveryCost:
    """Cost of a policy per delivered answer. tokens, with the interval lo to hi; attempts: requests."""

    policy: str
    tokens: float
    lo: float
    hi: float
    attempts: float


@dataclass(frozen=True, slots=True)
class AuditResult:
    """An audit of stored outputs.

    scale: unit used as a token: "token ids" (exact), "token texts" (exact except for different tokens with
    the same text) or "words" (an estimate, not usable as a server setting). streams: outputs audited;
    degenerate: how many of them, of which `loops` are loops. masked: outputs already stopped by the server's
    own repetition detection. aborted: degenerate outputs stopped by the client, whose savings are a lower
    bound. unseen: further outputs of which the log has not all of the text, so that nobody knows. left_aside:
    further outputs, by chance; loops_aside: how many of them loop. copies: further outputs that are word for
    word one of the `streams`, and tell nothing more. prompts: of how many the outputs are; one whose prompt
    is not known counts as the only one of its prompt.
    """

    chosen: ChosenSetting
    taxes: tuple[DeliveryCost, ...]
    streams: int
    loops: int
    degenerate: int
    scale: str
    masked: int
    aborted: int
    unseen: int = 0
    left_aside: int = 0
    loops_aside: int = 0
    copies: int = 0
    prompts: int = 0

    @property
    def usable(self) -> RepetitionSetting | None:
        """The chosen setting if a server can use it; None if it is in words, because servers count tokens."""
        return None if self.scale == WORDS else self.chosen.setting


def delivery_costs(
    streams: Sequence[TokenStream],
    stops: Sequence[int | None] | None = None,
    *,
    fallback: float = 1.0,
    seed: int = 0,
) -> tuple[DeliveryCost, ...]:
    """The cost of each policy. stops: positions at which a `repetition_detection` setting stops each stream.

    fallback: price of a token of the other model relative to this one; its answers have the mean healthy
    length. Raises ValueError without a healthy stream.
    """
    import numpy as np

    whole = np.array([stream.length for stream in streams], dtype=float)
    healthy = np.array([stream.onset is None and not stream.endless for stream in streams])
    if not healthy.any():
        raise ValueError("no healthy answer was delivered at all")
    alarm = np.array([s.length if s.alarm is None else min(s.alarm, s.length) for s in streams], dtype=float)
    weights = _resample([stream.cluster for stream in streams], np.random.default_rng(seed))
    found = [
        _retry_cost(LET_RUN_POLICY, whole, healthy, weights),
        _retry_cost(ABORT_POLICY, alarm, healthy, weights),
        _fallback_cost("abort at the alarm; another model answers", alarm, healthy, whole, weights, fallback),
    ]
    if stops is not None:
        cut = np.array([s.length if at is None else at for s, at in zip(streams, stops, strict=True)], float)
        kept = healthy & np.array([at is None for at in stops])
        if kept.any():
            found.append(_retry_cost("repetition_detection; ask again", cut, kept, weights))
    return tuple(found)


def measured_delivery_costs(spans: Sequence[RequestSpan], *, seed: int = 0) -> tuple[DeliveryCost, ...]:
    """The costs of the two arms of measured pairs: loops left running, and loops aborted at their alarm.

    Requests that are not healthy and complete are sent again. Empty if an arm delivered no answer.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    found = []
    for arm, policy in ((CostArm.LOOPS, LET_RUN_POLICY), (CostArm.CAPPED, ABORT_POLICY)):
        own = [span for span in spans if span.arm == arm and (span.failure is None or span.judged)]
        cost = np.array([span.output_tokens for span in own], dtype=float)
        useful = np.array([span.healthy and not span.capped for span in own], dtype=bool)
        if not useful.any():
            return ()
        found.append(_retry_cost(policy, cost, useful, _resample(range(len(own)), rng)))
    return tuple(found)


def _resample(clusters: Sequence[Hashable], rng: np.random.Generator) -> NDArray[np.float64]:
    """How often each output is in each resample: as many clusters are drawn as there are."""
    import numpy as np

    numbers: dict[Hashable, int] = {}
    own = [numbers.setdefault(name, len(numbers)) for name in clusters]
    drawn = rng.integers(0, len(numbers), (BOOTSTRAP_RESAMPLES, len(numbers)))
    drawn += np.arange(BOOTSTRAP_RESAMPLES)[:, None] * len(numbers)
    times = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
    return times[:, own].astype(np.float64)


def _retry_cost(
    policy: str, cost: NDArray[np.float64], useful: NDArray[np.bool_], weights: NDArray[np.float64]
) -> DeliveryCost:
    """Repeat until useful: by renewal, the mean cost of an attempt over the share of useful attempts."""
    hits = weights @ useful
    some = hits > 0
    spread = (weights @ cost)[some] / hits[some]
    return _delivery(policy, float(cost.sum() / useful.sum()), spread, len(useful) / float(useful.sum()))


def _fallback_cost(
    policy: str,
    cost: NDArray[np.float64],
    useful: NDArray[np.bool_],
    whole: NDArray[np.float64],
    weights: NDArray[np.float64],
    fallback: float,
) -> DeliveryCost:
    """Try once, then use another model, which is assumed to succeed."""
    length = float(whole[useful].mean())
    each = cost + ~useful * length * fallback
    spread = (weights @ each) / weights.sum(axis=1)
    return _delivery(policy, float(each.mean()), spread, 2.0 - float(useful.mean()))


def _delivery(policy: str, tokens: float, spread: NDArray[np.float64], attempts: float) -> DeliveryCost:
    import numpy as np

    lo, hi = (float(each) for each in np.quantile(spread, (0.025, 0.975)))
    return DeliveryCost(policy, tokens, lo, hi, attempts)
