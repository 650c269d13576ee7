"""Refuses answers that a cache in front of the server gives a second time."""

from __future__ import annotations

from collections.abc import Collection

from stresstest.errors import EndpointError
from stresstest.model import GenerationRecord
from stresstest.statistics.replays import replays


class ReplayedAnswersError(EndpointError):
    """A cache in front of the server has answered."""


def refuse_replayed(answers: Collection[GenerationRecord], earlier: Collection[GenerationRecord]) -> None:
    """ReplayedAnswersError where answers are earlier ones again, where both have to be of the server."""
    again = len(replays(answers, earlier))
    if again:
        raise ReplayedAnswersError(
            f"{again} of {len(answers)} answers are earlier ones again, by id, time and text: a cache in "
            "front of the server gives them, so that the two cannot be compared.",
            hint="Ask vLLM itself, or switch the gateway's cache off.",
        )
