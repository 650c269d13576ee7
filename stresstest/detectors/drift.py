"""From passages in right and wrong languages to symptoms: when is it drift, and from where on?

One foreign passage is a warning: a motto, a title, a citation. Two of three consecutive ones are drift,
and so is one of 200 characters, an answer that opens with a foreign sentence ("Sure, here is …"), or one
of which, when it ends, an eighth stands in foreign sentences or a seventh is foreign in all. The onset is
the first token of the first foreign passage of that majority. While lines come in turn in two languages,
judgement waits for the next one: a translation line by line is none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from stresstest.detectors.bilingual import TURNS, is_labelled
from stresstest.detectors.segment import TextFeed
from stresstest.model import Symptom, SymptomKind

TOGETHER = 90
"""Characters of the foreign passages that make a majority."""
LONG_PASSAGE = 200
"""One unquoted foreign sentence of this length is no motto any more: it confirms alone."""
SHARE, SENTENCES_SHARE = 0.15, 0.12
"""An answer of which so much is foreign, or in foreign sentences, when it ends has drifted, however it is
spread. Clauses inside the answer's own sentences are milder: terms and names come in them, too."""
RECOVERY = 3
"""So many passages in the wanted language end a drift."""
SETTLED = 2
"""So many end a warning, which no majority can include any more, and a wait for the next line."""
_MAYBE = 3
"""Lines in turn in two languages that may be the start of a translation; see `bilingual.turns`."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A foreign one. first, last: its tokens. sentence: the index of the one it ends in; runs_on: which is a
    text without full stops. chars: how much of the passage is foreign."""

    first: int
    last: int
    sentence: int
    runs_on: bool
    language: str | None
    score: float
    chars: int
    excerpt: str


class Drift:
    """Evidence over one answer. turns: how many lines up to a sentence are in turn in two languages."""

    def __init__(self, wanted: str | None, feed: TextFeed, turns: Callable[[int], int]) -> None:
        self.symptoms: list[Symptom] = []
        self.native_chars = 0
        self.native_run = 0
        self.last_foreign = 0
        self._wanted = wanted
        self._feed = feed
        self._turns = turns
        self._foreign_chars = 0
        self._sentences_chars = 0
        self._recent: deque[Passage | None] = deque(maxlen=3)
        self._standing: Symptom | None = None
        self._waiting: tuple[Passage, str] | None = None

    @property
    def drifted(self) -> bool:
        """Whether the answer is in another language now, beyond doubt."""
        return self._standing is not None and self._standing.confirmed

    @property
    def warned_from(self) -> int | None:
        """First token of the foreign passages that are not settled."""
        standing = self._standing
        return standing.onset if standing is not None and not standing.confirmed else None

    @property
    def began(self) -> bool:
        """Whether any passage was judged."""
        return self.native_chars > 0 or self._foreign_chars > 0

    def native(self, chars: int, sentence: int) -> None:
        """A passage in the wanted language, which ends in this sentence."""
        self.native_chars += chars
        self.native_run += 1
        self._recent.append(None)
        if self._waiting is not None:
            self._decide(sentence)
        standing = self._standing
        if standing is None or self._waiting is not None:
            return
        if self.native_run >= (RECOVERY if standing.confirmed else SETTLED):
            self.symptoms[-1] = replace(standing, end=self.last_foreign)
            self._standing = None

    def foreign(self, passage: Passage, *, whole: bool) -> None:
        """A foreign passage. whole: all of it is."""
        opening = whole and not self.began
        self.native_run = 0
        self.last_foreign = passage.last
        self._foreign_chars += passage.chars
        self._sentences_chars += passage.chars if whole else 0
        self._recent.append(passage)
        if self.drifted:
            return
        if self._standing is None:
            self._standing = self._symptom(passage, confirmed=False)
            self.symptoms.append(self._standing)
        foreign = [each for each in self._recent if each is not None]
        chars = sum(each.chars for each in foreign)
        several = len(foreign) > 1 and (passage.runs_on or foreign[0].sentence != passage.sentence)
        if several and chars >= TOGETHER:
            why = f"{len(foreign)} of {len(self._recent)} consecutive passages"
            self._found(foreign[0], why, wait=self._turns(passage.sentence) >= _MAYBE)
        elif chars >= LONG_PASSAGE:
            wait = not opening and self._turns(passage.sentence) >= 2
            self._found(foreign[0], f"one passage of {chars} characters", wait=wait)
        elif opening and not is_labelled(passage.excerpt):
            self._found(passage, "the opening sentence", wait=True)

    def _found(self, first: Passage, why: str, *, wait: bool) -> None:
        """A drift from the passage `first` on. wait: unless the next line says that it is a translation."""
        if not wait:
            self._confirm(first, why)
        elif self._waiting is None:
            self._waiting = first, why

    def pardon(self) -> None:
        """What was foreign so far is the other half of a parallel text."""
        self._recent.clear()
        self._foreign_chars = self._sentences_chars = 0
        self._waiting = None
        if self._standing is not None:
            self.symptoms[-1] = replace(self._standing, end=self.last_foreign)
            self._standing = None

    def finish(self, sentence: int) -> None:
        """The answer has ended with this sentence."""
        if self._waiting is not None:
            if self._turns(sentence) >= TURNS:
                self.pardon()
            else:
                self._confirm(*self._waiting)
        self._weigh_the_whole()

    def _decide(self, sentence: int) -> None:
        """A line in the wanted language came where lines may be in turn."""
        assert self._waiting is not None
        number = self._turns(sentence)
        if number >= TURNS:
            self.pardon()
        elif number < 2 or self.native_run >= SETTLED:
            self._confirm(*self._waiting)

    def _weigh_the_whole(self) -> None:
        """Confirm the first foreign passage of an answer that ends with too many of them."""
        if not self.symptoms or any(symptom.confirmed for symptom in self.symptoms):
            return
        whole = self._foreign_chars + self.native_chars
        if not self._foreign_chars or (
            self._foreign_chars < SHARE * whole and self._sentences_chars < SENTENCES_SHARE * whole
        ):
            return
        first = self.symptoms[0]
        confirmed = replace(
            first,
            confirmed=True,
            alarm=max(self._feed.tokens, first.onset),
            detail={**first.detail, "why": f"{self._foreign_chars} of {whole} characters"},
        )
        if self._standing is first:
            self._standing = confirmed
        self.symptoms[0] = confirmed

    def _confirm(self, passage: Passage, why: str) -> None:
        self._waiting = None
        if self._standing is None or self._standing.confirmed:
            return
        symptom = self._symptom(passage, confirmed=True, why=why)
        self._standing = self.symptoms[-1] = replace(symptom, onset=self._standing.onset)

    def _symptom(self, passage: Passage, *, confirmed: bool, why: str = "one passage") -> Symptom:
        language = passage.language or "unknown"
        return Symptom(
            kind=SymptomKind.LANGUAGE_DRIFT,
            onset=passage.first,
            alarm=max(self._feed.tokens, passage.first),
            score=passage.score,
            confirmed=confirmed,
            detail={"wanted": self._wanted, "language": language, "excerpt": passage.excerpt, "why": why},
            summary=f"{why} in {language} instead of {self._wanted}: “{passage.excerpt}”",
        )
