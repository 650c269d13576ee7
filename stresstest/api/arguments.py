"""What programs pass to the API, looked at before anything is done: a sentence in place of a traceback."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any, get_args

from stresstest.config.suggestions import did_you_mean
from stresstest.errors import UsageError
from stresstest.records.input_file import is_address

_MAX_NAME = 255
"""Characters of a name in a folder: file systems take no more bytes."""

_KINDS: Mapping[type, tuple[type, str]] = {
    str: (str, "a text"),
    bool: (bool, "True or False"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
}


def require_kinds(values: Mapping[str, Any], kinds: Mapping[str, Any], *others: str) -> None:
    """Raise UsageError for a name that is not among these, or a value of another type; None is none.

    kinds: str, bool, int, float or a union of them for each name. others: names that the function takes
    beside them, for the hint. The value, which may be a key, is not quoted.
    """
    known = [*others, *kinds]
    for name, value in values.items():
        if name not in kinds:
            hint = did_you_mean(name, known) or f"Known options: {', '.join(known)}."
            raise UsageError(f"There is no option {name!r}.", hint=hint)
        wanted = [_KINDS[each] for each in get_args(kinds[name]) or (kinds[name],)]
        if value is not None and not any(_is(value, kind) for kind, _ in wanted):
            words = " or ".join(each for _, each in wanted)
            raise UsageError(f"{name} must be {words}, not {type(value).__name__}.")


def require_texts(**values: object) -> None:
    """Raise UsageError for a value that is neither a text nor None."""
    require_kinds(values, dict.fromkeys(values, str))


def file_name(value: object) -> str:
    """The name of a file as a text. Raises UsageError for what names none."""
    if isinstance(value, str | os.PathLike):
        name = os.fspath(value)
        if not isinstance(name, str) or "\0" in name or not _is_encodable(name):
            raise UsageError(f"{name!r} is no name of a file.")
        if "\n" in name or (not is_address(name) and max(map(len, name.split("/"))) > _MAX_NAME):
            raise UsageError(
                f"The name of a file is needed, and this is a longer text: {name[:40]!r}….",
                hint="To judge texts: stresstest.detect_many(texts)",
            )
        return name
    raise UsageError(f"The name of a file is a text or a path, not {type(value).__name__}.")


def file_names(files: object) -> list[str]:
    """The names of one file or several."""
    if isinstance(files, str | os.PathLike) or not isinstance(files, Iterable):
        return [file_name(files)]
    return [file_name(each) for each in files]


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _is_encodable(name: str) -> bool:
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True
