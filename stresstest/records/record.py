"""One recorded answer, whatever log it came from: its fields, where the user maps them, and damaged lines."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from stresstest.config.suggestions import did_you_mean
from stresstest.errors import UsageError
from stresstest.model import Message, Token

LONG_ANSWER = 128
"""Characters from which on an answer is not given twice by chance."""

FIELD_TARGETS = (
    "id",
    "response",
    "finish_reason",
    "max_tokens",
    "prompt_tokens",
    "completion_tokens",
    "start",
    "end",
    "first_token",
    "model",
    "task",
    "language",
    "prompt",
    "prompt_id",
)
"""What a field can be mapped to. Any other name becomes a key to group by."""

FieldPath = tuple[str | int, ...]
_STEP = re.compile(r"\[(-?\d+)\]|([^.\[\]]+)")
_GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?:[ \u00a0\u202f'][0-9]{3})+")
_MAX_NUMBER = 40
"""Characters of a number that is written as a text."""
_COMPACT_DATE = re.compile(r"((?:19|20)\d{6})[_ ]?(\d{6})(?:\.?(\d{3}|\d{6})|\.(\d+))?(Z|[+-]\d\d:?\d\d)?")
"""YYYYMMDDhhmmss, perhaps with a fraction and a zone. No time since 1970 has as many digits (14, 17 or 20)
before the year 2286: seconds have 10, milliseconds 13, microseconds 16, nanoseconds 19."""
_INDEX = re.compile(r"-?\d+")


@dataclass(frozen=True, slots=True)
class Record:
    """One answer that somebody recorded. Everything but id, source, line and text may be unknown (None).

    id: the record's own, else ``source:line``. source/line: the file and its 1-based line (row, element).
    finish_reason: the server's word. max_tokens: the cap that was sent. start/end: seconds since the epoch,
    or on whatever clock the log has; first_token: when the first token came, on that clock. prompt_text:
    the prompt; requested_text: the same without the model's own earlier turns, None where it has none;
    messages: its turns, where the log kept who said what; whole_prompt: False where it is more than these, or
    more than its text: pictures, calls of tools, turns put together. calls: text holds the arguments of calls
    of tools. refused: the API marks it as a refusal. prompt_key: what several answers of one prompt
    share. reasoning: thought before the answer; it counts as tokens, not as answer. tokens: the model's
    own, reasoning first, when logprobs were kept. answer_at: the character behind the prompt, where the text
    may have it before the answer and holds it; 0 where it does not, None where nobody looked. prompt_at:
    where the prompt begins in it. stop_unsure: the log writes `stop` for other ends too. has_text: False
    where the log kept no text (a span, a line of times), or not all of it: what is missing may have failed.
    hole: the characters, reasoning first, before a part that the log cut out. cached: the log says that a
    cache gave it, so that no model wrote it then. row_key: what copies of a record share, 0 where it is not
    known. several_turns: its text holds turns of others, too, and nobody can tell which the model was given.
    trace: the id of the trace that it is part of, in which several spans may tell of one generation;
    writer: the service and the library that wrote its span, and the span's name. read_from: the key of the
    answer, or the format of its line. beside: paths of long texts of its line that nobody reads, of some
    lines only.
    extra: values of the keys to group by.
    """

    id: str
    source: str
    line: int
    text: str
    model: str | None = None
    task: str | None = None
    language: str | None = None
    finish_reason: str | None = None
    max_tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    start: float | None = None
    end: float | None = None
    first_token: float | None = None
    prompt_text: str = ""
    requested_text: str | None = None
    messages: tuple[Message, ...] = ()
    whole_prompt: bool = True
    calls: bool = False
    refused: bool = False
    prompt_key: str | None = None
    reasoning: str = ""
    tokens: tuple[Token, ...] | None = None
    answer_at: int | None = None
    prompt_at: int = 0
    stop_unsure: bool = False
    has_text: bool = True
    hole: int | None = None
    cached: bool = False
    row_key: int = 0
    several_turns: bool = False
    trace: str | None = None
    writer: str | None = None
    read_from: str = ""
    beside: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DamagedLine:
    """A line (row, element) that holds no answer, and why, as a clause: "no text in it".

    textless: in good order all the same, an answer that needs no text: only tool calls. rest: what follows it
    in the file was not read either. malformed: no record of any layout: no JSON, or no object.
    """

    source: str
    line: int
    reason: str
    textless: bool = False
    rest: bool = False
    malformed: bool = False

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.reason}"


RawRecord = bytes | dict[str, Any] | str
"""A line of JSON as read, a row that is an object already, or an answer itself, which no log holds."""


@dataclass(frozen=True, slots=True)
class RecordChunk:
    """Some lines of one source in order: the unit of work.

    items: (1-based line, raw). damaged: what the reader itself could not read. done: bytes of the source
    consumed once this chunk is judged, as stored (compressed); 0 where that is unknown. size: bytes of the
    items, about.
    """

    source: str
    items: tuple[tuple[int, RawRecord], ...]
    damaged: tuple[DamagedLine, ...] = ()
    done: int = 0
    size: int = 0


class UnreadableError(ValueError):
    """This line holds no answer; ``str(error)`` is the reason for :class:`DamagedLine`."""


JSON_LINES_HINT = "An answer must be a whole JSON object: write the log as JSON Lines, one a line."
LAYOUT_HINT = "Map your own layout with --field response=path.to.text"
"""What helps where no line is a record of any layout, and where none is of a known one."""


class MalformedError(UnreadableError):
    """This line is no record of any layout: no JSON, no UTF-8, no object."""


class TextlessError(UnreadableError):
    """This line is an answer in good order that needs no text."""


def given_text(text: str, source: str, line: int, id: str | None = None) -> Record:
    """An answer that somebody hands over by itself: it is what it is, and no prompt stands before it."""
    name = id or f"{source}:{line}"
    return Record(id=name, source=source, line=line, text=text, answer_at=0, read_from="a text")


def utf8_size(text: str) -> int:
    """Bytes of a text in UTF-8; half a character counts as one byte."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class FieldMapping:
    """fields: target → path of the user's own layout. keys: further values wanted, for grouping.
    textless: take a line without text too, for its times and counts."""

    fields: Mapping[str, FieldPath] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    textless: bool = False


