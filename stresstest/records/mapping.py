"""Where the pieces of a record lie: `--field response=path.to.text` and the values found there."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from stresstest.errors import UsageError
from stresstest.records.record import UnreadableError

TARGETS = (
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

Path = tuple[str | int, ...]
_STEP = re.compile(r"\[(-?\d+)\]|([^.\[\]]+)")
_INDEX = re.compile(r"-?\d+")


@dataclass(frozen=True, slots=True)
class Mapped:
    """fields: target → path of the user's own layout. keys: further values wanted, for grouping.
    textless: take a line without text too, for its times and counts."""

    fields: Mapping[str, Path] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    textless: bool = False


def parse_fields(given: Sequence[str], keys: Sequence[str] = ()) -> Mapped:
    """``["response=a.b[0].text"]`` → a mapping. Raises UsageError for what cannot be meant."""
    fields: dict[str, Path] = {}
    for each in given:
        name, equals, path = each.partition("=")
        name = name.strip()
        if not equals or not name or not path.strip():
            raise UsageError(f"--field {each!r} is no mapping: write --field response=path.to.text")
        if name not in TARGETS and name not in keys:
            close = difflib.get_close_matches(name, TARGETS, n=1, cutoff=0.7)
            if close:
                raise UsageError(f"--field {name!r} is not known. Did you mean {close[0]!r}?")
            raise UsageError(
                f"--field {name!r} is not known.",
                hint=f"Known are {', '.join(TARGETS)}, and the keys to group by.",
            )
        fields[name] = parse_path(path)
    return Mapped(fields, tuple(keys))


def parse_path(path: str) -> Path:
    """``"choices[0].message.content"`` or ``"choices.0.message.content"`` → steps; digits are indexes too,
    and ``messages.-1`` is the last."""
    steps: list[str | int] = []
    for match in _STEP.finditer(path.strip()):
        index, name = match.groups()
        steps.append(int(index) if index is not None else name)
    if not steps:
        raise UsageError(f"{path!r} is no path: write keys with dots between them, path.to.text")
    return tuple(steps)


def follow(value: Any, path: Path) -> Any:
    """What lies at the path; None when a step leads nowhere. A key may itself hold dots."""
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


def text(value: Any) -> str | None:
    """A short text value (model, task, id): strings, numbers and booleans as such, None otherwise."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else None


def kind(value: Any) -> str:
    """What a JSON value is, in words: "an object"."""
    names = ((bool, "true or false"), (str, "a text"), (dict, "an object"), (list, "a list"))
    numbers = ((int | float, "a number"), (type(None), "null"))
    return next((name for of, name in (*names, *numbers) if isinstance(value, of)), "no JSON value")


def whole(value: Any) -> int | None:
    """A count of tokens: a whole number ≥ 0; None when it is absent. UnreadableError for anything else."""
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value.strip())
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 40:
        raise UnreadableError(f"{_shown(value)} is no count of tokens")
    return value


def seconds(value: Any) -> float | None:
    """A time: seconds or milliseconds as a number, ISO 8601 as text, a timestamp of Parquet."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return _iso(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    found = float(value)
    if not abs(found) < 1e20:
        return None
    while abs(found) > 1e11:  # milliseconds, microseconds, nanoseconds
        found /= 1e3
    return found


def _iso(value: str) -> float | None:
    try:
        found = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:39]}…"
