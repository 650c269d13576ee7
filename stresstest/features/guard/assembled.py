"""A streamed answer as the body that a client expects who did not ask for a stream."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from stresstest.endpoint.wire import MAX_OBJECTS, EventReader
from stresstest.features.guard.answer import MAX_CHOICES, AnswerReader, UnreadableAnswerError
from stresstest.features.guard.asked import Asked, Route
from stresstest.features.guard.ending import FIELD, FINISH_REASON, incomplete_response
from stresstest.http_limits import MAX_REPLY_BYTES
from stresstest.model.texts.lax_json import decode_lax

_LISTS = re.compile(
    rb'"(?!(?:choices|delta|tool_calls|function|function_call|usage|\w+_details)")\w+"\s*:\s*[\[{]'
    rb'|"reasoning_details"\s*:\s*\['
)
"""What an event holds beside a text and its frame, all of which is kept."""
_ONCE = ("role", "name", "type", "id")
"""Fields that are no text in pieces: servers say them once, or again in each piece."""
_WORD, _FRAME = 16, 512
"""Bytes that are kept of an event with a word, at least, and that are not kept of any event with a text."""
_PLAIN_OBJECTS = 4
"""Objects and lists of a delta that are the frame of one piece, such as of a call's arguments."""
_PIECES = 1024
"""Pieces of a text that are kept apart."""
_NULL = b"null"
_TOP = ("id", "created", "model", "system_fingerprint", "service_tier")


def can_be_streamed(asked: Asked) -> bool:
    """Whether the answer can be asked for as a stream: vLLM refuses log probabilities of the prompt there."""
    return asked.body.get("prompt_logprobs") is None


def streaming_changes(asked: Asked) -> dict[str, Any]:
    """The request fields that make the same request a streamed one."""
    if asked.route is Route.RESPONSES:
        return {"stream": True}
    return {"stream": True, "stream_options": {"include_usage": True}}


class _LongText:
    """A text that grows piece by piece: a string in a dictionary is copied each time, which takes minutes for
    a million pieces."""

    __slots__ = ("_parts", "_pieces")

    def __init__(self, text: str) -> None:
        self._parts, self._pieces = [text], [""]

    def add(self, text: str) -> None:
        self._pieces.append(text)
        if len(self._pieces) >= _PIECES:
            self._parts.append("".join(self._pieces))
            self._pieces.clear()

    def __str__(self) -> str:
        return "".join((*self._parts, *self._pieces))


class _EventChoice(msgspec.Struct, gc=False):
    index: Any = None
    delta: Any = None
    text: Any = None
    token_ids: msgspec.Raw = msgspec.Raw(_NULL)
    logprobs: msgspec.Raw = msgspec.Raw(_NULL)
    finish_reason: Any = None
    stop_reason: Any = None


class _Event(msgspec.Struct, gc=False):
    error: Any = None
    id: Any = None
    created: Any = None
    model: Any = None
    system_fingerprint: Any = None
    service_tier: Any = None
    usage: Any = None
    choices: list[_EventChoice] | None = None


_events = msgspec.json.Decoder(_Event)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


