"""What is asked for and how it is laid out: units, headings, questions and answers, paragraph breaks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.writing.grammar import Grammar
from stresstest.simulation.engine.writing.ink import FRAME, OPEN, Pieces, label

_REGISTERS = {"narrative": "narrative", "technical": "technical", "qa": "study"}
_HEADING = 7
"""Tokens of a unit's label, number and break, about."""
_TAIL = 400
"""Tokens of the history in which the present unit's beginning is looked for."""
BREAK = vocabulary.encode("\n\n")[0]


@dataclass(frozen=True, slots=True)
class Brief:
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


class Outline:
    """The healthy answer's layout. `prefix` tells what stands before the next sentence and which register
    it is written in; `take` counts the tokens that were written for it."""

    def __init__(self, brief: Brief, grammar: Grammar, rng: random.Random, history: Sequence[int]) -> None:
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
            self._room = self._size() * (0.25 + 0.5 * rng.random())
            self.sentences = 1
            self._asked = bool(self._answer) and not self._answered(history)

    def _answered(self, history: Sequence[int]) -> bool:
        """Whether the answer of the unit that the history ends in has begun."""
        tail = vocabulary.decode(history[-_TAIL:])
        return self._answer in tail.rpartition("\n\n")[2]

    def _size(self) -> float:
        return self._brief.tokens_per_unit * min(max(self._rng.gauss(1.0, 0.15), 0.75), 1.35)

    @property
    def due(self) -> bool:
        """Whether the present unit is complete: the next sentence begins a unit."""
        if self._asked or self._room >= 0.5 * self._mean:
            return False
        # A unit is not so much shorter than the others as to look like a collapse.
        least = int((self._brief.tokens_per_unit - _HEADING * (4 if self._answer else 1)) / self._mean + 0.1)
        return self._cut or self.sentences >= least or self.unit < self._brief.first_unit

    @property
    def over(self) -> bool:
        """Whether the answer is complete."""
        return self._brief.units is not None and self.due and self.unit >= self._brief.units

    def end_unit(self) -> None:
        """The present unit ends here, however long it is."""
        if not self._asked:
            self._room, self._cut = 0.0, True

    def prefix(self) -> tuple[Pieces, str, str]:
        """What stands before the next sentence, its register, and the blank it begins with."""
        if self._asked:
            return [*label("\n" + self._answer)], self.register, " "
        if not self.due:
            return [], self.register, " "
        if not self.numbered:
            breaks = self._begun and self.sentences >= 3
            return (
                ([(BREAK, OPEN)] if breaks else []),
                self.register,
                "" if breaks or not self._begun else " ",
            )
        ahead: Pieces = [(BREAK, FRAME)] if self._begun else []
        register = "question" if self._answer else self.register
        return ahead + self.heading(self.unit + 1), register, " "

    def heading(self, number: int) -> Pieces:
        """A unit's label and number."""
        return label(f"{self._label} {number}.")

    def take(self, tokens: int, broken: bool) -> None:
        """The sentence announced by `prefix` was written, `tokens` with its prefix; broken: it followed
        a break or heading."""
        if self._asked:
            self._asked = False
            self.sentences = 1
        elif self.due:
            self.unit += 1
            self._room = self._size() + (0.0 if self._cut else max(min(self._room, 20.0), -20.0))
            self._cut = False
            self.sentences = 1 if broken or not self._begun else self.sentences + 1
            self._asked = bool(self._answer)
        else:
            self.sentences += 1
        self._begun = True
        self._room -= tokens
        self._mean += 0.1 * (tokens - self._mean)
