"""The answer being written to one request: generated text, a given JSON text, or tokens without text."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.writing import AnswerBrief, AnswerGenerator, EmittedToken
from stresstest.simulation.engine.writing.token_emitter import TokenEmitter, classify_pieces, heading_pieces

_ENDS = (b".", b"!", b"?", b"\n", "»".encode(), "”".encode(), b'"')


class AnswerStream(Protocol):
    """What is written token by token. onset, symptom: the truth so far, None while it is healthy."""

    @property
    def onset(self) -> int | None: ...

    @property
    def symptom(self) -> str | None: ...

    def next_token(self) -> EmittedToken | None:
        """The next token, EOS included; None only once the EOS was given."""
        ...


@lru_cache(maxsize=1)
def _sentence_end_ids() -> frozenset[int]:
    return frozenset(
        i for i in range(vocabulary.VOCABULARY_SIZE) if vocabulary.token_bytes(i).rstrip().endswith(_ENDS)
    )


@lru_cache(maxsize=64)
def _eos(language: str) -> EmittedToken:
    emitter = TokenEmitter(language, 1.0, random.Random(0))
    return replace(emitter.emit(heading_pieces("\n"))[0], id=vocabulary.EOS)


@dataclass(frozen=True, slots=True)
class _GatedHazard:
    kind: str
    onset: int
    gate: Callable[[], bool]
    ends: bool
    form: str | None


class TextAnswer:
    """Generated text, with the model's own decision when to end.

    end: tokens of this answer after which it ends at the next sentence, while healthy. endless: EOS is
    never taken, the model goes on with further units. least: tokens before which it goes on just so.
    """

    def __init__(
        self,
        brief: AnswerBrief,
        seed: int,
        history: Sequence[int],
        end: int | None,
        least: int,
        endless: bool,
    ) -> None:
        self.generator = AnswerGenerator(brief, seed, history)
        self._next = self.generator.next_token
        self._brief = brief
        self._seed = seed
        self._end = end
        self._least = least
        self._endless = endless
        self._ended = False
        self._gated: list[_GatedHazard] = []
        self._written = 0
        self._offset = 0
        self._onset: int | None = None
        self._symptom: str | None = None

    def plan_failure(
        self, kind: str, onset: int, *, gate: Callable[[], bool] | None, ends: bool, form: str | None = None
    ) -> None:
        """Degenerate as `kind` from this request's token `onset` on.

        A gate is asked at the first end of a sentence from there on, and while it says no at each later one;
        meanwhile the text is healthy, and other plans go their way.
        """
        if gate is None:
            self.generator.plan_failure(kind, onset, ends=ends, form=form)
        else:
            self._gated.append(_GatedHazard(kind, onset, gate, ends, form))

    @property
    def onset(self) -> int | None:
        if self._onset is not None or self.generator.onset is None:
            return self._onset
        return self.generator.onset + self._offset

    @property
    def symptom(self) -> str | None:
        return self._symptom or self.generator.symptom

    def next_token(self) -> EmittedToken | None:
        written = self._next()
        if written is None:
            return self._end_or_continue()
        self._written += 1
        if (self._gated or self._end is not None) and written.id in _sentence_end_ids():
            self._between_sentences()
        return written

    def _between_sentences(self) -> None:
        if self._end is not None and self._written >= self._end:
            self._end = None
            if self.onset is None:
                self._next = lambda: None
        for each in [g for g in self._gated if g.onset <= self._written + 1 and g.gate()]:
            self._gated.remove(each)
            at = self._written + 1 - self._offset
            self.generator.plan_failure(each.kind, at, ends=each.ends, form=each.form)

    def _end_or_continue(self) -> EmittedToken | None:
        """The generator has ended: EOS, or further units if the EOS must not be emitted."""
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
        self.generator = AnswerGenerator(further, self._seed, vocabulary.encode("\n\n"))
        self._next = self.generator.next_token
        if not self._endless:
            self._end = self._least
        return self.next_token()


class GivenAnswer:
    """Tokens as given; none for replays, in which only lengths matter."""

    onset: int | None = None
    symptom: str | None = None

    def __init__(self, tokens: Iterable[EmittedToken] = ()) -> None:
        self._tokens = iter(tokens)

    def next_token(self) -> EmittedToken | None:
        return next(self._tokens, None)


def json_answer(text: str, language: str, temperature: float, seed: int) -> GivenAnswer:
    """A given JSON text, then EOS."""
    emitter = TokenEmitter(language, temperature, random.Random(seed))
    return GivenAnswer([*emitter.emit(classify_pieces(text, language)), _eos(language)])
