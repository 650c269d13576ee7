"""One of the answers of a row, and several of which some cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from typing import TypeVar

from stresstest.model import Token
from stresstest.records.record import TextlessError, UnreadableError

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """One of the answers of a row. known: False where the log kept no text of it. calls: whether the text
    holds the arguments of calls of tools. refused: whether the API marks it as a refusal."""

    text: str
    reasoning: str = ""
    finish_reason: str | None = None
    tokens: tuple[Token, ...] | None = None
    known: bool = True
    calls: bool = False
    refused: bool = False


MAX_ANSWERS = 100_000
"""Of one line. Each takes about a kilobyte until the line is judged, however short it is."""


def refuse_many(answers: Sized) -> None:
    """Raise UnreadableError for more answers than a line may have."""
    if len(answers) > MAX_ANSWERS:
        raise UnreadableError(f"more than {MAX_ANSWERS:,} answers in one line")


def read_several(values: Sequence[_T], read: Callable[[_T], RecordedAnswer]) -> list[RecordedAnswer]:
    """Several answers of one row, in order: one that cannot be read does not take the others with it.

    Beside others it counts as one without text, and a call without arguments as an empty answer. Raises
    UnreadableError, the first one, where none can be read, and for more than `MAX_ANSWERS`.
    """
    refuse_many(values)
    found: list[RecordedAnswer] = []
    errors: list[UnreadableError] = []
    for value in values:
        try:
            found.append(read(value))
        except UnreadableError as error:
            called = isinstance(error, TextlessError)
            found.append(RecordedAnswer("", known=called, calls=called))
            errors.append(error)
    if errors and len(errors) == len(found):
        raise next((each for each in errors if not isinstance(each, TextlessError)), errors[0])
    return found
