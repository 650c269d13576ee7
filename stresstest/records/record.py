"""One recorded answer, whatever log it came from, and the line that could not be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from stresstest.model import Token

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Record:
    """One answer that somebody recorded. Everything but id, source, line and text may be unknown (None).

    id: the record's own, else ``source:line``. source/line: the file and its 1-based line (row, element).
    finish_reason: the server's word. max_tokens: the cap that was sent. start/end: seconds since the
    epoch, or on whatever clock the log has; first_token: when the first token came, on that clock.
    prompt_text: what was asked. prompt_key: what several answers of one prompt share. reasoning: thought
    before the answer; it counts as tokens, not as answer. tokens: the model's own, reasoning first, when
    logprobs were kept. has_text: False where the log kept no text (a span, a line of times): nothing is known
    of degeneration then. extra: values of the keys to group by.
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
    prompt_key: str | None = None
    reasoning: str = ""
    tokens: tuple[Token, ...] | None = None
    has_text: bool = True
    extra: Mapping[str, str] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True)
class Damaged:
    """A line (row, element) that holds no answer, and why, as a clause: "no text in it".

    textless: in good order all the same, an answer that needs no text: only tool calls.
    """

    source: str
    line: int
    reason: str
    textless: bool = False

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.reason}"


Raw = bytes | dict[str, Any]
"""A line of JSON as read, or a row that is an object already."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some lines of one source in order: the unit of work.

    items: (1-based line, raw). damaged: what the reader itself could not read. done: bytes of the source
    consumed once this chunk is judged, as stored (compressed); 0 where that is unknown. size: bytes of the
    items, about.
    """

    source: str
    items: tuple[tuple[int, Raw], ...]
    damaged: tuple[Damaged, ...] = ()
    done: int = 0
    size: int = 0


class UnreadableError(ValueError):
    """This line holds no answer; ``str(error)`` is the reason for :class:`Damaged`."""


class TextlessError(UnreadableError):
    """This line is an answer in good order that needs no text."""
