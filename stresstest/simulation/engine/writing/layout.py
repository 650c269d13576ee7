"""The page being written: outline and sentences joined, and sentences that end on a given token."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.grammar import Grammar
from stresstest.simulation.engine.writing.composer import SentenceComposer
from stresstest.simulation.engine.writing.token_emitter import (
    CONTENT,
    FRAME,
    FUNCTION,
    OPEN,
    ClassifiedPieces,
    classify_pieces,
    heading_pieces,
)

_REGISTERS = {"narrative": "narrative", "technical": "technical", "qa": "study"}
_HEADING = 7
"""Tokens of a unit's label, number and break, about."""
_TAIL = 400
"""Tokens of the history in which the present unit's beginning is looked for."""
UNIT_BREAK = vocabulary.encode("\n\n")[0]


@dataclass(frozen=True, slots=True)
class AnswerBrief:
    """What an answer is to be.

    task: "narrative" | "technical" | "qa", None for plain prose. structure: "rigid" | "open".
    units: end in good order after that unit; None: endless. first_unit: number of the next unit to begin
    (the answer's earlier part is in the history). inside_unit: the history ends in the middle of a unit.
    tokens_per_unit: mean length. repetition_penalty, temperature: in force.
    """

    task: str | None
    language: str
    structure: str = "rigid"
    topic: str = ""
    units: int | None = None
    first_unit: int = 1
    inside_unit: bool = False
    tokens_per_unit: float = 70.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0


class AnswerOutline:
    """The healthy answer's layout. `prefix` tells what stands before the next sentence and which register
    it is written in; `add_sentence` counts the tokens that were written for it."""

    def __init__(
        self, brief: AnswerBrief, grammar: Grammar, rng: random.Random, history: Sequence[int]
    ) -> None:
        """history: the text of this answer so far."""
        self._brief = brief
        self._rng = rng
        self.numbered = brief.structure == "rigid" and brief.task in _REGISTERS
        self.register = _REGISTERS.get(brief.task or "", "narrative")
        self.unit = brief.first_unit - 1
        """Number of the unit that is being written."""
        self.sentences = 0
        """Sentences of the present unit, the question not counted."""
        self._label = grammar.labels.get(brief.task or "", "")
        self._answer = grammar.labels.get("answer", "") if brief.task == "qa" and self.numbered else ""
        self._asked = False
        self._begun = bool(history)
        self._mean = 28.0
        self._room = 0.0
        self._cut = False
        if brief.inside_unit:
            self._room = self._unit_size() * (0.25 + 0.5 * rng.random())
            self.sentences = 1
            self._asked = bool(self._answer) and not self._answer_started(history)

    def _answer_started(self, history: Sequence[int]) -> bool:
        """Whether the answer of the unit that the history ends in has begun."""
        tail = vocabulary.decode(history[-_TAIL:])
        return self._answer in tail.rpartition("\n\n")[2]

    def _unit_size(self) -> float:
        return self._brief.tokens_per_unit * min(max(self._rng.gauss(1.0, 0.15), 0.75), 1.35)

    @property
    def is_unit_complete(self) -> bool:
        """Whether the present unit is complete: the next sentence begins a unit."""
        if self._asked or self._room >= 0.5 * self._mean:
            return False
        # A unit is not so much shorter than the others as to look like a collapse.
        least = int((self._brief.tokens_per_unit - _HEADING * (4 if self._answer else 1)) / self._mean + 0.1)
        return self._cut or self.sentences >= least or self.unit < self._brief.first_unit

    @property
    def is_complete(self) -> bool:
        """Whether the answer is complete."""
        return self._brief.units is not None and self.is_unit_complete and self.unit >= self._brief.units

    def end_unit(self) -> None:
        """The present unit ends here, however long it is."""
        if not self._asked:
            self._room, self._cut = 0.0, True

    def prefix(self) -> tuple[ClassifiedPieces, str, str]:
        """What stands before the next sentence, its register, and the blank it begins with."""
        if self._asked:
            return [*heading_pieces("\n" + self._answer)], self.register, " "
        if not self.is_unit_complete:
            return [], self.register, " "
        if not self.numbered:
            breaks = self._begun and self.sentences >= 3
            return (
                ([(UNIT_BREAK, OPEN)] if breaks else []),
                self.register,
                "" if breaks or not self._begun else " ",
            )
        ahead: ClassifiedPieces = [(UNIT_BREAK, FRAME)] if self._begun else []
        register = "question" if self._answer else self.register
        return ahead + self.heading(self.unit + 1), register, " "

    def heading(self, number: int) -> ClassifiedPieces:
        """A unit's label and number."""
        return heading_pieces(f"{self._label} {number}.")

    def add_sentence(self, tokens: int, broken: bool) -> None:
        """The sentence announced by `prefix` was written, `tokens` with its prefix; broken: it followed
        a break or heading."""
        if self._asked:
            self._asked = False
            self.sentences = 1
        elif self.is_unit_complete:
            self.unit += 1
            self._room = self._unit_size() + (0.0 if self._cut else max(min(self._room, 20.0), -20.0))
            self._cut = False
            self.sentences = 1 if broken or not self._begun else self.sentences + 1
            self._asked = bool(self._answer)
        else:
            self.sentences += 1
        self._begun = True
        self._room -= tokens
        self._mean += 0.1 * (tokens - self._mean)


