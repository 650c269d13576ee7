"""The text of a settings file."""

from __future__ import annotations

import json
from collections.abc import Mapping

_HEAD = """\
# Settings of stresstest in this folder. The command line and STRESSTEST_*
# variables override them. Any option of `stresstest run` can be added here, with
# _ instead of -, for example: repetition_penalty = 1.1
"""


def settings_text(values: Mapping[str, object]) -> str:
    """TOML with one line a setting. values: texts, numbers and booleans."""
    return _HEAD + "\n" + "".join(f"{name} = {_literal(value)}\n" for name, value in values.items())


def _literal(value: object) -> str:
    """JSON's texts, numbers and booleans are TOML's, except for the character DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
