"""What the certifying sample would say if it ended now: shown while it grows, and always called provisional.

It is no result. Failing answers are closed early and so come in first; and a sample that is stopped when
its number pleases certifies nothing. The limit is computed once, over the whole declared sample.
"""

from __future__ import annotations

from collections.abc import Sequence

from stresstest.model import RIGORS, Generation, Observation, RunSettings, Threshold
from stresstest.threshold import LOOKS, certify, deduplicate, observations


class Provisional:
    """Grows with the sample; judged again only when something was added."""

    def __init__(self, settings: RunSettings) -> None:
        self.rigor = RIGORS[settings.rigor]
        self._looks = LOOKS if settings.tighten else 1
        self._temperature = settings.decoding.temperature
        self._sample: list[Observation] = []
        self._seen = 0
        self._judged: Threshold | None = None

    def grow(self, sample: Sequence[Generation]) -> None:
        """sample: the whole of it so far, in the order in which it came in."""
        fresh = sample[self._seen :]
        if fresh:
            self._seen += len(fresh)
            self._sample += observations(fresh)
            self._judged = None

    def threshold(self) -> Threshold:
        """As certification would find it over what is there."""
        if self._judged is None:
            self._judged = certify(deduplicate(self._sample, self._temperature), self.rigor, self._looks)
        return self._judged


def warm_up() -> None:
    """Load what judging needs before anything is timed: loading it later would hold up the event loop."""
    from scipy.special import betaincinv

    betaincinv(1, 22, 0.9)
