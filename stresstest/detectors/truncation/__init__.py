"""Truncation: the model stops in mid-sentence or mid-structure."""

from stresstest.detectors.entry import Cadence, DetectorEntry, Family, SymptomInfo, lazy
from stresstest.model import SymptomKind

TRUNCATION = DetectorEntry(
    SymptomInfo(
        SymptomKind.TRUNCATION,
        label="truncation",
        description="the model stops in the middle of a sentence or of a structure",
        countable=True,
        mark='<path d="M1 6H8M9 1V11"></path>',
        family=Family.TRUNCATION,
        precedence=80,
        exact_onset=True,
        ends_answer=True,
    ),
    online=lazy("truncation.online.TruncationDetector", "spec", "feed"),
    cadence=Cadence.END,
    screen=lazy("truncation.online.suspect_truncation"),
)
