"""How a task is named: a shipped one by its name, one of the user's by the path of its file."""

from __future__ import annotations

OPEN_FORM = ":open"
"""Asks for a task's open form, behind its name or its file."""


def is_task_file(plain: str) -> bool:
    """Whether this is a path: it has a separator or ends in ``.toml``. plain: a name without `OPEN_FORM`."""
    return "/" in plain or "\\" in plain or plain.endswith(".toml")
