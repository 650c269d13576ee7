"""Entropy shift: a lasting change in the level of the token entropy, or sustained surprisal."""

from __future__ import annotations

from stresstest.detectors.entry import Cadence, Detector, DetectorEntry, SuiteContext, SymptomInfo
from stresstest.model import SymptomKind


def _online(context: SuiteContext) -> Detector:
    from stresstest.detectors.entropy.online import EntropyDetector

    def announce(rise: int) -> None:
        context.rise = rise

    return EntropyDetector(on_rise=announce)


ENTROPY_SHIFT = DetectorEntry(
    SymptomInfo(
        SymptomKind.ENTROPY_SHIFT,
        label="entropy shift",
        description="the entropy of the tokens changes its level for good (a warning), or one token after "
        "another surprises the model",
        mark='<path d="M6 1 11 6 6 11 1 6Z"></path>',
        precedence=10,
        needs_logprobs=True,
        gradual=True,
        endless=True,
    ),
    online=_online,
    cadence=Cadence.TEXT,
    reads_lines=False,
)
