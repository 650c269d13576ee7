"""Objects and lists of a log, also where it keeps them as JSON text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec


@lru_cache(maxsize=1)
def structure_in(text: str) -> dict[str, Any] | list[Any] | None:
    """The object or list that a JSON text holds, for reading only; None for another text.

    The last one is kept: several formats look at the same text in turn.
    """
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        found: dict[str, Any] | list[Any] = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
    return found


def objects(value: Any) -> list[Mapping[str, Any]]:
    """The objects in a list; none of anything else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list | tuple) else []


def as_object(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}
