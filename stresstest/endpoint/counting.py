"""How many tokens a text has, by the best source there is: the stream, /tokenize, tiktoken, chunks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from stresstest.endpoint.wire import believable, sane
from stresstest.model import Message, ServiceFailure

if TYPE_CHECKING:
    from stresstest.endpoint.assembly import Assembler
    from stresstest.endpoint.client import Endpoint

SERVER, TOKENIZE, TIKTOKEN, CHUNKS = "server", "tokenize", "tiktoken (estimate)", "chunks"
TOTAL = "server (positions in chunks)"
_ENCODING = "o200k_base"
_DOWNLOAD = 20.0


async def count_tokens(endpoint: Endpoint, messages: Sequence[Message]) -> int | None:
    """Prompt tokens of a conversation, chat template included, by /tokenize; None where it is not served."""
    listed = [{"role": m.role, "content": m.content} for m in messages]
    return await _tokenize(endpoint, {"messages": listed, "add_generation_prompt": True})


async def prompt_ids(endpoint: Endpoint, prompt: Sequence[Message] | str) -> tuple[int, ...] | None:
    """Token ids of a prompt up to where the answer begins, special tokens included; None where /tokenize
    does not give them. A conversation goes through the chat template."""
    if isinstance(prompt, str):
        found = await _asked(endpoint, {"prompt": prompt, "add_special_tokens": True})
    else:
        listed = [{"role": m.role, "content": m.content} for m in prompt]
        found = await _asked(endpoint, {"messages": listed, "add_generation_prompt": True})
    ids = found.get("tokens") if found is not None else None
    if not isinstance(ids, list) or not ids or not all(isinstance(i, int) and i >= 0 for i in ids):
        return None
    return tuple(ids)


async def count_text(endpoint: Endpoint, text: str) -> int | None:
    """Tokens of a bare text by /tokenize, no special tokens added; None where it is not served."""
    return await _tokenize(endpoint, {"prompt": text, "add_special_tokens": False})


async def estimate(text: str) -> tuple[int | None, str | None]:
    """(tokens by tiktoken's o200k_base, None), or (None, why not) when its tables cannot be had offline."""
    try:
        # In a thread and on a clock: at first use tiktoken downloads, with no time limit of its own.
        return await asyncio.wait_for(asyncio.to_thread(_tiktoken, text), _DOWNLOAD), None
    except (OSError, ImportError, ValueError, TimeoutError) as error:
        return None, (
            "tiktoken could not load its tables: it fetches them from the network at first use, and "
            f"TIKTOKEN_CACHE_DIR can hold a copy ({type(error).__name__}). Tokens are counted in chunks."
        )


def _tiktoken(text: str) -> int:
    import tiktoken

    return len(tiktoken.get_encoding(_ENCODING).encode(text, disallowed_special=()))


async def settle(endpoint: Endpoint, made: Assembler, *, limit: int, alive: bool) -> tuple[int, str]:
    """(output tokens, source) of an ended stream. limit: the max_tokens sent. alive: it can still be asked.

    TOTAL: the server's total is exact, positions inside are chunks. CHUNKS: nothing is known.
    """
    total = made.total
    if total is not None and total > max(limit, believable(made.characters), made.produced):
        total = None
    unsure = made.uncounted
    if not unsure:
        return max(made.produced, total or 0), SERVER
    if total:
        # The final count is exact; positions inside are only so if every chunk was one token.
        return total, SERVER if abs(total - made.produced) <= 1 else TOTAL
    text = "".join(unsure)
    certain = made.produced - len(unsure)
    if alive and endpoint.can_tokenize is not False:
        counted = await count_text(endpoint, text)
        if counted and counted <= believable(len(text)):
            return certain + counted, TOKENIZE
    if endpoint.can_estimate is not False:
        guess, _ = await estimate(text)
        endpoint.can_estimate = guess is not None
        if guess is not None:
            return certain + guess, TIKTOKEN
    return made.produced, CHUNKS


async def _tokenize(endpoint: Endpoint, question: dict[str, Any]) -> int | None:
    found = await _asked(endpoint, question)
    count = found.get("count") if found is not None else None
    return sane(count) if isinstance(count, int) else None


async def _asked(endpoint: Endpoint, question: dict[str, Any]) -> dict[str, Any] | None:
    reply = await endpoint.ask("/tokenize", {"model": endpoint.model, **question}, at_root=True)
    if isinstance(reply, ServiceFailure) or reply.status != 200:
        return None
    try:
        found = msgspec.json.decode(reply.body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
