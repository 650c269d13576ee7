"""A change of level in the token entropy, against the generation's own early baseline.

Down is the collapse before and in loops, up the incoherence past a trained limit. Its level alone is no proof
(code, quotations and lists have low entropy too), so a change of level is never `confirmed`; what is sampled
against the model's own distribution is (`SurprisalDetector`).

Method: means of log(entropy + 0.01) over blocks of 16 tokens (single tokens are far from normal and
correlated), standardised by a robust baseline, and Page's two-sided CUSUM ("Continuous inspection schemes",
Biometrika 41, 1954). The change is dated to where the sum last left zero, its maximum-likelihood estimate.

Why the logarithm: a coherent model is certain of most tokens (entropy near 0) and open at few, and loses the
certainty first. Past the lab model's limit the mean rises from 0.8 to 0.95 nats within 128 tokens, 0.6
standard deviations of a block, while the share of certain tokens falls from 57 % to 35 %; on the log scale
that is 1.4 standard deviations.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import log

from stresstest.detectors.entropy.surprisal import SurprisalDetector
from stresstest.model import Symptom, SymptomKind, Token

BLOCK = 16
SKIPPED_TOKENS = 32
"""Tokens left out at the beginning: openings and headings are less varied than what follows."""

MIN_BASELINE_BLOCKS = 8
MAX_BASELINE_BLOCKS = 40
"""Blocks of the baseline. Detection begins with 8 (128 tokens), whose error is large; later blocks join with
a delay, while nothing is suspected, until there are 40 (640 tokens). Then it is frozen."""
BASELINE_LAG = 4

CUSUM_SLACK = 0.5
"""In baseline scales: smaller departures never add up, so that slow drift and the baseline's error do not."""

CUSUM_LIMIT = 8.0
"""In baseline scales: the sum at which a change of level is reported."""

MAX_BLOCK_DEPARTURE = 2.0
"""Limit of one block's departure: a list or a line of code is one odd block, not a change."""

LOG_OFFSET_NATS = 0.01
"""Nats, added before the logarithm: below it a token is simply certain."""
MIN_CHANGE = 0.4
"""Log units by which the levels must differ for a warning: half again as open, or a third less."""
MIN_SCALE = 0.15
"""Log units: least scale of the baseline, however steady it is."""
MIN_SHIFT_BLOCKS = 4
"""Blocks since the change that make it lasting; with fewer it is an episode."""


@dataclass(slots=True)
class _CusumDirection:
    """One direction of the CUSUM. `blocks`: of the present excursion, each with its first token, its
    mean and its standardised departure."""

    sign: int
    sum: float = 0.0
    blocks: list[tuple[int, float, float]] = field(default_factory=list)
    found: Symptom | None = None