def parse_fields(given: Sequence[str], keys: Sequence[str] = ()) -> FieldMapping:
    """``["response=a.b[0].text"]`` → a mapping. Raises UsageError for an invalid one."""
    fields: dict[str, FieldPath] = {}
    for each in given:
        name, equals, path = each.partition("=")
        name = name.strip()
        if not equals or not name or not path.strip():
            raise UsageError(f"--field {each!r} is not a mapping; write --field response=path.to.text")
        if name not in FIELD_TARGETS and name not in keys:
            meant = did_you_mean(name, FIELD_TARGETS, cutoff=0.7)
            if meant:
                raise UsageError(f"--field {name!r} is not known. {meant}")
            raise UsageError(
                f"--field {name!r} is not known.",
                hint=f"Known are {', '.join(FIELD_TARGETS)}, and the keys to group by.",
            )
        fields[name] = parse_path(path)
    return FieldMapping(fields, tuple(keys))


def parse_path(path: str) -> FieldPath:
    """``"choices[0].message.content"`` or ``"choices.0.message.content"`` → steps; digits are indexes too,
    and ``messages.-1`` is the last."""
    steps: list[str | int] = []
    for match in _STEP.finditer(path.strip()):
        index, name = match.groups()
        steps.append(int(index) if index is not None else name)
    if not steps:
        raise UsageError(f"{path!r} is not a path; separate keys with dots, as in path.to.text")
    return tuple(steps)


def value_at(value: Any, path: FieldPath) -> Any:
    """The value at the path; None when a step leads nowhere. A key may itself hold dots."""
    for n, step in enumerate(path):
        if isinstance(value, dict):
            if step not in value and str(step) not in value:
                return value.get(".".join(map(str, path[n:])))
            value = value[step] if step in value else value[str(step)]
        elif isinstance(value, list):
            if not _INDEX.fullmatch(str(step)) or not -len(value) <= int(step) < len(value):
                return None
            at = int(step)
            value = value[at]
        else:
            return None
    return value


def as_text(value: Any) -> str | None:
    """A short text value (model, task, id): strings, numbers and booleans as such, None otherwise."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else None


def describe_type(value: Any) -> str:
    """What a JSON value is, in words: "an object"."""
    names = ((bool, "true or false"), (str, "a text"), (dict, "an object"), (list, "a list"))
    numbers = ((int | float, "a number"), (type(None), "null"))
    return next((name for of, name in (*names, *numbers) if isinstance(value, of)), "no JSON value")


def as_token_count(value: Any) -> int | None:
    """A count of tokens: a whole number ≥ 0; None when it is absent. UnreadableError for anything else."""
    if value is None or value == "":
        return None
    if isinstance(value, str) and len(value) <= _MAX_NUMBER:
        figures = value.strip()
        if _GROUPED.fullmatch(figures):  # 1,000, as spreadsheets write it
            figures = figures.replace(figures[-4], "")
        value = int(figures) if figures.isdecimal() else value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 40:
        raise UnreadableError(f"{_shown(value)} is not a token count")
    return value


def as_seconds(value: Any) -> float | None:
    """A time: seconds or milliseconds as a number, ISO 8601 as text, a timestamp of Parquet, and dates
    without marks between their figures (20261128101530), as a number too."""
    value = _compact_date(value) or value
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            with contextlib.suppress(ValueError):
                value = datetime.fromisoformat(value.strip())
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not abs(value) < 1e20:
        return None
    found = float(value)
    while abs(found) > 1e11:  # milliseconds, microseconds, nanoseconds
        found /= 1e3
    return found


def _compact_date(value: Any) -> datetime | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    match = _COMPACT_DATE.fullmatch(str(value).strip())
    if match is None:
        return None
    day, time, digits, fraction, zone = match.groups("")
    fraction = digits or fraction
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(f"{day}T{time}{'.' if fraction else ''}{fraction}{zone}")
    return None


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:39]}…"
