"""Tokens as JSON bytes, rendered once.

All that a server says of a token hangs on its id and its level, so texts are kept by id and the list of
alternatives by level: a token with 20 logprobs then costs a few joins instead of 20 objects. The order is
vLLM's: the emitted token first, then the others by rank.
"""

from __future__ import annotations

import codecs
from functools import cache, lru_cache

import msgspec

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.writing import Written, alternatives

_json = msgspec.json.encode
_NOBODY = -1


@cache
def shown(token_id: int) -> str:
    """The token's own text; "" where its bytes are a part of a character, as vLLM shows it."""
    try:
        return vocabulary.piece(token_id).decode("utf-8")
    except UnicodeDecodeError:
        return ""


@cache
def _named(token_id: int) -> tuple[bytes, bytes]:
    """(`{"token":…,"logprob":`, `,"bytes":[…]`) of a token."""
    return named(shown(token_id))


def named(text: str) -> tuple[bytes, bytes]:
    """A chat logprobs entry, before and after the number."""
    return b'{"token":' + _json(text) + b',"logprob":', b',"bytes":' + _json(list(text.encode()))


@lru_cache(maxsize=1 << 15)
def _others(level: int, k: int, emitted: int) -> tuple[frozenset[int], tuple[tuple[int, float], ...]]:
    """The k alternatives of a level that are not the emitted token, and their ids.

    `_NOBODY` for the emitted token gives those of all tokens that are not among them.
    """
    found = alternatives(Written(emitted, 0.0, 0.0, level), k) if k > 0 else []
    rest = tuple((i, lp) for i, lp in found if i != emitted)
    return frozenset(i for i, _ in rest), rest


def _beside(written: Written, k: int) -> tuple[int, tuple[tuple[int, float], ...]]:
    """(key of the emitted token, its alternatives). The key is `_NOBODY` where they are the level's own."""
    ids, rest = _others(written.level, k, _NOBODY)
    if written.id not in ids:
        return _NOBODY, rest
    return written.id, _others(written.level, k, written.id)[1]


@lru_cache(maxsize=1 << 14)
def _chat_rest(level: int, k: int, key: int) -> bytes:
    """`,{…},{…}`: the k - 1 alternatives beside the emitted token."""
    _, rest = _others(level, k, key)
    parts = []
    for token_id, logprob in rest[: k - 1]:
        head, tail = _named(token_id)
        parts.append(b"," + head + b"%r" % logprob + tail + b"}")
    return b"".join(parts)


def chat_entry(written: Written, k: int | None, text: str) -> bytes:
    """One element of a chat answer's logprobs.content; k: alternatives asked for; text: as shown."""
    head, tail = _named(written.id) if text == shown(written.id) else named(text)
    own = head + b"%r" % written.logprob + tail
    if not k:
        return own + b',"top_logprobs":[]}'
    key, _ = _beside(written, k)
    return own + b',"top_logprobs":[' + own + b"}" + _chat_rest(written.level, k, key) + b"]}"


@lru_cache(maxsize=1 << 14)
def _text_rest(level: int, k: int, key: int) -> bytes:
    _, rest = _others(level, k, key)
    return b"".join(b"," + _json(shown(i)) + b":%r" % lp for i, lp in rest)


def text_table(written: Written, k: int, text: str) -> bytes:
    """One element of a plain completion's top_logprobs: token text → logprob."""
    own = b"{" + _json(text) + b":%r" % written.logprob
    if not k:
        return own + b"}"
    key, _ = _beside(written, k)
    return own + _text_rest(written.level, k, key) + b"}"


class Spelling:
    """Bytes of tokens to text: nothing until a character is complete, as vLLM streams it."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._whole = True

    def take(self, token_id: int) -> str:
        """The text that this token completes."""
        if self._whole:
            text = shown(token_id)
            if text:
                return text
        text = self._decoder.decode(vocabulary.piece(token_id))
        self._whole = not self._decoder.getstate()[0]
        return text