class EntropyDetector:
    """Online CUSUM over block means of `Token.entropy`; silent where the server sends no logprobs.

    One warning a direction, with `direction`, `mean_before` and `mean_after` (nats); and sustained
    surprisal, which is confirmed by itself (`SurprisalDetector`).
    """

    def __init__(self, on_rise: Callable[[int], None] | None = None) -> None:
        """on_rise: called with the first token of a lasting rise, once, when it is found."""
        self._on_rise = on_rise
        self._surprisal = SurprisalDetector()
        self._position = 0
        self._sum = 0.0
        self._log_sum = 0.0
        self._count = 0
        self._first = 0
        self._early: list[float] = []
        self._nats: list[float] = []
        self._waiting: deque[float] = deque()
        self._centre = 0.0
        self._scale = 0.0
        self._sides = (_CusumDirection(1), _CusumDirection(-1))

    def update(self, token: Token) -> None:
        self._surprisal.update(token)
        self._position += 1
        entropy = token.entropy
        if entropy is None or token.reasoning or self._position <= SKIPPED_TOKENS:
            return
        if self._count == 0:
            self._first = self._position
        self._sum += entropy
        self._log_sum += log(entropy + LOG_OFFSET_NATS)
        self._count += 1
        if self._count == BLOCK:
            self._nats.append(self._sum / BLOCK)
            self._add_block(self._log_sum / BLOCK)
            self._sum = self._log_sum = 0.0
            self._count = 0

    def finish(self, finish_reason: str | None) -> None:
        """Do nothing: half a block is not evaluated."""

    @property
    def open_from(self) -> int | None:
        return None

    def symptoms(self) -> list[Symptom]:
        found = [side.found for side in self._sides if side.found is not None] + self._surprisal.symptoms()
        return sorted(found, key=lambda symptom: symptom.onset) if found else found

    def _add_block(self, mean: float) -> None:
        if len(self._early) < MIN_BASELINE_BLOCKS:
            self._early.append(mean)
            if len(self._early) == MIN_BASELINE_BLOCKS:
                self._centre, self._scale = _robust_location_scale(self._early)
            return
        z = (mean - self._centre) / self._scale
        for side in self._sides:
            if side.found is None:
                self._update_cusum(side, mean, min(side.sign * z, MAX_BLOCK_DEPARTURE))
        if len(self._early) < MAX_BASELINE_BLOCKS:
            self._extend_baseline(mean)

    def _extend_baseline(self, mean: float) -> None:
        """Let the block of `BASELINE_LAG` blocks ago join the baseline, unless a change is suspected."""
        self._waiting.append(mean)
        if any(side.found is not None or side.sum > CUSUM_LIMIT / 2 for side in self._sides):
            self._waiting.clear()
        elif len(self._waiting) > BASELINE_LAG:
            self._early.append(self._waiting.popleft())
            self._centre, self._scale = _robust_location_scale(self._early)

    def _update_cusum(self, side: _CusumDirection, mean: float, z: float) -> None:
        if side.sum == 0.0:
            side.blocks = []
        side.sum = max(side.sum + z - CUSUM_SLACK, 0.0)
        side.blocks.append((self._first, mean, z))
        if side.sum < CUSUM_LIMIT or len(side.blocks) < MIN_SHIFT_BLOCKS:
            return
        changed = side.blocks[_change_point([z for _, _, z in side.blocks]) :]
        after = sum(mean for _, mean, _ in changed) / len(changed)
        if side.sign * (after - self._centre) >= MIN_CHANGE:
            nats = self._nats
            early = nats[: max(len(nats) - len(side.blocks), 1)]
            late = nats[-len(changed) :]
            before, now = sum(early) / len(early), sum(late) / len(late)
            side.found = _symptom(side.sign, changed[0][0], self._position, before, now)
            side.blocks = []
            if side.sign > 0 and self._on_rise is not None:
                self._on_rise(side.found.onset)


def _change_point(departures: list[float]) -> int:
    """Index of the first block after the change, within the excursion that ended in an alarm.

    The sum's last zero assumes a change of twice the slack. Once the level after it is known (from the latest
    blocks), a third of it is the better slack, and the change is where the sum from there on is greatest.
    """
    level = sum(departures[-MIN_SHIFT_BLOCKS:]) / MIN_SHIFT_BLOCKS
    slack = max(CUSUM_SLACK, level / 3)
    best, total, first = 0.0, 0.0, len(departures) - 1
    for i in range(len(departures) - 1, -1, -1):
        total += departures[i] - slack
        if total > best:
            best, first = total, i
    return first


def _robust_location_scale(values: list[float]) -> tuple[float, float]:
    """Trimmed mean and a scale from the absolute deviations about it.

    1.25 turns a mean absolute deviation into a normal's standard deviation; the second factor allows for the
    uncertain centre and spread of few blocks.
    """
    ordered = sorted(values)
    cut = len(ordered) // 8
    middle = ordered[cut:-cut]
    centre = sum(middle) / len(middle)
    deviation = sum(abs(value - centre) for value in values) / len(values)
    return centre, max(1.25 * (1.0 + 3.0 / len(values)) * deviation, MIN_SCALE)


def _symptom(sign: int, onset: int, alarm: int, before: float, after: float) -> Symptom:
    direction = "up" if sign > 0 else "down"
    return Symptom(
        kind=SymptomKind.ENTROPY_SHIFT,
        onset=onset,
        alarm=alarm,
        score=min(0.25 + 0.25 * abs(after - before) / max(before, 0.1), 0.5),
        confirmed=False,
        detail={
            "direction": direction,
            "mean_before": round(before, 4),
            "mean_after": round(after, 4),
        },
        summary=f"mean entropy goes {direction} from {before:.2f} to {after:.2f} nats",
    )
