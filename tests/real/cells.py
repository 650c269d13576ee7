"""What is recorded of the real model: every combination of decoding, task and language, three prompts each.

The three prompts of a cell differ in topic and in how many units they ask for. Within one temperature the
same prompts are asked at every repetition penalty, so that penalties are compared on matched prompts; another
temperature has other prompts. Prompt, seed and half follow from the plan alone.
"""

from __future__ import annotations

import itertools
import json
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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
STRUCTURED_TASKS = ("json", "code", "catalogue")
RECORDS = (10, 20, 40, 60)
STRUCTURED_REPLICATES = 20
SCHEMA = "/schema"
"""How the keys of JSON answers end whose decoder was held to a schema: the same prompts once more."""


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
    """One generation to record.

    replicate: from 0, within its cell. constrained: its language is demanded. schema: the decoder lets
    nothing through but an array of as many records as are asked for.
    """

    cell: Cell
    replicate: int
    constrained: bool = False
    schema: bool = False

    @property
    def key(self) -> str:
        """Names the generation, for example `narrative/it/t0.2/p1.1/0`."""
        cell = self.cell
        plain = f"{cell.task}/{cell.language}/t{cell.temperature}/p{cell.repetition_penalty}/{self.replicate}"
        return plain + CONSTRAINED * self.constrained + SCHEMA * self.schema

    @property
    def prompt_index(self) -> int:
        """Number of the prompt within its task and language: the same at every penalty."""
        return TEMPERATURES.index(self.cell.temperature) + len(TEMPERATURES) * self.replicate

    @property
    def units(self) -> int:
        """How many units the prompt asks for; each number once in a cell, and all in every pass."""
        if self.cell.task in STRUCTURED_TASKS:
            return RECORDS[self.replicate % len(RECORDS)]
        temperature = TEMPERATURES.index(self.cell.temperature)
        turn = temperature + TASKS.index(self.cell.task) + LANGUAGES.index(self.cell.language)
        return UNITS[(self.replicate + turn) % len(UNITS)]

    @property
    def half(self) -> str:
        """Which half of the prompts it is in: detectors are tuned on "tuning", results are told of "held".

        The same topic is in the same half in every language and at every penalty.
        """
        task = (*TASKS, *STRUCTURED_TASKS).index(self.cell.task)
        turn = TEMPERATURES.index(self.cell.temperature) + task + self.replicate
        return ("tuning", "held")[turn % 2]

    @property
    def seed(self) -> int:
        """The sampling seed; settled by the key."""
        return zlib.crc32(self.key.encode())

    @property
    def body(self) -> str | None:
        """Further fields of the request, as JSON."""
        return json.dumps(response_format(self.units)) if self.schema else None

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


def structured_plan() -> Iterator[Planned]:
    """Records, functions and rows at temperature 0.2; the records also with the decoder held to a schema."""
    for replicate in range(STRUCTURED_REPLICATES):
        for task in STRUCTURED_TASKS:
            yield Planned(Cell(0.2, 1.0, task, "en"), replicate)
        yield Planned(Cell(0.2, 1.0, "json", "en"), replicate, schema=True)


def response_format(records: int) -> dict[str, Any]:
    """The field of a request that holds the decoder to the task's array, of so many records."""
    words = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 4}
    properties = {
        "id": {"type": "integer"},
        **{name: {"type": "string"} for name in ("name", "category", "description")},
        "price": {"type": "number"},
        "in_stock": {"type": "boolean"},
        "tags": words,
    }
    record = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    schema = {"type": "array", "items": record, "minItems": records, "maxItems": records}
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "records", "schema": schema}}}
