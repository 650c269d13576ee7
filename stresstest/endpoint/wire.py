"""Encodes request bodies, and decodes a stream's bytes: server-sent events, and the JSON chunks in them.

The SDK's chunk objects cost several hundred microseconds per chunk with logprobs; msgspec structs with
only the fields we read cost a few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from stresstest.model import GenerationRequest
from stresstest.model.request import request_fields
from stresstest.model.texts.lax_json import decode_lax

MAX_EVENT = 16 * 1024 * 1024
MAX_OBJECTS = 400_000
"""Objects and lists of an event, which take up to fifty times their size once they are decoded. No answer's
last event has as many in `MAX_EVENT`."""
_RICH = 1024 * 1024
"""Bytes from which on an event's objects are counted."""
_MOST = 2**31 - 1


def sane_count(number: int | None) -> int | None:
    """The count or id if it is between 0 and 2**31 - 1, else None."""
    return number if number is not None and 0 <= number <= _MOST else None


def max_plausible_tokens(characters: int) -> int:
    """An upper bound on the tokens of a text: several bytes per character, plus tokens without text."""
    return max(64, 8 * characters)


class TopLogprob(msgspec.Struct, gc=False):
    logprob: float | None = None


class TokenLogprobs(msgspec.Struct, gc=False):
    """One token's logprobs in a chat chunk; `bytes` stays undecoded until a chunk needs splitting."""

    token: str = ""
    logprob: float | None = None
    bytes: msgspec.Raw = msgspec.Raw(b"null")
    top_logprobs: list[TopLogprob] | None = None


class ChunkLogprobs(msgspec.Struct, gc=False):
    """`content` in chat chunks; the other three, parallel lists, in completion chunks."""

    content: list[TokenLogprobs] | None = None
    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None
    top_logprobs: list[dict[str, float | None] | None] | None = None


class ToolFunction(msgspec.Struct, gc=False):
    arguments: str | None = None
    name: Any = None


class CustomTool(msgspec.Struct, gc=False):
    input: str | None = None
    name: Any = None


class ToolCall(msgspec.Struct, gc=False):
    """custom: of a tool whose input is a text, as OpenAI's models call them."""

    function: ToolFunction | None = None
    custom: CustomTool | None = None


class ChunkDelta(msgspec.Struct, gc=False):
    """`tool_calls`, `function_call`: pieces of the arguments of calls; they are the answer where a model
    calls tools. `refusal`: an answer too. `content`: parts where the API streams these (Mistral's).
    `reasoning_details`, `thinking_blocks`: parts of reasoning, most often beside the same as a text."""

    content: str | list[dict[str, Any]] | None = None
    refusal: str | None = None
    function_call: ToolFunction | None = None
    tool_calls: list[ToolCall] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    reasoning_details: Any = None
    thinking_blocks: Any = None


class ChunkChoice(msgspec.Struct, gc=False):
    """logprobs: a bare number in Together's streams, of a token that it does not name."""

    index: int = 0
    delta: ChunkDelta | None = None
    text: str | None = None
    logprobs: ChunkLogprobs | float | None = None
    token_ids: list[int] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


class ChunkUsage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: Any = None
    completion_tokens_details: Any = None

    @property
    def reasoning_tokens(self) -> int | None:
        """How many tokens are reasoning, where the server says it: in a number of its own, or by a total that
        is larger than prompt and answer together (Gemini's API)."""
        details = self.completion_tokens_details
        number = details.get("reasoning_tokens") if isinstance(details, dict) else None
        named = sane_count(number) if type(number) is int else None
        total = sane_count(self.total_tokens) if type(self.total_tokens) is int else None
        prompt, answer = sane_count(self.prompt_tokens), sane_count(self.completion_tokens)
        if prompt is None or answer is None or total is None or total <= prompt + answer:
            return named
        return max(named or 0, total - prompt - answer)


class _GatewayFields(msgspec.Struct, gc=False):
    provider: Any = None


class StreamChunk(msgspec.Struct, gc=False):
    """One event of a stream. error: sent by a server that fails after the response headers. provider: the
    server that a gateway has chosen; Bifrost's is in `extra_fields`."""

    choices: list[ChunkChoice] | None = None
    usage: ChunkUsage | None = None
    id: Any = None
    created: Any = None
    model: Any = None
    system_fingerprint: str | None = None
    provider: Any = None
    extra_fields: _GatewayFields | None = None
    error: Any = None
    object: str | None = None
    message: Any = None
    code: Any = None


_decoder = msgspec.json.Decoder(StreamChunk)
_ints = msgspec.json.Decoder(list[int] | None)


def decode_chunk(payload: bytes) -> StreamChunk:
    """The decoded chunk. Raises ValueError if the payload is not a chunk.

    NaN and halves of surrogate pairs, which servers in Python and JavaScript write, are read: the numbers of
    a model that overflows and its floods of emojis are its failures, and no fault of the stream.
    """
    return decode_lax(_decoder.decode, payload)


