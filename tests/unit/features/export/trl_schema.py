"""TRL's documented formats as JSON Schema: preference and unpaired preference, metadata beside them.

TRL itself is too heavy for these tests; tests/integrations/check_trl.py has its trainers read an export.
"""

from __future__ import annotations

from typing import Any

import jsonschema

_TEXT = {"type": "string", "minLength": 1}
_ROLES = {"enum": ["system", "developer", "user", "assistant", "tool"]}


def _message(role: dict[str, Any]) -> dict[str, Any]:
    properties = {"role": role, "content": {"type": "string"}}
    return {
        "type": "object",
        "properties": properties,
        "required": ["role", "content"],
        "additionalProperties": False,
    }


_PROMPT = {"type": "array", "items": _message(_ROLES), "minItems": 1}
_ANSWER = {"type": "array", "items": _message({"const": "assistant"}), "minItems": 1, "maxItems": 1}
_BESIDE = {"metadata": {"type": "object"}}


def _row(prompt: dict[str, Any], **columns: dict[str, Any]) -> dict[str, Any]:
    properties = {"prompt": prompt, **columns}
    return {
        "type": "object",
        "properties": properties | _BESIDE,
        "required": list(properties),
        "additionalProperties": False,
    }


PREFERENCE = {
    "oneOf": [_row(_PROMPT, chosen=_ANSWER, rejected=_ANSWER), _row(_TEXT, chosen=_TEXT, rejected=_TEXT)]
}
LABEL = {"type": "boolean"}
UNPAIRED = {
    "oneOf": [_row(_PROMPT, completion=_ANSWER, label=LABEL), _row(_TEXT, completion=_TEXT, label=LABEL)]
}


def check(rows: list[dict[str, Any]], schema: dict[str, Any]) -> None:
    """Assert that all rows are of the format, and of one kind: TRL decides by the first. A prompt of messages
    ends with a turn that the model answers."""
    assert rows
    for row in rows:
        jsonschema.validate(row, schema)
        if isinstance(row["prompt"], list):
            assert row["prompt"][-1]["role"] in ("user", "tool")
    assert len({type(row["prompt"]) for row in rows}) == 1
