"""Known names similar to a mistyped one, for error hints."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST_CHARACTERS = 64 * 1024
"""Of the known names that are compared: a server may list 24 MB of them, and each may take a millisecond."""


def closest_names(given: str, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """At most `most` similar known names, best match first. cutoff: minimum similarity, 0-1.

    Of very many names only the first are compared.
    """
    compared, left = [], _MOST_CHARACTERS
    for name in known:
        left -= len(name)
        if left < 0:
            break
        compared.append(name)
    return difflib.get_close_matches(given, compared, n=most, cutoff=cutoff)


def did_you_mean(given: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """``"Did you mean 'temperature'?"``; None if no known name is similar."""
    close = closest_names(given, known, cutoff=cutoff)
    return f"Did you mean {close[0]!r}?" if close else None


def suggest_closest(given: str, known: Iterable[str]) -> str | None:
    """``"did you mean 'narrative'?"`` for use inside a sentence; None if no known name is similar."""
    close = closest_names(given, known)
    return f"did you mean {close[0]!r}?" if close else None
