"""From passages in expected and foreign languages to symptoms: when is it drift, and from where on?

One foreign passage is a warning: a motto, a title, a citation. Drift is two of three consecutive passages,
one of 200 characters, an answer that opens with a foreign sentence ("Sure, here is …"), or one of which, when
it ends, an eighth is in foreign sentences or a seventh is foreign in all. The onset is the first token of the
first foreign passage of that majority. While lines alternate between two languages, the decision waits for
the next line, because a line-by-line translation is no drift.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from weakref import WeakMethod

from stresstest.detectors.language.bilingual import MIN_ALTERNATING_LINES, has_language_label
from stresstest.detectors.text.segments import TextSegmenter
from stresstest.model import Symptom, SymptomKind

MAJORITY_CHARS = 90
"""Characters of the foreign passages that make a majority."""
LONG_PASSAGE = 200
"""One unquoted foreign sentence of this length is no motto: it confirms alone."""
SHARE, SENTENCES_SHARE = 0.15, 0.12
"""An answer has drifted if so much of it is foreign, or in foreign sentences, when it ends, however it is
spread. Foreign clauses inside the answer's own sentences weigh less: they may be terms and names."""
RECOVERY_PASSAGES = 3
"""Passages in the requested language that end a drift."""
SETTLE_PASSAGES = 2
"""Passages that end a warning, which no majority can include any more, and a wait for the next line."""
_POSSIBLE_TRANSLATION_LINES = 3
"""Alternating lines that may be the start of a translation; see `alternating_lines`."""


@dataclass(frozen=True, slots=True)
class ForeignPassage:
    """A foreign passage. first, last: its tokens. sentence: index of the sentence it ends in; unterminated:
    that sentence is a text without full stops. chars: how much of the passage is foreign."""

    first: int
    last: int
    sentence: int
    unterminated: bool
    language: str | None
    score: float
    chars: int
    excerpt: str


class DriftTracker:
    """Evidence over one answer. turns: how many lines up to a sentence alternate between two languages."""

    def __init__(self, wanted: str | None, feed: TextSegmenter, turns: Callable[[int], int]) -> None:
        self.symptoms: list[Symptom] = []
        self.native_chars = 0
        self.native_run = 0
        self.last_foreign = 0
        self._wanted = wanted
        self._feed = feed
        # Weak, as its owner hands in a method of its own: a cycle would keep all that was read.
        self._turns = WeakMethod(turns)
        self._foreign_chars = 0
        self._sentences_chars = 0
        self._recent: deque[ForeignPassage | None] = deque(maxlen=3)
        self._open_drift: Symptom | None = None
        self._waiting: tuple[ForeignPassage, str] | None = None

    def _alternating_lines(self, sentence: int) -> int:
        turns = self._turns()
        return 0 if turns is None else turns(sentence)

    @property
    def is_drifting(self) -> bool:
        """Whether the answer is currently in another language, confirmed."""
        return self._open_drift is not None and self._open_drift.confirmed

    @property
    def warning_start(self) -> int | None:
        """First token of the unconfirmed foreign passages."""
        standing = self._open_drift
        return standing.onset if standing is not None and not standing.confirmed else None

    @property
    def has_evidence(self) -> bool:
        return self.native_chars > 0 or self._foreign_chars > 0

    def add_native(self, chars: int, sentence: int) -> None:
        """Add a passage in the requested language that ends in this sentence."""
        self.native_chars += chars
        self.native_run += 1
        self._recent.append(None)
        if self._waiting is not None:
            self._resolve_waiting(sentence)
        standing = self._open_drift
        if standing is None or self._waiting is not None:
            return
        if self.native_run >= (RECOVERY_PASSAGES if standing.confirmed else SETTLE_PASSAGES):
            self.symptoms[-1] = replace(standing, end=self.last_foreign)
            self._open_drift = None

    def add_foreign(self, passage: ForeignPassage, *, whole: bool) -> None:
        """Add a foreign passage. whole: all of it is foreign."""
        opening = whole and not self.has_evidence
        self.native_run = 0
        self.last_foreign = passage.last
        self._foreign_chars += passage.chars
        self._sentences_chars += passage.chars if whole else 0
        self._recent.append(passage)
        if self.is_drifting:
            return
        if self._open_drift is None:
            self._open_drift = self._symptom(passage, confirmed=False)
            self.symptoms.append(self._open_drift)
        foreign = [each for each in self._recent if each is not None]
        chars = sum(each.chars for each in foreign)
        several = len(foreign) > 1 and (passage.unterminated or foreign[0].sentence != passage.sentence)
        if several and chars >= MAJORITY_CHARS:
            why = f"{len(foreign)} of {len(self._recent)} consecutive passages"
            self._report_drift(
                foreign[0], why, wait=self._alternating_lines(passage.sentence) >= _POSSIBLE_TRANSLATION_LINES
            )
        elif chars >= LONG_PASSAGE:
            wait = not opening and self._alternating_lines(passage.sentence) >= 2
            self._report_drift(foreign[0], f"one passage of {chars} characters", wait=wait)
        elif opening and not has_language_label(passage.excerpt):
            self._report_drift(passage, "the opening sentence", wait=True)

    def _report_drift(self, first: ForeignPassage, why: str, *, wait: bool) -> None:
        """Report drift from `first` on. wait: only unless the next line shows that it is a translation."""
        if not wait:
            self._confirm(first, why)
        elif self._waiting is None:
            self._waiting = first, why

    def clear_as_translation(self) -> None:
        """Discard all foreign passages so far: they are half of a parallel text."""
        self._recent.clear()
        self._foreign_chars = self._sentences_chars = 0
        self._waiting = None
        if self._open_drift is not None:
            self.symptoms[-1] = replace(self._open_drift, end=self.last_foreign)
            self._open_drift = None

    def finish(self, sentence: int) -> None:
        """The answer ended with this sentence."""
        if self._waiting is not None:
            if self._alternating_lines(sentence) >= MIN_ALTERNATING_LINES:
                self.clear_as_translation()
            else:
                self._confirm(*self._waiting)
        self._check_whole_answer()

    def _resolve_waiting(self, sentence: int) -> None:
        """Decide after a line in the requested language where lines may alternate."""
        assert self._waiting is not None
        number = self._alternating_lines(sentence)
        if number >= MIN_ALTERNATING_LINES:
            self.clear_as_translation()
        elif number < 2 or self.native_run >= SETTLE_PASSAGES:
            self._confirm(*self._waiting)

    def _check_whole_answer(self) -> None:
        """Confirm the first foreign passage of an answer that contains too many of them."""
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
        if self._open_drift is first:
            self._open_drift = confirmed
        self.symptoms[0] = confirmed

    def _confirm(self, passage: ForeignPassage, why: str) -> None:
        self._waiting = None
        if self._open_drift is None or self._open_drift.confirmed:
            return
        symptom = self._symptom(passage, confirmed=True, why=why)
        self._open_drift = self.symptoms[-1] = replace(symptom, onset=self._open_drift.onset)

    def _symptom(self, passage: ForeignPassage, *, confirmed: bool, why: str = "one passage") -> Symptom:
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