def split_parts(parts: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """(reasoning, answer) of a content in parts, as Mistral's API streams it."""
    thought, answer = "", ""
    for part in parts:
        inner = part.get("thinking")
        if isinstance(inner, list):
            thought += "".join(str(each.get("text") or "") for each in inner if isinstance(each, dict))
        else:
            thought += inner if isinstance(inner, str) else ""
            answer += part["text"] if isinstance(part.get("text"), str) else ""
    return thought, answer


def decode_bytes(raw: msgspec.Raw) -> bytes | None:
    """The bytes of one token; None if the server did not send them."""
    try:
        values = _ints.decode(raw)
        return None if values is None else bytes(values)
    except ValueError:
        return None


class LineTooLongError(Exception):
    """A line or an event exceeds its limit, so the response is not an event stream."""


def _is_too_rich(payload: bytes) -> bool:
    """Whether a JSON text may hold more than `MAX_OBJECTS`."""
    return len(payload) > _RICH and payload.count(b"{") + payload.count(b"[") > MAX_OBJECTS


class EventReader:
    """Splits a byte stream, received in arbitrary pieces, into the payloads of server-sent events.

    most: bytes of an event. foreign: the beginning of a response that is no event stream (a web page, plain
    JSON).
    """

    def __init__(self, most: int = MAX_EVENT) -> None:
        self._most = most
        self._tail: list[bytes] = []
        self._tail_size = 0
        self._event: list[bytes] = []
        self._event_size = 0
        self.foreign = b""

    @property
    def unfinished(self) -> int:
        """Bytes that are held of an event that has not ended."""
        return self._tail_size + self._event_size

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads that these bytes complete. Raises LineTooLongError."""
        if not self._tail and not self._event and data.endswith(b"\n\n"):
            events = data[:-2].split(b"\n\n")  # fast path: almost every read holds whole events
            plain = data.count(b"\n") == 2 * len(events)
            small = len(data) <= _RICH
            if plain and small and all(event.startswith(b"data: ") for event in events):
                return [event[6:] for event in events]
        payloads: list[bytes] = []
        self._tail.append(data)
        self._tail_size += len(data)
        if b"\n" in data:
            *lines, rest = b"".join(self._tail).split(b"\n")
            self._tail = [rest] if rest else []
            self._tail_size = len(rest)
            for line in lines:
                self._line(line, payloads)
        if any(map(_is_too_rich, payloads)):
            raise LineTooLongError
        if self.unfinished > self._most:
            raise LineTooLongError
        return payloads

    def finish(self) -> list[bytes]:
        """The payload of a last event that lacks the terminating empty line, if any."""
        payloads: list[bytes] = []
        tail, self._tail, self._tail_size = b"".join(self._tail), [], 0
        self._line(tail, payloads)
        self._line(b"", payloads)
        return payloads

    def _line(self, line: bytes, payloads: list[bytes]) -> None:
        if line.endswith(b"\r"):
            line = line[:-1]
        if line.startswith(b"data:"):
            self._event.append(line[6:] if line[5:6] == b" " else line[5:])
            self._event_size += len(line)
        elif not line:
            if self._event:
                payloads.append(self._event[0] if len(self._event) == 1 else b"\n".join(self._event))
                self._event.clear()
                self._event_size = 0
        elif not line.startswith((b":", b"event:", b"id:", b"retry:")) and len(self.foreign) < 4096:
            self.foreign += line[:4096] + b"\n"


@dataclass(frozen=True, slots=True)
class RequestFeatures:
    """The optional request fields to send; some servers reject unknown fields with status 400."""

    top_logprobs: int = 20
    token_ids: bool = True
    usage: bool = True
    running_usage: bool = True


PROMPT_FIELDS = ("tools", "chat_template", "chat_template_kwargs", "documents", "mm_processor_kwargs")
"""Fields that shape the prompt which the chat template writes; /tokenize takes them too."""


def build_body(request: GenerationRequest, model: str, features: RequestFeatures) -> dict[str, Any]:
    """Body of /chat/completions (messages) or /completions (prompt: text or token ids).

    Sampling parameters that were not given are omitted, so that the server's defaults apply. A continuation
    from token ids leaves out the fields that shape a prompt, which is in the ids already.
    """
    body: dict[str, Any] = {"model": model, "max_tokens": request.max_tokens, "stream": True}
    if request.messages is not None:
        body["messages"] = [message.as_sent() for message in request.messages]
        if features.top_logprobs:
            body |= {"logprobs": True, "top_logprobs": features.top_logprobs}
    else:
        prompt = request.prompt
        body["prompt"] = prompt if isinstance(prompt, str) else list(prompt or ())
        if features.top_logprobs:
            body["logprobs"] = features.top_logprobs
    if features.usage:
        body["stream_options"] = {"include_usage": True}
        if features.running_usage:
            body["stream_options"]["continuous_usage_stats"] = True
    if features.token_ids:
        body["return_token_ids"] = True
    if request.seed is not None:
        body["seed"] = request.seed
    if request.ignore_eos:
        body["ignore_eos"] = True
    extra = request.decoding.extra() | request_fields(request.body)
    if isinstance(request.prompt, tuple):
        extra = {name: value for name, value in extra.items() if name not in PROMPT_FIELDS}
    return extra | body | request.decoding.sent()
