"""Gibberish: letters that make no words, words that make no sentences."""

from stresstest.detectors.entry import DetectorEntry, SymptomInfo, lazy
from stresstest.model import SymptomKind

GIBBERISH = DetectorEntry(
    SymptomInfo(
        SymptomKind.GIBBERISH,
        label="gibberish",
        description="letters that make no words, or words that make no sentences, in any language",
        mark='<path d="M2 2 10 10M10 2 2 10"></path>',
        precedence=30,
        by_language=True,
        exact_onset=True,
        gradual=True,
        endless=True,
    ),
    online=lazy("gibberish.parts.GibberishInParts", "spec", "feed"),
    screen=lazy("gibberish.screen.suspect_gibberish"),
    reads_lines=False,
)
