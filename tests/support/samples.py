"""Samples of generations, given by their onsets and lengths."""

from __future__ import annotations

from dataclasses import replace

from stresstest.model import Generation
from tests.support.reported_runs import healthy, looping


def sample(onsets: list[int | None], lengths: list[int]) -> list[Generation]:
    """Answers of their own prompts; None ends in health at its length."""
    made = []
    for i, (onset, length) in enumerate(zip(onsets, lengths, strict=False)):
        one = looping(i, onset, onset + 40, period=4) if onset is not None else healthy(i, length)
        if onset is None and length % 3 == 0:  # something was open when it ended
            one = replace(one, verdict=replace(one.verdict, observed=length - 5))
        own = (replace(one.tokens[0], text=f"Answer {i} "), *one.tokens[1:3])
        made.append(replace(one, tokens=own, prompt_id=f"p{i}", prompt_text=""))
    return made
