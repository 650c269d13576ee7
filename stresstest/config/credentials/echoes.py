"""Credentials that a server repeats in what it writes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from stresstest.config.credentials.texts import HIDDEN
from stresstest.model import Token, TokenColumns

LEAST = 8
"""Characters of a secret from which on a text does not hold it by chance."""
_PART = 8
"""Characters of a part of one: a quotation may begin or end within it."""


def find_echoes(text: str, secrets: Sequence[str]) -> list[tuple[int, int]]:
    """Where whole secrets stand in a text, and the beginning of one at its end; secrets: longest first."""
    whole = [re.escape(each) for each in secrets if len(each) >= LEAST]
    if not whole:
        return []
    found = [match.span() for match in re.finditer("|".join(whole), text)]
    begun = max((_begun_at_end(text, each) for each in secrets if _is_key(each)), default=0)
    covered = found[-1][1] if found else 0
    if begun and len(text) - begun >= covered:
        found.append((len(text) - begun, len(text)))
    return found


def hide_in_tokens(tokens: Sequence[Token], secrets: Sequence[str]) -> Sequence[Token]:
    """The tokens of an answer, ``***`` in the place of each secret in their text. Where a stream brings
    reasoning and answer in turns, each is searched by itself as well: so they are shown."""
    if isinstance(tokens, TokenColumns):
        reasons = tokens.reasoning
    else:
        reasons = bytes(token.reasoning for token in tokens)
    found = _hide_among(tokens, range(len(tokens)), secrets)
    if any(reasons) and not all(reasons):
        for kind in (True, False):
            places = [n for n, reasoning in enumerate(reasons) if reasoning == kind]
            found = _hide_among(found, places, secrets)
    return found


def _hide_among(tokens: Sequence[Token], places: Sequence[int], secrets: Sequence[str]) -> Sequence[Token]:
    """The tokens, without what the texts of those at these places hold together."""
    texts = tokens.texts if isinstance(tokens, TokenColumns) else [token.text for token in tokens]
    spans = find_echoes("".join(texts[n] for n in places), secrets)
    if not spans:
        return tokens
    kept, at, first = list(tokens), 0, 0
    for n in places:
        until = at + len(texts[n])
        while first < len(spans) and spans[first][1] <= at:
            first += 1
        last = first
        while last < len(spans) and spans[last][0] < until:
            last += 1
        if last > first:
            kept[n] = _without(kept[n], at, spans[first:last])
        at = until
    return kept


def _without(token: Token, at: int, spans: Sequence[tuple[int, int]]) -> Token:
    """The token, which begins at this character of the text, without what lies in the spans, and its id."""
    text, position = "", at
    for begin, end in spans:
        text += token.text[position - at : max(begin - at, 0)] + (HIDDEN if begin >= at else "")
        position = max(position, end)
    return replace(token, text=text + token.text[position - at :], id=None)


def hide_echoes(text: str, secrets: Sequence[str]) -> str:
    """A short text without the secrets, and without parts of keys, of which it may quote one end."""
    for secret in secrets:
        if len(secret) >= LEAST:
            text = text.replace(secret, HIDDEN)
    parts = _parts(tuple(secrets))
    held = bytearray(len(text))
    for at in range(len(text) - _PART + 1):
        if text[at : at + _PART] in parts:
            held[at : at + _PART] = b"\1" * _PART
    if not any(held):
        return text
    shown = "".join("\0" if hidden else c for c, hidden in zip(text, held, strict=True))
    return re.sub("\0+", HIDDEN, shown)


def _is_key(secret: str) -> bool:
    """Whether parts of it are no words: a user's name may be one."""
    return len(secret) > _PART and any(map(str.isdigit, secret))


@lru_cache(64)
def _parts(secrets: tuple[str, ...]) -> frozenset[str]:
    """All parts of those that are keys; kept, as one client asks often with one key."""
    keys = filter(_is_key, secrets)
    return frozenset(key[at : at + _PART] for key in keys for at in range(len(key) - _PART + 1))


def _begun_at_end(text: str, secret: str) -> int:
    """Characters of the secret with which the text ends; 0 for fewer than a part."""
    most = min(len(secret) - 1, len(text))
    return next((n for n in range(most, _PART - 1, -1) if text.endswith(secret[:n])), 0)
