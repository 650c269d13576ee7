"""The text of a settings file."""

from __future__ import annotations

import json
from collections.abc import Mapping

from stresstest.errors import UsageError

_HEAD = """\
# Settings of stresstest in this folder. The command line and STRESSTEST_*
# variables override them. Any option of `stresstest run` can be added here, with
# _ instead of -, for example: repetition_penalty = 1.1
"""


def settings_text(values: Mapping[str, object]) -> str:
    """TOML with one line a setting. values: texts, numbers and booleans.

    Raises UsageError for a text that is not UTF-8, such as a file name may be.
    """
    lines = {name: f"{name} = {_literal(value)}\n" for name, value in values.items()}
    for name, line in lines.items():
        if not _is_utf8(line):
            raise UsageError(f"{name}: {values[name]!r} is not UTF-8, which a settings file needs.")
    return _HEAD + "\n" + "".join(lines.values())


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _literal(value: object) -> str:
    """JSON's texts, numbers and booleans are TOML's. What is not printable is escaped: it may turn the
    direction of a line, or steer a terminal."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() or _is_half(c) else f"\\U{ord(c):08x}" for c in text)


def _is_half(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"