FITTING_TOKENS = 96
"""Tokens before an onset from which on sentences are chosen by their length, to end just before it."""
_TRIES = 160


class AnswerLayout:
    """What is written and what comes next. ids: the answer so far, its history included."""

    def __init__(self, brief: AnswerBrief, rng: random.Random, history: Sequence[int]) -> None:
        self.brief = brief
        self.rng = rng
        self.ids = list(history)
        self.composer = SentenceComposer(brief.language, rng, brief.repetition_penalty)
        self.writer = self.composer
        """Who writes now: a drift puts a composer of another language here."""
        self.language = self.composer.grammar.language
        self.outline = AnswerOutline(brief, self.composer.grammar, rng, history)
        self._opening = self._first_sentence() if not history else None
        self._mean = 28.0

    def _first_sentence(self) -> str | None:
        """The topic is taken up once, at the beginning."""
        frame = self.composer.grammar.labels.get(f"opening_{self.brief.task}", "")
        topic = self.brief.topic.strip()
        usable = frame and topic and len(topic) <= 240 and topic.replace("\n", "") == topic
        return frame.replace("{topic}", topic) if usable else None

    def next_segment(self, cut: int = 0) -> ClassifiedPieces | None:
        """The next sentence with what stands before it; None when the answer is complete.

        cut: if the token after so many is in this sentence, it shall begin a word, for the sentence will
        be cut before it.
        """
        if self.outline.is_complete:
            return None
        before, register, blank = self.outline.prefix()
        by = self.writer
        if self._opening is not None and by is self.composer and register != "question":
            text, self._opening = self._opening, None
        else:
            text = by.sentence(register)
        body = classify_pieces(blank + text, by.grammar.language, OPEN)
        for _ in range(12):
            at = cut - len(before)
            if not 0 < at < len(body) or body[at][1] in (FUNCTION, CONTENT):
                break
            body = classify_pieces(blank + by.sentence(register), by.grammar.language, OPEN)
        self._append(before, body)
        return before + body

    def fit_segment(self, room: int, end: str = "") -> ClassifiedPieces | None:
        """A sentence chosen so that the text ends after `room` tokens, now or with a later sentence.

        end: what the very last one ends with instead of its full stop. Where nothing fits it runs over.
        """
        if self.outline.is_complete:
            return None
        before, register, blank = self.outline.prefix()
        self._opening = None
        left = room - len(before)
        best: ClassifiedPieces = []
        worst = 1e9
        for _ in range(_TRIES):
            text = self.composer.sentence(register)
            body = classify_pieces(blank + text, self.language, OPEN)
            misfit = self._fit_error(left - len(body))
            if misfit < worst:
                worst = misfit
                best = (
                    classify_pieces(blank + text[:-1] + end, self.language, OPEN)
                    if end and misfit == 0.0
                    else body
                )
                if misfit == 0.0 or (misfit < 1.0 and left > 1.5 * self._mean):
                    break
        self._append(before, best)
        return before + best

    def _fit_error(self, leftover: int) -> float:
        """0: ends exactly. Under 1: one or more ordinary sentences still fit. Else worse and worse."""
        share = leftover / self._mean
        if leftover == 0:
            return 0.0
        if leftover < 0:
            return 10.0 - leftover
        if 0.75 <= share <= 1.25 or share >= 1.6:
            return 0.5
        return 1.0 + min(abs(share - 1.0), abs(share - 2.0))

    def _append(self, before: ClassifiedPieces, body: ClassifiedPieces) -> None:
        self._mean += 0.05 * (len(body) - self._mean)
        self.outline.add_sentence(len(before) + len(body), bool(before))
