"""Sentences that go over to another script and back: no sentence is foreign, and none is in the language.

Reasoning models trained without examples write so ("language mixing": DeepSeek-AI 2025, arXiv:2501.12948). A
name, a term or a quoted line in another script is shorter, in brackets or quotation marks, or not in one
sentence after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import regex

from stresstest.detectors.identification.votes import screening_identifier
from stresstest.detectors.language.drift import LONG_PASSAGE, ForeignPassage
from stresstest.detectors.text.scripts import own_letters, without_brackets

MIXED_IN_A_ROW = 6
"""Passages, each of them mixed, that are a drift."""
_SHARE, _LETTERS = 0.25, 18
"""Letters of other scripts, as a share and in all, that a mixed passage has: six ideographs weigh 18."""

_LATIN = regex.compile(r"[\p{Latin}\p{M}]+")


@dataclass(slots=True)
class MixedPassages:
    """Follows mixed passages. language: the one that is wanted, which is written in Latin letters. first: the
    token at which a row of them begins; None outside of one."""

    language: str
    first: int | None = None
    _count: int = 0
    _letters: int = 0
    _texts: str = ""

    def add(self, text: str, first: int, last: int, sentence: int) -> ForeignPassage | None:
        """Take the next passage. What has drifted with it, if the row is long enough."""
        own, every = (0, 0) if text.isascii() else own_letters(without_brackets(text), self.language)
        strange = every - own
        if strange < max(_LETTERS, _SHARE * every):
            self.end()
            return None
        if self.first is None:
            self.first, self._count, self._letters, self._texts = first, 0, 0, ""
        self._count += 1
        self._letters += strange
        if len(self._texts) < LONG_PASSAGE:
            self._texts += f"{text} "
        if self._count < MIXED_IN_A_ROW:
            return None
        letters = max(self._letters, LONG_PASSAGE) if self._count == MIXED_IN_A_ROW else strange
        language, score = screening_identifier("en").classify(_LATIN.sub(" ", self._texts))
        return ForeignPassage(self.first, last, sentence, False, language, score, letters, self._texts[:80])

    def end(self) -> None:
        """A passage that is in the language throughout."""
        self.first = None
