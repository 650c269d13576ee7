"""Requested repetition: whether what repeats stands in the prompt as something to be repeated."""

from __future__ import annotations

import re

_ENOUGH_WORDS = 4
_ROTATIONS = 64
_QUOTES = "\"'“”„«»‘’`"


def normalised(text: str) -> str:
    """The text with every stretch of white space as one blank."""
    return " ".join(text.split())


def requested(period: str, prompt: str) -> bool:
    """Whether one period of a repetition is the prompt's own template. `prompt` comes normalised.

    The period may be read from any of its words on. It is a template when it stands in the prompt in
    words of its own: four or more, or fewer if they are quoted there or stand twice in a row, since a
    lone "the" proves nothing.
    """
    words = normalised(period).split(" ")
    rotations = (" ".join(words[i:] + words[:i]) for i in range(min(len(words), _ROTATIONS)))
    return any(_stands(text, len(words), prompt) for text in rotations if text and text in prompt)


def _stands(text: str, words: int, prompt: str) -> bool:
    body = re.escape(text)
    whole = rf"(?<!\w){body}(?!\w)"
    if words >= _ENOUGH_WORDS:
        return re.search(whole, prompt) is not None
    twice = rf"(?<!\w){body}\W?\s?{body}(?!\w)"
    quoted = rf"[{_QUOTES}]\s?{body}\s?[{_QUOTES}]"
    return re.search(f"{twice}|{quoted}", prompt) is not None
