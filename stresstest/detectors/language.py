"""Language drift: the answer goes on in another language than the one it was asked in.

Sentences are stripped of what may be foreign (see `prose`), joined to passages of 60 characters or
more, and judged one by one (see `langid`). One foreign passage is a warning: a motto, a title, a
citation. Two of three consecutive ones are drift, and so is one of 200 characters, or an answer that
is foreign as a whole. The onset is the first token of the first foreign passage of that majority.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from stresstest.detectors.base import PanelSpec
from stresstest.detectors.langid import judge, normalised
from stresstest.detectors.prose import ProseFilter
from stresstest.detectors.segment import Span, TextFeed
from stresstest.model import Symptom, SymptomKind, Token

PASSAGE = 60
"""Characters that a verdict on a language needs; shorter sentences are joined with their neighbours."""
LONG_PASSAGE = 200
"""One unquoted foreign sentence of this length is no motto any more: it confirms alone."""
SHORTEST_TAIL = 30
"""At the end of an answer, less than this is not judged."""
RECOVERY = 3
"""So many passages in the wanted language end a drift."""


@dataclass(frozen=True, slots=True)
class _Passage:
    first: int
    last: int
    foreign: bool
    language: str | None
    score: float
    chars: int
    excerpt: str


class LanguageDetector:
    """Online detector of `language_drift`; silent when the wanted language is unknown."""

    def __init__(self, spec: PanelSpec, feed: TextFeed) -> None:
        self._feed = feed
        self._wanted = normalised(spec.language) if spec.language else None
        self._prose = ProseFilter()
        self._read = 0
        self._parts: list[str] = []
        self._held: list[Span] = []
        self._chars = 0
        self._recent: deque[_Passage] = deque(maxlen=3)
        self._judged = 0
        self._natives = 0
        self._native_run = 0
        self._symptoms: list[Symptom] = []
        self._standing: Symptom | None = None
        self._last_foreign = 0
        self._finished = False

    @property
    def open_from(self) -> int | None:
        """First token of a foreign passage that is not settled, else of the text not yet judged."""
        if self._wanted is None or self._finished:
            return None
        if self._standing is not None and not self._standing.confirmed:
            return self._standing.onset
        return self._held[0].first if self._held else self._feed.pending_from

    def update(self, token: Token) -> None:
        """Judge the sentences that closed with this token. The feed has taken the token already."""
        del token
        sentences = self._feed.sentences
        if self._read < len(sentences) and self._wanted is not None:
            while self._read < len(sentences):
                self._take(sentences[self._read])
                self._read += 1

    def finish(self, finish_reason: str | None) -> None:
        """Judge what is left. An unfinished last sentence is judged too when the model chose to end."""
        if self._wanted is None or self._finished:
            return
        self._feed.close()
        for span in self._feed.sentences[self._read :]:
            self._take(span)
        self._read = len(self._feed.sentences)
        # A short tail can only continue a drift, or be the whole answer.
        if self._chars >= SHORTEST_TAIL and (self._native_run == 0):
            self._judge()
        if self._recent and self._natives == 0:
            self._confirm([p for p in self._recent if p.foreign][:1], "the whole answer")
        if finish_reason is not None and finish_reason not in ("length", "abort", "error"):
            self._held = []
            self._finished = True

    def symptoms(self) -> list[Symptom]:
        """Drifts and single foreign passages (unconfirmed), in order of onset."""
        return list(self._symptoms)

    def _take(self, span: Span) -> None:
        prose = self._prose(span.text)
        letters = sum(map(str.isalpha, prose))
        if letters * 2 < len(prose) or not letters:
            if not self._held:
                return
            prose = ""
        self._parts.append(prose)
        self._held.append(span)
        # A character of a script without spaces carries about three times as much.
        self._chars += len(prose) if prose.isascii() else sum(3 if c > "\u2e7f" else 1 for c in prose)
        if self._chars >= PASSAGE:
            self._judge()

    def _judge(self) -> None:
        assert self._wanted is not None
        text = " ".join(filter(None, self._parts))
        opinion = judge(text, self._wanted)
        first, last = self._held[0].first, self._held[-1].last
        passage = _Passage(
            first, last, opinion.foreign, opinion.language, opinion.score, self._chars, text[:80]
        )
        self._parts, self._held, self._chars = [], [], 0
        self._judged += 1
        self._recent.append(passage)
        if passage.foreign:
            self._native_run = 0
            self._last_foreign = last
            self._on_foreign(passage)
        else:
            self._natives += 1
            self._native_run += 1
            self._on_native()

    def _on_foreign(self, passage: _Passage) -> None:
        standing = self._standing
        if standing is not None and standing.confirmed:
            return
        foreign = [p for p in self._recent if p.foreign]
        if standing is None:
            self._standing = self._symptom(passage, confirmed=False)
            self._symptoms.append(self._standing)
        if len(foreign) >= 2:
            self._confirm(foreign, f"{len(foreign)} of {len(self._recent)} consecutive passages")
        elif passage.chars >= LONG_PASSAGE:
            self._confirm(foreign, f"one passage of {passage.chars} characters")

    def _on_native(self) -> None:
        standing = self._standing
        if standing is None:
            return
        # A warning is settled when no majority can include it any more.
        if self._native_run >= (RECOVERY if standing.confirmed else 2):
            self._symptoms[-1] = replace(standing, end=self._last_foreign)
            self._standing = None

    def _confirm(self, foreign: list[_Passage], why: str) -> None:
        if not foreign or self._standing is None or self._standing.confirmed:
            return
        symptom = self._symptom(foreign[0], confirmed=True, alarm=self._feed.tokens, why=why)
        self._standing = self._symptoms[-1] = replace(symptom, onset=self._standing.onset)

    def _symptom(
        self, passage: _Passage, *, confirmed: bool, alarm: int | None = None, why: str = "one passage"
    ) -> Symptom:
        language = passage.language or "unknown"
        return Symptom(
            kind=SymptomKind.LANGUAGE_DRIFT,
            onset=passage.first,
            alarm=max(alarm or self._feed.tokens, passage.first),
            score=passage.score,
            confirmed=confirmed,
            detail={"wanted": self._wanted, "language": language, "excerpt": passage.excerpt, "why": why},
            summary=f"{why} in {language} instead of {self._wanted}: “{passage.excerpt}”",
        )
