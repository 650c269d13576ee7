"""The ids that servers give their answers."""

from __future__ import annotations

_LEAST = 16


def is_unique_id(answer_id: str) -> bool:
    """Whether an id is so long that no two answers share it. Ollama draws its ids from 999 numbers."""
    return len(answer_id) >= _LEAST
