"""The answer being written to one request: a voice, a ready JSON text, or silence of a given length."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.writing import Brief, Voice, Written
from stresstest.simulation.engine.writing.ink import Ink, label, pieces

_ENDS = (b".", b"!", b"?", b"\n", "»".encode(), "”".encode(), b'"')


class Answer(Protocol):
    """What is written token by token. onset, symptom: the truth so far, None while it is healthy."""

    @property
    def onset(self) -> int | None: ...

    @property
    def symptom(self) -> str | None: ...

    def next(self) -> Written | None:
        """The next token, EOS included; None only once the EOS was given."""
        ...


@lru_cache(maxsize=1)
def _sentence_ends() -> frozenset[int]:
    return frozenset(i for i in range(vocabulary.SIZE) if vocabulary.piece(i).rstrip().endswith(_ENDS))


@lru_cache(maxsize=64)
def _eos(language: str) -> Written:
    ink = Ink(language, 1.0, random.Random(0))
    return replace(ink.write(label("\n"))[0], id=vocabulary.EOS)


@dataclass(frozen=True, slots=True)
class _Gated:
    kind: str
    onset: int
    gate: Callable[[], bool]
    ends: bool


class TextAnswer:
    """A voice, with the model's own decision when to end.

    end: tokens of this answer after which it ends at the next sentence, while healthy. endless: EOS is
    never taken, the model goes on with further units. least: tokens before which it goes on just so.
    """

    __slots__ = (
        "_brief",
        "_end",
        "_ended",
        "_endless",
        "_gated",
        "_least",
        "_next",
        "_offset",
        "_onset",
        "_seed",
        "_symptom",
        "_written",
        "voice",
    )

    def __init__(
        self, brief: Brief, seed: int, history: Sequence[int], end: int | None, least: int, endless: bool
    ) -> None:
        self.voice = Voice(brief, seed, history)
        self._next = self.voice.next
        self._brief = brief
        self._seed = seed
        self._end = end
        self._least = least
        self._endless = endless
        self._ended = False
        self._gated: list[_Gated] = []
        self._written = 0
        self._offset = 0
        self._onset: int | None = None
        self._symptom: str | None = None

    def plan(self, kind: str, onset: int, *, gate: Callable[[], bool] | None, ends: bool) -> None:
        """Degenerate as `kind` from this request's token `onset` on.

        A gate is asked at the first end of a sentence from there on, and while it says no at each later one;
        meanwhile the text is healthy, and other plans go their way.
        """
        if gate is None:
            self.voice.plan(kind, onset, ends=ends)
        else:
            self._gated.append(_Gated(kind, onset, gate, ends))

    @property
    def onset(self) -> int | None:
        if self._onset is not None or self.voice.onset is None:
            return self._onset
        return self.voice.onset + self._offset

    @property
    def symptom(self) -> str | None:
        return self._symptom or self.voice.symptom

    def next(self) -> Written | None:
        written = self._next()
        if written is None:
            return self._ending()
        self._written += 1
        if (self._gated or self._end is not None) and written.id in _sentence_ends():
            self._between_sentences()
        return written

    def _between_sentences(self) -> None:
        if self._end is not None and self._written >= self._end:
            self._end = None
            if self.onset is None:
                self._next = lambda: None
        for each in [g for g in self._gated if g.onset <= self._written + 1 and g.gate()]:
            self._gated.remove(each)
            self.voice.plan(each.kind, self._written + 1 - self._offset, ends=each.ends)

    def _ending(self) -> Written | None:
        """The voice has ended: EOS, or on with further units where the EOS must not be taken."""
        if self._ended:
            return None
        if not self._endless and self._written >= self._least:
            self._ended = True
            self._written += 1
            return _eos(self._brief.language)
        self._onset, self._symptom = self.onset, self.symptom
        self._offset = self._written
        self._seed += 1
        following = (self._brief.units or self._brief.first_unit) + 1
        further = replace(self._brief, units=None, first_unit=following, inside_unit=False)
        self.voice = Voice(further, self._seed, vocabulary.encode("\n\n"))
        self._next = self.voice.next
        if not self._endless:
            self._end = self._least
        return self.next()


class JsonAnswer:
    """A ready text, written as it is, then EOS."""

    __slots__ = ("_tokens", "onset", "symptom")

    def __init__(self, text: str, language: str, temperature: float, seed: int) -> None:
        ink = Ink(language, temperature, random.Random(seed))
        self._tokens = iter([*ink.write(pieces(text, language)), _eos(language)])
        self.onset: int | None = None
        self.symptom: str | None = None

    def next(self) -> Written | None:
        return next(self._tokens, None)


class SilentAnswer:
    """So many tokens and no text: for what-if questions, where only lengths matter."""

    __slots__ = ("onset", "symptom", "tokens")

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.onset: int | None = None
        self.symptom: str | None = None

    def next(self) -> Written | None:
        return None
