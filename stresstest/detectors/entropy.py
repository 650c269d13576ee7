"""A change of level in the token entropy, against the generation's own early baseline.

Down is the collapse before and in loops, up the incoherence past a trained limit. Entropy alone is
no proof (code, quotations and lists are low-entropy too), so its symptoms are never `confirmed`.

Method: means of log(entropy + 0.01) over blocks of 16 tokens (single tokens are far from normal and
follow one another), standardised by a robust baseline, and Page's two-sided CUSUM ("Continuous
inspection schemes", Biometrika 41, 1954). The change is dated to where the sum last left zero, its
maximum-likelihood estimate.

Why the logarithm: a coherent model is sure of most tokens (entropy near 0) and open at few. What goes
first when coherence ends is the sureness, not the openness: past the lab model's limit the mean rises
from 0.8 to 0.95 nats within 128 tokens, 0.6 standard deviations of a block, while the share of sure
tokens falls from 57 % to 35 %; on the log scale that is 1.4 standard deviations.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import log

from stresstest.model import Symptom, SymptomKind, Token

BLOCK = 16
SKIP = 32
"""Tokens left out at the beginning: openings and headings are less varied than what follows."""

BASELINE_LEAST = 8
BASELINE_MOST = 40
"""Blocks of the baseline. Judging begins with 8 (128 tokens), whose error is large; blocks join it, a
few behind, while nothing is suspected, until there are 40 (640 tokens). Then it is frozen."""
LAG = 4

SLACK = 0.5
"""In baseline scales: smaller departures never add up, so that slow drift and the baseline's own
error do not."""

LIMIT = 8.0
"""In baseline scales: the sum at which a change of level is reported."""

CAP = 2.0
"""One block counts at most so much: a list or a line of code is one odd block, not a change."""

FLOOR = 0.01
"""Nats, added before the logarithm: below it a token is simply certain."""
MIN_CHANGE = 0.4
"""Log units by which the levels must differ to be worth a warning: half again as open, or a third less."""
MIN_SCALE = 0.15
"""Log units: no baseline is so steady that less is a deviation."""
MIN_BLOCKS = 4
"""A change of level lasts: so many blocks since the change, or it is an episode."""


@dataclass(slots=True)
class _Side:
    """One direction of the CUSUM. `blocks`: of the present excursion, each with its first token, its
    mean and its standardised departure."""

    sign: int
    sum: float = 0.0
    blocks: list[tuple[int, float, float]] = field(default_factory=list)
    found: _Shift | None = None


@dataclass(frozen=True, slots=True)
class _Shift:
    sign: int
    onset: int
    alarm: int
    before: float
    after: float


class EntropyDetector:
    """Online CUSUM over block means of `Token.entropy`; silent where the server sends no logprobs.

    One warning a direction. Reports `direction`, `mean_before` and `mean_after` (nats).
    """

    def __init__(self) -> None:
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
        self._sides = (_Side(1), _Side(-1))

    def update(self, token: Token) -> None:
        """Take the next output token."""
        self._position += 1
        entropy = token.entropy
        if entropy is None or token.reasoning or self._position <= SKIP:
            return
        if self._count == 0:
            self._first = self._position
        self._sum += entropy
        self._log_sum += log(entropy + FLOOR)
        self._count += 1
        if self._count == BLOCK:
            self._nats.append(self._sum / BLOCK)
            self._block(self._log_sum / BLOCK)
            self._sum = self._log_sum = 0.0
            self._count = 0

    def finish(self, finish_reason: str | None) -> None:
        """Nothing is pending: half a block says nothing."""

    @property
    def rise(self) -> int | None:
        """First token of the rise that was found, if one was."""
        found = self._sides[0].found
        return None if found is None else found.onset

    @property
    def open_from(self) -> int | None:
        """Never: a warning that proves nothing does not hold back what was observed."""
        return None

    def symptoms(self) -> list[Symptom]:
        """At most one warning a direction, in order of onset."""
        found = [side.found for side in self._sides if side.found is not None]
        if not found:
            return []
        return [_symptom(shift) for shift in sorted(found, key=lambda shift: shift.onset)]

    def _block(self, mean: float) -> None:
        if len(self._early) < BASELINE_LEAST:
            self._early.append(mean)
            if len(self._early) == BASELINE_LEAST:
                self._centre, self._scale = _robust(self._early)
            return
        z = (mean - self._centre) / self._scale
        for side in self._sides:
            if side.found is None:
                self._step(side, mean, min(side.sign * z, CAP))
        if len(self._early) < BASELINE_MOST:
            self._learn(mean)

    def _learn(self, mean: float) -> None:
        """Let the block of `LAG` blocks ago join the baseline, unless a change is suspected."""
        self._waiting.append(mean)
        if any(side.found is not None or side.sum > LIMIT / 2 for side in self._sides):
            self._waiting.clear()
        elif len(self._waiting) > LAG:
            self._early.append(self._waiting.popleft())
            self._centre, self._scale = _robust(self._early)

    def _step(self, side: _Side, mean: float, z: float) -> None:
        if side.sum == 0.0:
            side.blocks = []
        side.sum = max(side.sum + z - SLACK, 0.0)
        side.blocks.append((self._first, mean, z))
        if side.sum < LIMIT or len(side.blocks) < MIN_BLOCKS:
            return
        changed = side.blocks[_change([z for _, _, z in side.blocks]) :]
        after = sum(mean for _, mean, _ in changed) / len(changed)
        if side.sign * (after - self._centre) >= MIN_CHANGE:
            nats = self._nats
            early = nats[: max(len(nats) - len(side.blocks), 1)]
            late = nats[-len(changed) :]
            before, now = sum(early) / len(early), sum(late) / len(late)
            side.found = _Shift(side.sign, changed[0][0], self._position, before, now)
            side.blocks = []


def _change(departures: list[float]) -> int:
    """Index of the first block after the change, within the excursion that ended in an alarm.

    The sum's last zero supposes a change of twice the slack. Once the level after it is known (from the
    latest blocks), a third of it is the better slack, and the change is where the sum from there on is
    greatest.
    """
    level = sum(departures[-MIN_BLOCKS:]) / MIN_BLOCKS
    slack = max(SLACK, level / 3)
    best, total, first = 0.0, 0.0, len(departures) - 1
    for i in range(len(departures) - 1, -1, -1):
        total += departures[i] - slack
        if total > best:
            best, first = total, i
    return first


def _robust(values: list[float]) -> tuple[float, float]:
    """Trimmed mean and a scale from the absolute deviations about it.

    1.25 turns a mean absolute deviation into a normal's standard deviation; the second factor stands
    for what few blocks cannot know of their own centre and spread.
    """
    ordered = sorted(values)
    cut = len(ordered) // 8
    middle = ordered[cut:-cut]
    centre = sum(middle) / len(middle)
    deviation = sum(abs(value - centre) for value in values) / len(values)
    return centre, max(1.25 * (1.0 + 3.0 / len(values)) * deviation, MIN_SCALE)


def _symptom(shift: _Shift) -> Symptom:
    direction = "up" if shift.sign > 0 else "down"
    return Symptom(
        kind=SymptomKind.ENTROPY_SHIFT,
        onset=shift.onset,
        alarm=shift.alarm,
        score=min(0.25 + 0.25 * abs(shift.after - shift.before) / max(shift.before, 0.1), 0.5),
        confirmed=False,
        detail={
            "direction": direction,
            "mean_before": round(shift.before, 4),
            "mean_after": round(shift.after, 4),
        },
        summary=f"mean entropy goes {direction} from {shift.before:.2f} to {shift.after:.2f} nats",
    )
