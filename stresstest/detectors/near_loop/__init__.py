"""Near-loops: repeated text with counters, small edits and changed words."""

from stresstest.detectors.entry import Cadence, DetectorEntry, Family, SymptomInfo, lazy
from stresstest.model import SymptomKind

NEAR_LOOP = DetectorEntry(
    SymptomInfo(
        SymptomKind.NEAR_LOOP,
        label="near-loop",
        description="one body of text again and again, with a counter or a few words changed",
        countable=True,
        mark='<circle cx="6" cy="6" r="4.4"></circle><circle cx="6" cy="6" r="1.4"></circle>',
        family=Family.REPETITION,
        precedence=60,
        loop=True,
        exact_onset=True,
        endless=True,
    ),
    online=lazy("near_loop.online.NearLoopDetector", "spec"),
    cadence=Cadence.TOKENS,
    batch=lazy("near_loop.batch.BatchNearLoopDetector"),
    cut_free=True,
    screen=lazy("near_loop.batch.suspect_near_loops"),
    reads_lines=False,
)
