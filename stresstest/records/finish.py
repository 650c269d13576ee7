"""How an answer ended, in one vocabulary: every server and library has its own words for it."""

from __future__ import annotations

LENGTH, STOP = "length", "stop"
LOST = frozenset({"abort", "error", "content_filter"})
"""The service gave the answer up."""
REPETITION = "repetition"
"""The server stopped the answer because it repeated itself."""

_WORDS = {
    **dict.fromkeys(
        ("length", "max_tokens", "max_output_tokens", "model_length", "token_limit", "incomplete"), LENGTH
    ),
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "eos", "eos_token"), STOP),
    **{word: word for word in (*LOST, REPETITION)},
}


def ending(reason: str | None) -> str | None:
    """``"MAX_TOKENS"`` → ``"length"``. One of length, stop, abort, error, content_filter, repetition.

    None where the word is absent or tells no end that is known (timeout, tool_calls): such an answer is not
    known to have ended by itself.
    """
    return None if reason is None else _WORDS.get(reason.strip().lower())
