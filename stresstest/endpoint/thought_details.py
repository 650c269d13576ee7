"""Reasoning that a stream brings as parts: OpenRouter's and MiniMax's `reasoning_details`, LiteLLM's
`thinking_blocks`. MiniMax repeats in each event all that came before."""

from __future__ import annotations

from typing import Any

_TEXTS = ("text", "thinking", "summary")


def join_details(parts: Any) -> str:
    """The texts of the parts; encrypted ones have none."""
    if not isinstance(parts, list):
        return ""
    texts = (part.get(name) for part in parts if isinstance(part, dict) for name in _TEXTS)
    return "".join(text for text in texts if isinstance(text, str))


class ThoughtDetails:
    """What is new in each event of one stream. The second event tells whether events repeat the earlier ones:
    pieces of a text seldom begin with the one before."""

    __slots__ = ("_first", "_seen", "_snapshots")

    def __init__(self) -> None:
        self._first = ""
        self._seen = 0
        self._snapshots: bool | None = None

    def fresh(self, text: str) -> str:
        """The part of an event's text that earlier events did not have."""
        if not text:
            return ""
        if self._snapshots is None and self._first:
            self._snapshots = len(text) > len(self._first) and text.startswith(self._first)
        self._first = self._first or text
        new = text[self._seen :] if self._snapshots and len(text) >= self._seen else text
        self._seen = len(text)
        return new
