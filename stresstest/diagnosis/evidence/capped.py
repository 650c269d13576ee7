"""Detects a cap imposed by the server that is lower than the requested max_tokens.

Such a cap (the model's `max_new_tokens`, a proxy's limit) ends answers at the same length for all prompts.
The end of the context does not, because prompts differ in length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from stresstest.model import EndpointProfile, GenerationRecord

_LEAST = 3


@dataclass(frozen=True, slots=True)
class ServerCap:
    """at: output tokens at which the server cuts. seen: answers cut there. asked: highest max_tokens sent."""

    at: int
    seen: int
    asked: int


def find_server_cap(generations: Iterable[GenerationRecord], profile: EndpointProfile) -> ServerCap | None:
    """The length at which the server cuts answers although more was requested and would fit, if any."""
    cut = [g for g in generations if g.finish_reason == "length" and 0 < g.output_tokens < _limit(g, profile)]
    if not cut:
        return None
    at, seen = Counter(g.output_tokens for g in cut).most_common(1)[0]
    if seen < _LEAST:
        return None
    return ServerCap(at, seen, max(g.job.max_tokens for g in cut if g.output_tokens == at))


def _limit(generation: GenerationRecord, profile: EndpointProfile) -> int:
    """Requested output tokens that fit into the context; 0 if the prompt's length is unknown."""
    asked = generation.job.max_tokens
    if profile.max_model_len is None:
        return asked
    if generation.prompt_tokens is None:
        return 0
    # One token is subtracted so that an off-by-one difference in token counts is no cut.
    return min(asked, profile.max_model_len - generation.prompt_tokens - 1) - 1


def server_cap_sentence(found: ServerCap) -> str:
    """The note for the user."""
    return (
        f"{found.seen} answers were cut at {found.at} tokens although up to {found.asked} were asked: the "
        "server caps them, as max_new_tokens does by --generation-config FOLDER or "
        "--override-generation-config (vllm serve … --generation-config vllm lifts it). "
        "Nothing beyond that was measured."
    )
