"""The keys of a request, out of what is logged of its answer: an upstream may repeat them in any field."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from stresstest.config.credentials.echoes import LEAST, hide_echoes, hide_in_tokens
from stresstest.config.credentials.names import is_credential_field
from stresstest.config.secrets import spellings
from stresstest.features.guard.journal import JournalEntry
from stresstest.features.guard.watch import JudgedChoice

_MOST = 32
"""Keys of one request; the headers' size is limited as well."""
_SIGNING = re.compile(r"(?i)(?:^|[-_.])(?:code|sig|signature|session(?:[-_]?id)?)$")
"""Names of what lets its holder in, beside those of keys: Azure's functions and shared access signatures."""


def request_keys(headers: Mapping[str, str], query: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The credentials among a request's headers and the fields of its query, in each spelling, longest
    first."""
    found: set[str] = set()
    for name, value in (*headers.items(), *(query or {}).items()):
        if len(found) >= _MOST or not (is_credential_field(name, value) or _signs(name, value)):
            continue
        scheme, _, given = value.strip().partition(" ")
        if name.lower() == "cookie":
            found |= {cookie.partition("=")[2].strip() for cookie in value.split(";")} - {""}
        else:
            found |= {given.strip() or scheme, *_basic(scheme, given)}
    return _spelled(frozenset(found))


def _signs(name: str, value: str) -> bool:
    return len(value) >= LEAST and _SIGNING.search(name) is not None


@lru_cache(64)
def _spelled(keys: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted({form for key in keys for form in spellings(key)}, key=len, reverse=True))


def _basic(scheme: str, given: str) -> set[str]:
    """The password of HTTP's basic authentication."""
    if scheme.lower() != "basic":
        return set()
    try:
        return {base64.b64decode(given).decode().partition(":")[2]} - {""}
    except (binascii.Error, ValueError):
        return set()


def without_keys(
    entry: JournalEntry, choice: JudgedChoice, keys: tuple[str, ...]
) -> tuple[JournalEntry, JudgedChoice]:
    """Both without the keys. The prompt is the client's own, and stays."""
    if not keys:
        return entry, choice
    texts = choice.texts
    return (
        replace(entry, id=_hidden(entry.id, keys), model=hide_echoes(entry.model, keys)),
        replace(
            choice,
            finish_reason=_hidden(choice.finish_reason, keys),
            texts=None if texts is None else hide_in_tokens(texts, keys),
        ),
    )


def _hidden(text: str | None, keys: tuple[str, ...]) -> str | None:
    return None if text is None else hide_echoes(text, keys)
