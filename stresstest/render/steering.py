"""Characters that steer a terminal, and words that steer a CI server, instead of showing something."""

from __future__ import annotations

import json

import regex

from stresstest.model.texts.ci_commands import LOG_COMMAND

STEERING = regex.compile(r"[^\n\t\P{C}]|[\p{Zl}\p{Zp}]")
"""Control, format, surrogate, private and unassigned characters, but line breaks and tabs."""


def escape_steering(document: str) -> str:
    """A JSON document in which what steers a terminal or a CI server is escaped: its values are the same."""
    # Elsewhere other threads go on meanwhile: a line of the guard's log may have megabytes.
    escaped = STEERING.sub(lambda found: json.dumps(found[0])[1:-1], document, concurrent=True)
    return LOG_COMMAND.sub(r"\1\\u005b", escaped)
