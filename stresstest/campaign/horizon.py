"""How many output tokens a generation may have: what was requested, or what the context has room for."""

from __future__ import annotations

import asyncio

from stresstest.campaign.prompt_source import PromptSource, prompt_text
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.counting import count_tokens
from stresstest.errors import UsageError
from stresstest.model import Decoding, EndpointProfile, RunSettings
from stresstest.model.request import request_fields
from stresstest.tasks import Prompt

DEFAULT_HORIZON = 16_384
MIN_HORIZON = 64
RESERVE_TOKENS = 16
"""Room left for what the chat template adds, and for prompts a little longer than those counted."""
_COUNTED_AT_ONCE = 16
_CHARS_PER_TOKEN = 2.0
"""Without /tokenize a prompt is assumed to have one token per this many characters: on the safe side."""


async def horizon_for(
    endpoint: Endpoint, found: EndpointProfile, prompts: PromptSource, settings: RunSettings
) -> int:
    """Output tokens that a generation may have: the smaller of the request and the context's room."""
    wanted = settings.horizon or DEFAULT_HORIZON
    if found.max_model_len is None:
        return wanted
    lengths = await _prompt_lengths(endpoint, found, prompts)
    longest = max(lengths.values())
    room = found.max_model_len - longest - RESERVE_TOKENS
    if room < MIN_HORIZON:
        if prompts.task is None:
            _refuse_long_prompts(found, lengths)
        raise UsageError(
            f"The context of {found.model} ({found.max_model_len:,} tokens) leaves {max(room, 0):,} tokens "
            f"for the answer after a prompt of {longest:,}; at least {MIN_HORIZON} are needed.",
            hint="Serve the model with a larger --max-model-len, or give shorter prompts with --prompts.",
        )
    if prompts.task is None:
        # Own prompts differ in length: each is capped by its own room, the horizon by the roomiest.
        room = found.max_model_len - min(lengths.values()) - RESERVE_TOKENS
    return min(wanted, room)


async def _prompt_lengths(
    endpoint: Endpoint, found: EndpointProfile, prompts: PromptSource
) -> dict[str, int]:
    """Tokens of every own prompt, by id; of a task's prompts only a dozen, as their lengths are similar."""
    many = prompts.distinct if prompts.task is None else min(prompts.distinct, 12)
    sample = [prompts.prompt_at(index, 999) for index in range(many)]
    room = asyncio.Semaphore(_COUNTED_AT_ONCE)

    async def length(prompt: Prompt) -> int:
        async with room:
            return await prompt_length(endpoint, found, prompt, prompts.settings.decoding)

    lengths = await asyncio.gather(*map(length, sample))
    return {prompt.id: tokens for prompt, tokens in zip(sample, lengths, strict=True)}


def _refuse_long_prompts(found: EndpointProfile, lengths: dict[str, int]) -> None:
    limit = (found.max_model_len or 0) - RESERVE_TOKENS - MIN_HORIZON
    long = [prompt_id for prompt_id, tokens in lengths.items() if tokens > limit]
    raise UsageError(
        f"{len(long)} of {len(lengths)} prompts leave less than {MIN_HORIZON} tokens for the answer in "
        f"the context of {found.model} ({found.max_model_len:,} tokens), for example {long[0]!r} with "
        f"{lengths[long[0]]:,} tokens.",
        hint="Remove them, or serve the model with a larger --max-model-len.",
    )


async def prompt_length(
    endpoint: Endpoint, found: EndpointProfile, prompt: Prompt, decoding: Decoding
) -> int:
    """Prompt tokens by /tokenize, tools included; else a cautious estimate from the prompt's characters."""
    if found.tokenize and prompt.text is None:
        fields = decoding.extra() | request_fields(prompt.body)
        counted = await count_tokens(endpoint, prompt.messages, fields)
        if counted is not None:
            return counted
    return estimated_length(prompt_text(prompt))


def estimated_length(text: str) -> int:
    """Prompt tokens of a text, estimated from its characters, with a few for the chat template."""
    return int(len(text) / _CHARS_PER_TOKEN) + 8
