"""Token counts from the best available source: the stream, /tokenize, tiktoken, or words."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from stresstest.endpoint.wire import PROMPT_FIELDS, max_plausible_tokens, sane_count
from stresstest.model import Message, ServiceFailure

if TYPE_CHECKING:
    from stresstest.endpoint.assembly import TokenAssembler
    from stresstest.endpoint.outcome import HttpReply

SERVER, TOKENIZE, TIKTOKEN, WORDS = "server", "tokenize", "tiktoken (estimate)", "words"
TOTAL_SOURCE = "server (positions in words)"
_ENCODING = "o200k_base"
_SPECIAL_TOKENS = 16
"""Tokens that a server may count beyond max_tokens: those that end a turn."""
_DOWNLOAD = 20.0
_TEMPLATE_TOKENS = 16 * 1024
"""Tokens that a chat template may add to a prompt, such as a system prompt of its own."""


# A reply is decoded into what is needed of it: as Python objects it takes twenty times its size.
class _Count(msgspec.Struct):
    count: int


class _Ids(msgspec.Struct):
    tokens: msgspec.Raw


_Reply = TypeVar("_Reply", _Count, _Ids)


class TokenizeClient(Protocol):
    """The part of `Endpoint` that counting needs; a protocol, because `Endpoint` imports this module.

    can_tokenize, can_estimate: None until known. model: the name to send.
    """

    model: str | None
    can_tokenize: bool | None
    can_estimate: bool | None

    async def query(
        self, path: str, json: object = None, *, at_root: bool = False
    ) -> HttpReply | ServiceFailure: ...


async def count_tokens(
    endpoint: TokenizeClient, messages: Sequence[Message], fields: Mapping[str, Any] | None = None
) -> int | None:
    """Prompt tokens of a conversation by /tokenize, including the chat template; None if not served.

    fields: of the request's body; those that shape the prompt (tools, chat_template_kwargs) count.
    """
    return await _tokenize(endpoint, _conversation(messages, fields))


def _conversation(messages: Sequence[Message], fields: Mapping[str, Any] | None) -> dict[str, Any]:
    shaping = {name: value for name, value in (fields or {}).items() if name in PROMPT_FIELDS}
    listed = [message.as_sent() for message in messages]
    return {**shaping, "messages": listed, "add_generation_prompt": True}


async def prompt_ids(
    endpoint: TokenizeClient,
    prompt: Sequence[Message] | str,
    fields: Mapping[str, Any] | None = None,
    *,
    context: int | None = None,
) -> tuple[int, ...] | None:
    """Token ids of a prompt, special tokens included; the chat template is applied to a conversation.

    fields: see `count_tokens`. context: tokens of the model's, if known. None if /tokenize does not return
    them, or returns more than the context holds or the request and a chat template can amount to.
    """
    if isinstance(prompt, str):
        question: dict[str, Any] = {"prompt": prompt, "add_special_tokens": True}
    else:
        question = _conversation(prompt, fields)
    most = len(msgspec.json.encode(question)) + _TEMPLATE_TOKENS
    found = await _tokenize_reply(endpoint, question, _Ids)
    if found is None or bytes(found.tokens).count(b",") >= min(most, context or most):
        return None
    try:
        ids = msgspec.json.decode(found.tokens, type=tuple[int, ...])
    except (ValueError, RecursionError):
        return None
    return ids if ids and min(ids) >= 0 else None


async def count_text(endpoint: TokenizeClient, text: str) -> int | None:
    """Tokens of a text by /tokenize, without special tokens; None if it is not served."""
    return await _tokenize(endpoint, {"prompt": text, "add_special_tokens": False})


async def estimate_tokens(text: str) -> tuple[int | None, str | None]:
    """(tokens by tiktoken's o200k_base, None), or (None, reason) if its tables cannot be loaded."""
    try:
        return await asyncio.wait_for(_in_thread(text), _DOWNLOAD), None
    except (OSError, ImportError, ValueError, TimeoutError) as error:
        return None, (
            "tiktoken could not load its tables: it fetches them from the network at first use, and "
            f"TIKTOKEN_CACHE_DIR can hold a copy ({type(error).__name__}). Words are counted."
        )


async def _in_thread(text: str) -> int:
    """Tokens by tiktoken, which downloads its tables at first use, blocking and without a time limit: in a
    daemon thread, since the event loop and the interpreter wait for those of a pool before they end."""
    counted: Future[int] = Future()
    counted.set_running_or_notify_cancel()

    def count() -> None:
        try:
            counted.set_result(_tiktoken(text))
        except Exception as error:  # noqa: BLE001  raised where it is waited for
            counted.set_exception(error)

    threading.Thread(target=count, daemon=True).start()
    return await asyncio.wrap_future(counted)


def _tiktoken(text: str) -> int:
    import tiktoken

    return len(tiktoken.get_encoding(_ENCODING).encode(text, disallowed_special=()))


async def resolve_token_count(
    endpoint: TokenizeClient, made: TokenAssembler, *, limit: int, alive: bool
) -> tuple[int, str]:
    """(output tokens, source) of an ended stream.

    limit: the max_tokens sent. alive: whether the server can still be queried. TOTAL_SOURCE: the total is
    the server's, but positions are counted in words. WORDS: both are counted in words.
    """
    total = made.total
    # An answer has no more tokens than it was allowed, unless more arrived: such a count is of something else
    if total is not None and total > max(limit + _SPECIAL_TOKENS, made.produced):
        total = None
    unsure = made.uncounted_texts
    if not unsure:
        return max(made.produced, total or 0), SERVER
    if total:
        return total, TOTAL_SOURCE
    text = "".join(unsure)
    certain = made.produced - len(unsure)
    if alive and endpoint.can_tokenize is not False:
        counted = await count_text(endpoint, text)
        if counted and counted <= max_plausible_tokens(len(text)):
            return certain + counted, TOKENIZE
    if endpoint.can_estimate is not False:
        guess, _ = await estimate_tokens(text)
        endpoint.can_estimate = guess is not None
        if guess is not None:
            return certain + guess, TIKTOKEN
    return made.produced, WORDS


async def _tokenize(endpoint: TokenizeClient, question: dict[str, Any]) -> int | None:
    found = await _tokenize_reply(endpoint, question, _Count)
    return sane_count(found.count) if found is not None else None


async def _tokenize_reply(
    endpoint: TokenizeClient, question: dict[str, Any], form: type[_Reply]
) -> _Reply | None:
    reply = await endpoint.query("/tokenize", {"model": endpoint.model, **question}, at_root=True)
    if isinstance(reply, ServiceFailure) or reply.status != 200:
        return None
    try:
        return msgspec.json.decode(reply.body, type=form)
    except (ValueError, RecursionError):
        return None
