"""One JSON line a degenerate answer, as `stresstest scan` reads them. Texts only where they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import IO, Any, Protocol

import msgspec

from stresstest.features.guard.asked import MAX_PROMPT_CHARS, Asked, Route
from stresstest.features.guard.lines import HURRY, LineWriter, LogFile
from stresstest.features.guard.watch import JudgedChoice
from stresstest.records.formats.asked import FLATTENED
from stresstest.records.formats.fields import TEXTLESS

_DEPTH = 6
"""Levels of a turn in which data is looked for."""
_DATA_KEYS = frozenset(
    {
        "url",
        "data",
        "image_url",
        "video_url",
        "audio_url",
        "file_url",
        "file_data",
        "image",
        "images",
        "audio",
    }
)
"""Of the parts of a turn, where pictures, sound and files are, or their addresses."""
MAX_FIELD = 512
"""Characters of an id, a name or a header that are kept: events wait by their number, not by their size."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """What is known of one answer. start, end: epoch seconds. id: of the answer. model: as requested; both
    cut after `MAX_FIELD` characters. action: taken, or, in a dry run, that would have been. trace: the
    request's headers of W3C trace context."""

    asked: Asked
    id: str | None
    model: str
    start: float
    end: float
    prompt_tokens: int | None
    language: str | None
    action: str | None
    dry_run: bool
    trace: Mapping[str, str] = field(default_factory=dict)


def cut(text: str) -> str:
    """A text of at most `MAX_FIELD` characters; one that was longer ends in an ellipsis."""
    return text if len(text) <= MAX_FIELD else text[: MAX_FIELD - 1] + "…"


class Sink(Protocol):
    """Takes every choice that was judged."""

    def write(self, entry: JournalEntry, choice: JudgedChoice) -> None: ...


class Journal:
    """Writes the lines. every: healthy answers too, as a rate needs them. text: prompts and answers too.
    torn: what is in the file already ends within a line. hurried: at the end, next to no time is left for
    what waits."""

    def __init__(
        self, out: IO[bytes] | LogFile, *, every: bool = False, text: bool = False, torn: bool = False
    ) -> None:
        self.keeps_text = text
        self._out = out
        self.hurried = False
        self._every = every
        self._torn = torn
        self._lines: LineWriter | None = None

    @contextmanager
    def writing(self, on_drop: Callable[[int], object]) -> Iterator[None]:
        """Write for the length of a `with` block. on_drop: called with a number of lines that were lost."""
        lines = self._lines = LineWriter(self._out.write, on_drop, torn=self._torn)
        try:
            yield
        finally:
            lines.close(HURRY if self.hurried else None)

    def write(self, entry: JournalEntry, choice: JudgedChoice) -> None:
        """One line for a choice, if it is to have one. It is written later, or dropped."""
        if self._lines is not None and (choice.verdict.degenerate or self._every):
            self._lines.put(msgspec.json.encode(_line(entry, choice)) + b"\n")


def _line(entry: JournalEntry, choice: JudgedChoice) -> dict[str, Any]:
    verdict, asked = choice.verdict, entry.asked
    line: dict[str, Any] = {
        "id": f"{entry.id}#{choice.index}" if choice.index else entry.id,
        "model": entry.model,
        "route": asked.route.value,
        "start": round(entry.start, 3),
        "end": round(entry.end, 3),
        "symptom": verdict.symptom,
        "onset": verdict.onset,
        "alarm": verdict.alarm,
        "recovered": verdict.recovered,
        "completion_tokens": choice.tokens,
        "prompt_tokens": entry.prompt_tokens,
        "max_tokens": asked.cap,
        "finish_reason": choice.finish_reason,
        "language": entry.language,
        "action": entry.action,
        "dry_run": entry.dry_run,
    }
    if choice.texts is not None:
        line |= _prompt(asked)
        if _may_call(asked, choice.finish_reason):
            line["tool_calls"] = [{}]  # the response may hold their arguments
        line["response"] = "".join(token.text for token in choice.texts if not token.reasoning)
        line["reasoning"] = "".join(token.text for token in choice.texts if token.reasoning)
        if choice.hidden and (choice.broken or choice.seen):
            line[TEXTLESS] = True  # the rest may have failed
    # An answer without text says so: `scan` takes a line without one for damaged.
    return {key: value for key, value in line.items() if key == "response" or value not in (None, "")}


def _prompt(asked: Asked) -> dict[str, Any]:
    """The prompt: its turns where it has some and they are short enough, else its text."""
    given = asked.body.get("input" if asked.route is Route.RESPONSES else "messages")
    ruled = asked.route is Route.RESPONSES and bool(asked.body.get("instructions"))
    if asked.route is Route.COMPLETIONS or (isinstance(given, str) and not ruled):
        return {"prompt": asked.prompt}
    if isinstance(given, list) and not asked.lax and not ruled:
        turns = [_without_data(turn) for turn in given]
        with suppress(OverflowError, RecursionError):
            if len(msgspec.json.encode(turns)) <= MAX_PROMPT_CHARS:
                return {"messages": turns}
    return {"prompt": asked.prompt, FLATTENED: True}


def _without_data(value: Any, depth: int = _DEPTH, key: str = "") -> Any:
    """Pictures, sound and files of a turn, and their addresses, which may be signed, each by its hash alone:
    two prompts differ if these do."""
    if isinstance(value, str) and (key in _DATA_KEYS or value.startswith("data:")):
        return f"data:sha256,{sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()}"
    if depth and isinstance(value, dict):
        return {name: _without_data(each, depth - 1, name) for name, each in value.items()}
    if depth and isinstance(value, list):
        return [_without_data(each, depth - 1, key) for each in value]
    return value


def _may_call(asked: Asked, reason: str | None) -> bool:
    """Whether the answer may hold calls of tools. Where the server chose freely, its finish reason tells."""
    body = asked.body
    choice = body.get("tool_choice") or body.get("function_call") or "auto"
    offered = bool(body.get("tools") or body.get("functions"))
    unsure = choice != "auto" or reason != "stop" or asked.route is Route.RESPONSES
    return offered and choice != "none" and unsure
