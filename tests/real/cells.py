"""What is recorded of the real model: every combination of decoding, task and language, three prompts each.

The three prompts of a cell differ in topic and in how many units they ask for. Within one temperature the
same prompts are asked at every repetition penalty, so that penalties are compared on matched prompts; another
temperature has other prompts. Prompt, seed and half follow from the plan alone.
"""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from stresstest.model import Decoding, Message
from stresstest.tasks import Prompt, load_task

TEMPERATURES = (0.0, 0.2, 0.7, 1.0)
PENALTIES = (1.0, 1.1, 1.2, 1.3)
TASKS = ("narrative", "technical", "qa")
LANGUAGES = ("en", "it", "fr")
TOP_P = 0.9
UNITS = (4, 8, 17)
MAX_TOKENS = 2048
REPLICATES = 3
CONSTRAINED_TEMPERATURES = (0.2, 0.7)
CONSTRAINED_PENALTIES = (1.1, 1.2)
CONSTRAINED_REPLICATES = 2
"""Recorded once more with the task's sentence that demands its language: where the plain answers drift."""
MILD_TEMPERATURES = (0.2, 0.7)
MILD_PENALTIES = (1.1, 1.15, 1.2)
MILD_REPLICATES = range(10, 38)
"""English narratives at mild penalties, where this model is at its best: the grid has too few healthy answers
to count false alarms on. Numbered so that their prompts are not the grid's."""
FIRST_TOPIC = 700
"""Topics far from those that a `run` takes, which begin at 0."""
ORDER_SEED = 15
CONSTRAINED = "/constrained"
"""How the keys of such answers end."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of what is varied."""

    temperature: float
    repetition_penalty: float
    task: str
    language: str

    @property
    def decoding(self) -> Decoding:
        return Decoding(temperature=self.temperature, top_p=TOP_P, repetition_penalty=self.repetition_penalty)


@dataclass(frozen=True, slots=True)
class Planned:
    """One generation to record. replicate: from 0, within its cell. constrained: its language is demanded."""

    cell: Cell
    replicate: int
    constrained: bool = False

    @property
    def key(self) -> str:
        """Names the generation, for example `narrative/it/t0.2/p1.1/0`."""
        cell = self.cell
        plain = f"{cell.task}/{cell.language}/t{cell.temperature}/p{cell.repetition_penalty}/{self.replicate}"
        return plain + CONSTRAINED * self.constrained

    @property
    def prompt_index(self) -> int:
        """Number of the prompt within its task and language: the same at every penalty."""
        return TEMPERATURES.index(self.cell.temperature) + len(TEMPERATURES) * self.replicate

    @property
    def units(self) -> int:
        """How many units the prompt asks for; each number once in a cell, and all in every pass."""
        temperature = TEMPERATURES.index(self.cell.temperature)
        turn = temperature + TASKS.index(self.cell.task) + LANGUAGES.index(self.cell.language)
        return UNITS[(self.replicate + turn) % len(UNITS)]

    @property
    def half(self) -> str:
        """Which half of the prompts it is in: detectors are tuned on "tuning", results are told of "held".

        The same topic is in the same half in every language and at every penalty.
        """
        turn = TEMPERATURES.index(self.cell.temperature) + TASKS.index(self.cell.task) + self.replicate
        return ("tuning", "held")[turn % 2]

    @property
    def seed(self) -> int:
        """The sampling seed; settled by the key."""
        return zlib.crc32(self.key.encode())

    @property
    def prompt(self) -> Prompt:
        """The prompt, by the shipped task."""
        task = load_task(self.cell.task)
        return task.prompt(self.cell.language, FIRST_TOPIC + self.prompt_index, self.units)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The prompt's, after the language constraint where that is wanted."""
        demand = load_task(self.cell.task).language(self.cell.language).language_constraint
        system = (Message("system", demand or ""),) if self.constrained else ()
        return (*system, *self.prompt.messages)


def cells() -> list[Cell]:
    """Every cell."""
    return [Cell(*values) for values in itertools.product(TEMPERATURES, PENALTIES, TASKS, LANGUAGES)]


def plan(replicates: int = REPLICATES) -> Iterator[Planned]:
    """Every generation: pass by pass over all cells, each pass in an order of its own.

    Whatever has been recorded when time runs out is therefore balanced but for the pass at work.
    """
    order = random.Random(ORDER_SEED)
    for replicate in range(replicates):
        shuffled = cells()
        order.shuffle(shuffled)
        for cell in shuffled:
            yield Planned(cell, replicate)


def constrained_plan() -> Iterator[Planned]:
    """The generations that are recorded a second time with their language demanded."""
    for replicate in range(CONSTRAINED_REPLICATES):
        for cell in cells():
            if (
                cell.language != "en"
                and cell.temperature in CONSTRAINED_TEMPERATURES
                and cell.repetition_penalty in CONSTRAINED_PENALTIES
            ):
                yield Planned(cell, replicate, constrained=True)


def mild_plan() -> Iterator[Planned]:
    """Answers most of which are healthy."""
    for replicate in MILD_REPLICATES:
        for values in itertools.product(MILD_TEMPERATURES, MILD_PENALTIES):
            yield Planned(Cell(*values, "narrative", "en"), replicate)
