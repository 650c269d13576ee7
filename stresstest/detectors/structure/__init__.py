"""Structure breaks: numbering and lengths of units and sentences."""

from __future__ import annotations

from stresstest.detectors.entry import Cadence, Detector, DetectorEntry, SuiteContext, SymptomInfo
from stresstest.model import SymptomKind


def _online(context: SuiteContext) -> Detector:
    """It also reports a truncation: a heading whose unit was never written."""
    from stresstest.detectors.structure.online import StructureDetector

    detector = StructureDetector(context.spec, context.feed)
    context.on_rise.append(detector.confirm_with_entropy_shift)
    context.units = lambda: detector.units
    context.headings = lambda: detector.headings
    context.unit_head = detector.unit_head
    return detector


STRUCTURE_BREAK = DetectorEntry(
    SymptomInfo(
        SymptomKind.STRUCTURE_BREAK,
        label="structure break",
        description="the numbering of units fails, or units and sentences lose their lengths",
        countable=True,
        mark='<path d="M3 1V5M3 7V11M9 1V5M9 7V11M1 6H4M8 6H11"></path>',
        precedence=70,
        needs_units=True,
        caused_by_loop=True,
    ),
    online=_online,
    cadence=Cadence.SPANS,
)
