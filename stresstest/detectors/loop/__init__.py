"""Exact loops: the tail of the output repeats itself."""

from stresstest.detectors.entry import Cadence, DetectorEntry, Family, SymptomInfo, lazy
from stresstest.model import SymptomKind

LOOP = DetectorEntry(
    SymptomInfo(
        SymptomKind.LOOP,
        label="loop",
        description="the same tokens again and again, exactly, at any period",
        countable=True,
        mark='<circle cx="6" cy="6" r="4"></circle>',
        family=Family.REPETITION,
        precedence=50,
        loop=True,
        exact_onset=True,
        endless=True,
    ),
    online=lazy("loop.online.LoopDetector", "spec"),
    cadence=Cadence.TOKENS,
    batch=lazy("loop.batch.BatchLoopDetector"),
    screen=lazy("loop.batch.suspect_loops"),
    reads_lines=False,
)
