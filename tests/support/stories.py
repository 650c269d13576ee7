"""Fluent English stories in numbered paragraphs, and the phrases that broken ones repeat."""

from __future__ import annotations

import random

LOOP = "the end of the road and"
_WHO = ["the keeper", "an old sailor", "my sister", "the captain", "a young doctor", "the baker", "the child"]
_DID = [
    "found a letter under",
    "walked slowly towards",
    "painted the door of",
    "remembered the name of",
    "closed the windows of",
    "asked three questions about",
    "dreamed again of",
]
_WHAT = ["the lighthouse", "the empty station", "a garden", "the harbour", "the library", "a small bridge"]
_WHEN = [
    "before the rain began",
    "while nobody was looking",
    "because the night was cold",
    "after the last train",
    "as the bells rang",
    "without a word of warning",
    "when the snow had melted",
    "in spite of the wind",
]


def sentence(rng: random.Random) -> str:
    """Fluent English of 60 to 90 characters; two equal ones in a row are next to impossible."""
    parts = [rng.choice(_WHO), rng.choice(_DID), rng.choice(_WHAT), rng.choice(_WHEN)]
    text = " ".join(parts)
    return f"{text[0].upper()}{text[1:]}, {rng.choice(_WHEN)}."


def story(units: int, seed: int = 1, first: int = 1) -> str:
    rng = random.Random(seed)
    return "\n\n".join(
        f"Paragraph {first + i}. " + " ".join(sentence(rng) for _ in range(3)) for i in range(units)
    )


BODY = (
    "The keeper of the old light wrote down the hour and the wind, and counted the boats that had come home"
)
