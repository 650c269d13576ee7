"""One of the answers of a row, and several of which some cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def read_several(values: Sequence[_T], read: Callable[[_T], RecordedAnswer]) -> list[RecordedAnswer]:
    """Several answers of one row, in order: one that cannot be read does not take the others with it.

    Beside others it counts as one without text, and a call without arguments as an empty answer. Raises
    UnreadableError, the first one, where none can be read.
    """
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
