"""Language drift: the answer continues in a language that was not asked for."""

from stresstest.detectors.entry import Cadence, DetectorEntry, SymptomInfo, lazy
from stresstest.model import SymptomKind

LANGUAGE_DRIFT = DetectorEntry(
    SymptomInfo(
        SymptomKind.LANGUAGE_DRIFT,
        label="language drift",
        description="sentences in a language other than the requested one",
        countable=True,
        mark='<path d="M6 1.5 11 10.5H1Z"></path>',
        precedence=40,
        by_language=True,
        gradual=True,
    ),
    online=lazy("language.online.LanguageDetector", "spec", "feed"),
    cadence=Cadence.SPANS,
    screen=lazy("language.screen.suspect_drift"),
    reads_lines=False,
)
