"""Answers that the server cut below what was asked: a cap that nobody gave, told from its fingerprint.

A cap of the server's (the model's `max_new_tokens`, a proxy's limit) ends answers at one and the same
length, whatever the prompt; the end of the context does not, since prompts differ in length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from stresstest.model import EndpointProfile, Generation

_LEAST = 3


@dataclass(frozen=True, slots=True)
class Capped:
    """at: output tokens at which the server cuts. seen: answers cut there. asked: the most asked for."""

    at: int
    seen: int
    asked: int


def capped(generations: Iterable[Generation], profile: EndpointProfile) -> Capped | None:
    """The length at which this server cuts answers although more was asked and had room; None without one."""
    cut = [g for g in generations if g.finish_reason == "length" and g.output_tokens < _limit(g, profile)]
    if not cut:
        return None
    at, seen = Counter(g.output_tokens for g in cut).most_common(1)[0]
    if seen < _LEAST:
        return None
    return Capped(at, seen, max(g.job.max_tokens for g in cut if g.output_tokens == at))


def _limit(generation: Generation, profile: EndpointProfile) -> int:
    """Output tokens that were asked for and had room; 0 where the prompt's length is not known."""
    asked = generation.job.max_tokens
    if profile.max_model_len is None:
        return asked
    if generation.prompt_tokens is None:
        return 0
    # One token less is asked for than there is room, so that a count that is off by one is no cut.
    return min(asked, profile.max_model_len - generation.prompt_tokens - 1) - 1


def sentence(found: Capped) -> str:
    """What a user is told."""
    return (
        f"{found.seen} answers were cut at {found.at} tokens although up to {found.asked} were asked: the "
        "server caps them, as max_new_tokens does by --generation-config FOLDER or "
        "--override-generation-config (vllm serve … --generation-config vllm lifts it). "
        "Nothing beyond that was measured."
    )
