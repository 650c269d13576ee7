"""Structured answers: the records of a JSON array, the rows of a table, the functions of a module.

A unit is written whole and at once. Its keys, rules and keywords are all but certain, its values are words
and sentences of the grammar.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.grammar import common_words
from stresstest.simulation.engine.writing.composer import SentenceComposer
from stresstest.simulation.engine.writing.layout import AnswerBrief, AnswerLayout
from stresstest.simulation.engine.writing.token_emitter import (
    ClassifiedPieces,
    classify_pieces,
    heading_pieces,
)

NUMBER, NAME = "\ue000", "\ue001"
"""Where a unit's own number and name stand in it."""
_FIRST_WORD = 40
"""The commonest words are function words, which name nothing."""
_COLUMNS = {
    "it": "N. | Nome | Origine | Descrizione | Uso",
    "en": "No. | Name | Origin | Description | Use",
    "fr": "N° | Nom | Origine | Description | Usage",
    "de": "Nr. | Name | Herkunft | Beschreibung | Verwendung",
    "es": "N.º | Nombre | Origen | Descripción | Uso",
    "pt": "N.º | Nome | Origem | Descrição | Uso",
}
_VERBS = (
    "load", "read", "check", "parse", "merge", "split", "count", "clean", "group", "sort", "filter",
    "compare", "format", "write", "convert", "collect", "trim", "match", "measure", "rank", "round", "scale",
    "label",
)  # fmt: skip
_NOUNS = (
    "orders", "rows", "stations", "readings", "members", "invoices", "routes", "shifts", "names", "prices",
    "totals", "dates", "fields", "errors", "pages", "labels", "events", "records", "limits", "units",
    "weights", "tracks", "tables", "columns", "entries", "results", "gaps", "changes", "versions", "keys",
)  # fmt: skip
_STATEMENTS = (
    "{a} = [item for item in {p} if item.get({s!r}) is not None]",
    "{a} = {{row[{s!r}]: row for row in {p}}}",
    "{a} = sorted({p}, key=lambda pair: pair[{n}])",
    "{a} = sum(float(value) for value in {p} if value != {s!r})",
    "{a} = max(({b} for {b} in {p}), default={n})",
    "{a} = dict.fromkeys({p}, {n})",
    "{a}, {b} = {p}[:{n}], {p}[{n}:]",
    "{a} = Counter(str({b}).lower() for {b} in {p})",
    "{a} = \" \".join(map(str, {p})).replace({s!r}, \"\")",
    "if not {p}:\n        raise ValueError(\"no {s} to {v}\")",
    "if len({p}) > {n}:\n        log.warning(\"more than {n} {s}\")",
    "for {b} in {p}:\n        {b}.setdefault({s!r}, {n})",
    "for place, {b} in enumerate({p}, start={n}):\n        print(place, {b}, sep={t!r})",
    "with open({s!r} + \".csv\", encoding=\"utf-8\") as file:\n        {a} = list(csv.reader(file))",
    "try:\n        {a} = int({p}[{n}])\n    except (IndexError, ValueError):\n        {a} = None",
    "while {p} and {p}[-1] == {s!r}:\n        {p}.pop()",
    "{a} = defaultdict(list)\n    for {b} in {p}:\n        {a}[{b}.{s}].append({b})",
    "{a} = re.sub(r\"{t}+\", {t!r}, str({p}))",
    "{a} = [{b} for index, {b} in enumerate({p}) if index % {n} == 0]",
    "{a} = Path({s!r}).with_suffix(\".{v}\")",
    "{a} = datetime.strptime(str({p}), \"%Y-%m-%d\") + timedelta(days={n})",
    "assert all({b} >= {n} for {b} in {p}), \"{s} below {n}\"",
    "{a} = statistics.median({p}) * {n} / 100",
    "{a} = {{key: value for key, value in vars({p}).items() if key != {s!r}}}",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unit:
    """A record, row or function: (text, all but certain) in order."""

    parts: tuple[tuple[str, bool], ...]
    name: str

    def pieces(self, number: int, language: str, name: str | None = None) -> ClassifiedPieces:
        """Its tokens under a number, and under a name if it is not its own."""
        found: ClassifiedPieces = []
        for part, certain in self.parts:
            text = part.replace(NUMBER, str(number)).replace(NAME, name or self.name)
            found += heading_pieces(text) if certain else classify_pieces(text, language)
        return found


class UnitWriter(Protocol):
    """One kind of unit. opening, between, closing: what stands around the units of an answer."""

    opening: str
    between: str
    closing: str

    def write(self, by: SentenceComposer) -> Unit:
        """A new unit, unlike those before."""

    def name(self) -> str:
        """A new name for a unit."""

    def torso(self, number: int) -> str:
        """A unit up to the inside of its first text value."""

    def listing(self, number: int) -> str:
        """A unit up to the first item of a list."""

    def begun(self, text: str) -> int:
        """Units that begin in a text."""


class _Words:
    """Names and single words of a language, each once before any comes again."""

    def __init__(self, language: str, rng: random.Random) -> None:
        self._words = [word for word in common_words(language)[_FIRST_WORD:] if len(word) > 3]
        self._rng = rng
        self._deck: list[str] = []

    def next(self) -> str:
        if not self._deck:
            self._deck = list(self._words)
            self._rng.shuffle(self._deck)
        return self._deck.pop().lower()

    def name(self) -> str:
        return f"{self.next().capitalize()} {self.next()}"


class RecordWriter:
    """Objects of a JSON array, on a line each or indented."""

    opening, between, closing = "[\n  ", ",\n  ", "\n]\n"

    def __init__(self, language: str, rng: random.Random) -> None:
        self._words, self._rng = _Words(language, rng), rng
        self._compact = rng.random() < 0.3
        self._start, self._next = ("{", ", ") if self._compact else ("{\n    ", ",\n    ")
        self._end = "}" if self._compact else "\n  }"

    def write(self, by: SentenceComposer) -> Unit:
        rng, words = self._rng, self._words
        texts = [words.next() for _ in range(rng.randint(2, 4))]
        stocked = "true" if rng.random() < 0.7 else "false"
        following = self._next
        parts = [
            (f'{self._start}"id": {NUMBER}{following}"name": "', True),
            (NAME, False),
            (f'"{following}"category": "', True),
            (words.next(), False),
            (f'"{following}"description": "', True),
            (by.sentence("narrative"), False),
            (f'"{following}"price": ', True),
            (f"{rng.randint(1, 400)}.{rng.choice(('00', '50', '90', '95'))}", False),
            (f'{following}"in_stock": {stocked}{following}"tags": ["', True),
        ]
        for i, text in enumerate(texts):
            parts += [('", "', True)] if i else []
            parts.append((text, False))
        parts.append((f'"]{self._end}', True))
        return Unit(tuple(parts), self.name())

    def name(self) -> str:
        return self._words.name()

    def torso(self, number: int) -> str:
        return f'{self._start}"id": {number}{self._next}"name": "'

    def listing(self, number: int) -> str:
        return f'{self.torso(number)}{self.name()}"{self._next}"tags": ["'

    def begun(self, text: str) -> int:
        return text.count('"id": ')


class RowWriter:
    """Rows of a Markdown table."""

    between, closing = "\n", "\n"

    def __init__(self, language: str, rng: random.Random) -> None:
        self._words, self._rng = _Words(language, rng), rng
        self.opening = f"| {_COLUMNS.get(language, _COLUMNS['en'])} |\n|{' --- |' * 5}\n"

    def write(self, by: SentenceComposer) -> Unit:
        words = self._words
        use = " ".join(words.next() for _ in range(self._rng.randint(2, 5)))
        parts = [
            (f"| {NUMBER} |", True),
            (f" {NAME}", False),
            (" |", True),
            (f" {words.next().capitalize()}", False),
            (" |", True),
            (f" {by.sentence('narrative').rstrip('.')}", False),
            (" |", True),
            (f" {use}", False),
            (" |", True),
        ]
        return Unit(tuple(parts), self.name())

    def name(self) -> str:
        return self._words.name()

    def torso(self, number: int) -> str:
        return f"| {number} | "

    def listing(self, number: int) -> str:
        return f"| {number} | {self.name()} | "

    def begun(self, text: str) -> int:
        return max(0, text.count("\n| ") - 1)


class FunctionWriter:
    """Functions at the top level of a Python module."""

    opening = "from __future__ import annotations\n\nimport csv\nimport re\nimport statistics\n\n\n"
    between, closing = "\n\n\n", "\n"

    def __init__(self, language: str, rng: random.Random) -> None:
        del language  # names are English in code
        self._rng = rng
        self._names = [f"{verb}_{noun}" for verb in _VERBS for noun in _NOUNS]
        rng.shuffle(self._names)
        self._deck: list[str] = []

    def write(self, by: SentenceComposer) -> Unit:
        rng = self._rng
        first, second, *local = rng.sample(_NOUNS, 9)
        kind = rng.choice(("list[dict[str, str]]", "Sequence[str]", "dict[str, float]", "list[float]"))
        given = rng.choice(("list[str]", "float | None", "dict[str, int]", "tuple[int, ...]", "bool"))
        known = [first]
        body = ""
        for _ in range(rng.randint(4, 7)):
            new = local.pop()
            filled = self._statement().format(
                a=new,
                b=new[:-1],
                p=rng.choice(known),
                s=rng.choice(_NOUNS)[:-1],
                v=rng.choice(_VERBS),
                t=rng.choice((" ", ",", ";", "-", "/", "_")),
                n=rng.randint(0, 90),
            )
            body += f"    {filled}\n"
            if filled.startswith(f"{new} ="):
                known.append(new)
        parts = (
            ("def", True),
            (f" {NAME}", False),
            (f"({first}: {kind}, {second}: {given}) -> {rng.choice((kind, given))}:\n", True),
            ('    """', True),
            (by.sentence("narrative"), False),
            ('"""\n', True),
            (body, False),
            (f"    return {known[-1]}", True),
        )
        return Unit(parts, self.name())

    def name(self) -> str:
        self._names.insert(0, self._names.pop())
        return self._names[0]

    def torso(self, number: int) -> str:
        return f'def {self.name()}({_NOUNS[number % len(_NOUNS)]}: list[str]) -> list[str]:\n    """'

    def listing(self, number: int) -> str:
        noun = _NOUNS[number % len(_NOUNS)]
        return f'def {self.name()}({noun}: list[str]) -> bool:\n    known = ["'

    def begun(self, text: str) -> int:
        return text.count("def ")

    def _statement(self) -> str:
        if not self._deck:
            self._deck = list(_STATEMENTS)
            self._rng.shuffle(self._deck)
        return self._deck.pop()


_WRITERS: dict[str, type[RecordWriter | RowWriter | FunctionWriter]] = {
    "json": RecordWriter,
    "code": FunctionWriter,
    "catalogue": RowWriter,
}


def is_structured(brief: AnswerBrief) -> bool:
    """Whether the answer has records, rows or functions; an open catalogue is prose."""
    return brief.task in _WRITERS and (brief.structure == "rigid" or brief.task != "catalogue")


class StructuredLayout(AnswerLayout):
    """An answer of units. A segment is one unit with what stands before it."""

    def __init__(self, brief: AnswerBrief, rng: random.Random, history: Sequence[int]) -> None:
        super().__init__(brief, rng, history)
        self.units: UnitWriter = _WRITERS[brief.task or ""](self.language, rng)
        text = vocabulary.decode(history)
        self.number = max(brief.first_unit - 1, self.units.begun(text))
        """Number of the last unit."""
        self.written: list[Unit] = []
        self.closed = False
        self._begun = bool(text.strip())

    def separator(self) -> ClassifiedPieces:
        """What stands before the next unit."""
        text = self.units.between if self._begun else self.units.opening
        self._begun = True
        return heading_pieces(text)

    def next_segment(self, cut: int = 0) -> ClassifiedPieces | None:
        """The next unit; None when the answer is complete."""
        del cut
        if self.closed:
            return None
        if self.brief.units is not None and self.number >= self.brief.units:
            self.closed = True
            return heading_pieces(self.units.closing)
        before = self.separator()
        self.number += 1
        self.written.append(self.units.write(self.writer))
        return before + self.written[-1].pieces(self.number, self.writer.grammar.language)

    def fit_segment(self, room: int, end: str = "") -> ClassifiedPieces | None:
        """Units end where they end: a failure begins after the unit in which it was due."""
        del room, end
        return self.next_segment()


def make_layout(brief: AnswerBrief, rng: random.Random, history: Sequence[int]) -> AnswerLayout:
    """The layout for what is asked."""
    return (StructuredLayout if is_structured(brief) else AnswerLayout)(brief, rng, history)
