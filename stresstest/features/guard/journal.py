"""One JSON line a degenerate answer, as `stresstest scan` reads them. Texts only where they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, Protocol

import msgspec

from stresstest.features.guard.asked import Asked
from stresstest.features.guard.lines import LineWriter
from stresstest.features.guard.watch import JudgedChoice

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
    """Writes the lines. every: healthy answers too, as a rate needs them. text: prompts and answers too."""

    def __init__(self, out: IO[bytes], *, every: bool = False, text: bool = False) -> None:
        self.keeps_text = text
        self._out = out
        self._every = every
        self._lines: LineWriter | None = None

    @contextmanager
    def writing(self, on_drop: Callable[[int], object]) -> Iterator[None]:
        """Write for the length of a `with` block. on_drop: called with a number of lines that were lost."""
        lines = self._lines = LineWriter(self._out.write, on_drop)
        try:
            yield
        finally:
            lines.close()

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
        line["prompt"] = asked.prompt
        line["response"] = "".join(token.text for token in choice.texts if not token.reasoning)
        line["reasoning"] = "".join(token.text for token in choice.texts if token.reasoning)
    # An answer without text says so: `scan` takes a line without one for damaged.
    return {key: value for key, value in line.items() if key == "response" or value not in (None, "")}
