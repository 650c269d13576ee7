"""Credentials, in every spelling in which a server or a library may quote them."""

from __future__ import annotations

import html
import json
from urllib.parse import quote

_used: set[str] = set()


def spellings(secret: str) -> tuple[str, ...]:
    """The secret as it is, as a Python and a JSON literal, percent-encoded and in HTML; longest first."""
    collapsed = " ".join(secret.split())
    found = {
        secret,
        collapsed,
        repr(secret)[1:-1],
        json.dumps(secret)[1:-1],
        quote(secret),
        quote(secret, safe=""),
        html.escape(secret),
        html.escape(secret, quote=False),
    }
    return tuple(sorted(found - {""}, key=len, reverse=True))


def remember(secret: str | None) -> None:
    """Keep a credential out of a traceback that this process may have to write."""
    if secret:
        _used.add(secret)


def remembered() -> frozenset[str]:
    """Every credential that this process has used so far."""
    return frozenset(_used)
