"""Prompt echo: the prompt comes back in place of an answer."""

from stresstest.detectors.entry import Cadence, DetectorEntry, Family, SymptomInfo, lazy
from stresstest.model import SymptomKind

PROMPT_ECHO = DetectorEntry(
    SymptomInfo(
        SymptomKind.PROMPT_ECHO,
        label="prompt echo",
        description="the prompt, or most of it, is given back in place of an answer",
        countable=True,
        mark='<path d="M10 3H2V9H10M5 6 2 9 5 11"></path>',
        family=Family.REPETITION,
        precedence=40,
        needs_prompt=True,
        exact_onset=True,
        endless=True,
    ),
    online=lazy("prompt_echo.online.PromptEchoDetector", "spec"),
    cadence=Cadence.TOKENS,
    screen=lazy("prompt_echo.online.suspect_echoes"),
    reads_lines=False,
)
