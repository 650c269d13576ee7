"""The panel of those detectors only that may find something: what the screen excludes is not asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stresstest.detectors.asking import asked
from stresstest.detectors.base import PanelSpec, Reader
from stresstest.detectors.flooding import FloodingDetector
from stresstest.detectors.loop import LoopDetector
from stresstest.detectors.near_loop import NearLoopDetector
from stresstest.detectors.panel import Panel, pieces, text_tokens
from stresstest.detectors.read_flooding import FloodingReader
from stresstest.detectors.read_loop import LoopReader
from stresstest.detectors.read_near_loop import NearLoopReader
from stresstest.detectors.screen_language import Foreign
from stresstest.model import SymptomKind, Verdict

_DATED_ALONE = (SymptomKind.LOOP, SymptomKind.NEAR_LOOP)
"""Their onset is exact, whatever warnings stand before it."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What the first step says of one text. count: its pieces, as `text_tokens` cuts them."""

    count: int
    loop: bool
    near_loop: bool
    flood: bool
    foreign: Foreign

    @property
    def repetition(self) -> bool:
        return self.loop or self.near_loop or self.flood

    def readers(self, spec: PanelSpec) -> tuple[Reader, ...]:
        """The repetition detectors that may find something."""
        suspected: tuple[tuple[bool, Callable[[PanelSpec], Reader]], ...] = (
            (self.loop, LoopReader),
            (self.near_loop, NearLoopReader),
            (self.flood, FloodingReader),
        )
        return tuple(make(spec) for there, make in suspected if there)


class RepetitionPanel(Panel):
    """The panel of those detectors only that look for what is suspected to repeat."""

    def __init__(self, spec: PanelSpec, seen: Suspicion) -> None:
        super().__init__(spec)
        self._readers = seen.readers(spec)
        self._detectors = self._readers

    def judge(self, text: str, finish_reason: str | None) -> tuple[int | None, Verdict | None]:
        """(0 for a symptom that warnings of others may date back, or an open candidate's first token; the
        whole panel's verdict but for its warnings, when a loop or near-loop comes first)."""
        texts = pieces(text)
        self._tokens = len(texts)
        self._finished = True
        opened = asked(self._readers, texts, finish_reason)
        if opened != 0:
            return opened, None
        verdict = self.verdict()
        return (None, verdict) if verdict.symptom in _DATED_ALONE else (0, None)


class SuspectedPanel(Panel):
    """The whole panel, but for repetition that is not suspected; what is, is read at once."""

    def __init__(self, spec: PanelSpec, seen: Suspicion) -> None:
        super().__init__(spec)
        self._readers = seen.readers(spec)
        repetition = (LoopDetector, NearLoopDetector, FloodingDetector)
        others = (each for each in self._detectors if not isinstance(each, repetition))
        self._detectors = (*self._readers, *others)
        self._on_tokens = ()

    def judge(self, text: str, finish_reason: str | None) -> Verdict:
        """The whole panel's verdict on a plain answer."""
        self._held = text_tokens(text)
        self._tokens = len(self._held)
        texts = [token.text for token in self._held]
        for reader in self._readers:
            reader.read(texts)
        return self.finish(finish_reason)
