"""The model's own tokens, with their entropies, from the logprobs that a response body kept."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping
from typing import Any

from stresstest.model import Token
from stresstest.model.tokens import entropy_bound


def logprob_tokens(logprobs: Any, text: str, reasoning: str) -> tuple[Token, ...] | None:
    """The tokens of a choice, if logprobs are there and spell its text; None otherwise.

    Bytes count where a token is a part of a character. Tokens that spell something else (special tokens
    shown as text, a log that was cut) would put the onset in the wrong place.
    """
    if not isinstance(logprobs, dict):
        return None
    if isinstance(logprobs.get("content"), list):
        found = [_chat_token(each) for each in logprobs["content"]]
    elif isinstance(logprobs.get("tokens"), list):
        found = _completion_tokens(logprobs)
    else:
        return None
    whole = b"".join(raw for raw, _, _ in found if raw is not None)
    if not found or any(raw is None for raw, _, _ in found):
        return None
    spelled = whole.decode("utf-8", "replace")
    if spelled == reasoning + text or spelled.strip() == (reasoning + text).strip():
        return tuple(_assemble_tokens(found, len(reasoning)))
    return tuple(_assemble_tokens(found, 0)) if spelled.strip() == text.strip() else None


_Piece = tuple[bytes | None, float | None, float | None]


def _chat_token(entry: Any) -> _Piece:
    if not isinstance(entry, dict):
        return None, None, None
    raw = entry.get("bytes")
    try:
        piece = bytes(raw) if isinstance(raw, list) else str(entry.get("token", "")).encode()
    except (ValueError, TypeError):
        return None, None, None
    top = entry.get("top_logprobs")
    values = _numbers(each.get("logprob") for each in top if isinstance(each, dict)) if top else []
    own = entry.get("logprob")
    return piece, own if isinstance(own, float | int) else None, entropy_bound(values) if values else None


def _completion_tokens(logprobs: Mapping[str, Any]) -> list[_Piece]:
    tokens, own = logprobs["tokens"], logprobs.get("token_logprobs") or []
    tops = logprobs.get("top_logprobs") or []
    found: list[_Piece] = []
    for n, token in enumerate(tokens):
        top = tops[n] if n < len(tops) else None
        values = _numbers(top.values()) if isinstance(top, dict) else []
        logprob = own[n] if n < len(own) and isinstance(own[n], float | int) else None
        piece = token.encode("utf-8", "replace") if isinstance(token, str) else None
        found.append((piece, logprob, entropy_bound(values) if values else None))
    return found


def _numbers(values: Iterable[Any]) -> list[float]:
    return [float(v) for v in values if isinstance(v, float | int) and not isinstance(v, bool)]


def _assemble_tokens(pieces: list[_Piece], reasoning: int) -> Iterable[Token]:
    """Pieces as tokens of whole characters: a character belongs to the token that completes it."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    seen = 0
    for raw, logprob, entropy in pieces:
        text = decoder.decode(raw or b"")
        yield Token(text, logprob=logprob, entropy=entropy, reasoning=seen < reasoning)
        seen += len(text)