class AnswerAssembly:
    """Collects the events of one stream. error: the body of an error that came in place of tokens."""

    def __init__(self, route: Route) -> None:
        self.error: bytes | None = None
        self._route = route
        self._events = EventReader()
        self._top: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}
        self._pieces: dict[int, dict[tuple[str, ...], list[bytes]]] = {}
        self._usage: Any = None
        self._response: dict[str, Any] | None = None
        self._text: list[str] = []
        self._size = 0
        self._objects = 0

    def add(self, data: bytes) -> int:
        """Take bytes of the stream; returns about those that are kept of them.

        Raises UnreadableAnswerError, LineTooLongError.
        """
        self._size += len(data)
        kept = -self._events.unfinished
        if self._size > MAX_REPLY_BYTES:
            raise UnreadableAnswerError("the answer is too large to be put together")
        payloads = self._events.feed(data)
        kept += self._events.unfinished
        for payload in payloads:
            if payload == b"[DONE]":
                continue
            kept += len(payload) if _LISTS.search(payload) else max(_WORD, len(payload) - _FRAME)
            try:
                if self._route is Route.RESPONSES:
                    self._take_delta(decode_lax(msgspec.json.decode, payload))
                else:
                    self._take(decode_lax(_events.decode, payload), payload)
            except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError):
                raise UnreadableAnswerError("an event is not a chunk of an answer") from None
        return kept

    @property
    def complete(self) -> bool:
        """Whether every choice has ended by itself."""
        if self._route is Route.RESPONSES:
            return self._response is not None
        return bool(self._choices) and all(each["finish_reason"] for each in self._choices.values())

    def body(self, reader: AnswerReader, why: Mapping[str, Any] | None = None) -> bytes:
        """The answer. why: how the guard ended it, or what it changed."""
        if self._route is Route.RESPONSES:
            if self._response is None and why is not None:
                return msgspec.json.encode(incomplete_response(reader, why, "".join(self._text)))
            response = self._response or {}
            return msgspec.json.encode(response if why is None else {**response, FIELD: why})
        self._finish_lists()
        for choice in self._choices.values():
            if choice["finish_reason"] is None and why is not None:
                choice["finish_reason"] = FINISH_REASON
                choice["stop_reason"] = f"{FIELD}:{why['symptom']}"
            message = choice.get("message")
            if message and message.get("tool_calls") and not message["content"]:
                message["content"] = None
            _join_texts(choice)
        kind = "chat.completion" if self._route is Route.CHAT else "text_completion"
        choices = [self._choices[index] for index in sorted(self._choices)]
        top = {"id": None, "object": kind, **self._top}
        found = {**top, "choices": choices, "usage": self._usage}
        return msgspec.json.encode(found if why is None else {**found, FIELD: why})

    def _take(self, event: _Event, payload: bytes) -> None:
        if event.error is not None:
            self.error = bytes(payload)
            return
        self._top |= {name: value for name in _TOP if (value := getattr(event, name)) is not None}
        self._usage = event.usage or self._usage
        for given in event.choices or ():
            index = int(given.index or 0)
            choice = self._choices.setdefault(index, self._blank(index))
            if len(self._choices) > MAX_CHOICES:
                raise UnreadableAnswerError("the answer has too many choices to be put together")
            if self._route is Route.CHAT:
                self._count_objects(given.delta)
                _merge_message(choice["message"], given.delta or {})
            else:
                _merge_piece(choice, "text", given.text)
            self._keep_lists(index, given)
            for name in ("finish_reason", "stop_reason"):
                if (value := getattr(given, name)) is not None:
                    choice[name] = value

    def _count_objects(self, delta: Any) -> None:
        """What is decoded takes up to fifty times its bytes, and `add` counts these."""
        self._objects += max(0, _objects_in(delta) - _PLAIN_OBJECTS)
        if self._objects > MAX_OBJECTS:
            raise UnreadableAnswerError("the answer has too many objects to be put together")

    def _keep_lists(self, index: int, given: _EventChoice) -> None:
        """Keep a chunk's token ids and logprobs as they were written: decoded, they take ten times that."""
        pieces = self._pieces.setdefault(index, {})
        _keep_piece(pieces, ("token_ids",), given.token_ids)
        if bytes(given.logprobs) != _NULL:
            for name, raw in _fields.decode(given.logprobs).items():
                _keep_piece(pieces, ("logprobs", name), raw)

    def _finish_lists(self) -> None:
        for index, pieces in self._pieces.items():
            choice = self._choices[index]
            for (name, *within), parts in pieces.items():
                joined = msgspec.Raw(b"[" + b",".join(parts) + b"]")
                if within:
                    choice[name] = (choice[name] or {}) | {within[0]: joined}
                else:
                    choice[name] = joined
        self._pieces.clear()

    def _take_delta(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "response.output_text.delta":
            if not isinstance(event["delta"], str):
                raise TypeError("a delta of the text is none")
            self._text.append(event["delta"])
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            if not isinstance(event["response"], dict):
                raise TypeError("a response is none")
            self._response = event["response"]
        elif kind == "error":
            self.error = msgspec.json.encode({"error": event})

    def _blank(self, index: int) -> dict[str, Any]:
        if self._route is Route.CHAT:
            answer: dict[str, Any] = {"message": {"role": "assistant", "content": ""}}
        else:
            answer = {"text": ""}
        return {"index": index, **answer, "logprobs": None, "finish_reason": None, "stop_reason": None}


def _objects_in(value: Any) -> int:
    """How many objects and lists there are in it, itself included."""
    found, left = 0, [value]
    while left:
        each = left.pop()
        if isinstance(each, dict | list):
            found += 1
            left.extend(each.values() if isinstance(each, dict) else each)
    return found


def _merge_message(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add a delta to the message: its pieces by their type, calls of tools by their index."""
    for name, value in delta.items():
        if name == "tool_calls":
            calls = message.setdefault("tool_calls", [])
            for call in value or ():
                _merge_call(calls, call)
        elif name == "content" and (isinstance(value, list) or isinstance(message.get(name), list)):
            message[name] = _merge_parts(_as_parts(message.get(name)), _as_parts(value))
        else:
            _merge_piece(message, name, value)


def _as_parts(content: Any) -> list[Any]:
    """Content as parts: Mistral's API streams thoughts in parts and the answer after them as plain text."""
    if isinstance(content, list):
        return content
    content = str(content) if isinstance(content, _LongText) else content
    return [{"type": "text", "text": content}] if content else []


def _merge_parts(have: list[Any], more: list[Any]) -> list[Any]:
    """Append parts, joining neighbours of the same kind."""
    for part in more:
        last = have[-1] if have else None
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text" and isinstance(last, dict) and last.get("type") == kind:
            _merge_piece(last, "text", part["text"])
        elif kind == "thinking" and isinstance(last, dict) and last.get("type") == kind:
            last["thinking"] = _merge_parts(_as_parts(last["thinking"]), _as_parts(part["thinking"]))
        else:
            have.append(part)
    return have


def _merge_piece(whole: dict[str, Any], name: str, piece: Any) -> None:
    """Add a piece to a field: texts are joined, objects merged, lists extended; a name is said once."""
    have: Any = whole.get(name)
    if piece is None or (name in _ONCE and not piece):
        return
    if type(have) is _LongText and type(piece) is str:
        have.add(piece)
    elif name in _ONCE or not have or type(have) not in (str, _LongText, list, dict):
        whole[name] = piece
    elif type(have) is not type(piece):
        raise TypeError(f"{name} changes its type")
    elif type(have) is str:
        whole[name] = text = _LongText(have)
        text.add(piece)
    elif type(have) is dict:
        for key, value in piece.items():
            _merge_piece(have, key, value)
    else:
        have.extend(piece)


def _join_texts(whole: dict[str, Any]) -> None:
    """Replace the long texts within by strings."""
    left: list[Any] = [whole]
    while left:
        value = left.pop()
        for key, each in [*(value.items() if type(value) is dict else enumerate(value))]:
            if type(each) is _LongText:
                value[key] = str(each)
            elif type(each) in (dict, list):
                left.append(each)


def _merge_call(calls: list[dict[str, Any]], delta: dict[str, Any]) -> None:
    index = delta.get("index")
    at = _unnumbered(calls, delta) if index is None else int(index)
    while len(calls) <= min(at, 1023):
        calls.append({"id": None, "type": "function", "function": {"name": "", "arguments": ""}})
    call = calls[at]
    if "custom" in delta:
        call.pop("function", None)
    for name, value in delta.items():
        if name != "index":
            _merge_piece(call, name, value)


def _unnumbered(calls: list[dict[str, Any]], delta: Mapping[str, Any]) -> int:
    """Where a call without an index belongs: a new id begins the next call, anything else is of the last."""
    known = [call["id"] for call in calls]
    if not delta.get("id"):
        return max(0, len(calls) - 1)
    return known.index(delta["id"]) if delta["id"] in known else len(calls)


def _keep_piece(pieces: dict[tuple[str, ...], list[bytes]], name: tuple[str, ...], raw: msgspec.Raw) -> None:
    """Keep the elements of a list, as JSON; of anything else nothing."""
    written = bytes(raw).strip()
    if written.startswith(b"["):
        kept = pieces.setdefault(name, [])
        if inner := written[1:-1].strip():
            kept.append(inner)
