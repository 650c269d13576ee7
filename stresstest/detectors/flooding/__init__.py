"""Flooding: a handful of words owns the output."""

from stresstest.detectors.entry import Cadence, DetectorEntry, Family, SymptomInfo, lazy
from stresstest.model import SymptomKind

FLOODING = DetectorEntry(
    SymptomInfo(
        SymptomKind.FLOODING,
        label="token flooding",
        description="one word or a handful of words makes up nearly all of a stretch",
        mark='<rect x="2" y="2" width="8" height="8" class="solid"></rect>',
        family=Family.REPETITION,
        precedence=20,
        endless=True,
        caused_by_loop=True,
    ),
    online=lazy("flooding.online.FloodingDetector", "spec"),
    cadence=Cadence.TOKENS,
    batch=lazy("flooding.batch.BatchFloodingDetector"),
    screen=lazy("flooding.batch.suspect_floods"),
    reads_lines=False,
)
