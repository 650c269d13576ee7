"""How the guard ends an answer: in valid events, with a finish reason and a field that say why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from stresstest.endpoint.wire import MAX_EVENT, LineTooLongError
from stresstest.features.guard.answer import AnswerReader, ChoiceWatch
from stresstest.features.guard.asked import Asked, Route
from stresstest.model import GenerationVerdict

FIELD = "stresstest_guard"
"""The extra field of an answer that the guard has touched."""
HEADER = "X-Stresstest-Guard"
FINISH_REASON = "length"
"""Of an ended answer. Clients know it as an answer that was cut; what they do not know, as vLLM's
"repetition", some of them turn into an ordinary "stop"."""


def explanation(action: str, failing: tuple[ChoiceWatch, GenerationVerdict], **more: Any) -> dict[str, Any]:
    """What the extra field says."""
    choice, verdict = failing
    found = {"symptom": verdict.symptom, "onset": verdict.onset, "alarm": verdict.alarm}
    return {"action": action, "choice": choice.index, **found, **more}


def header_value(why: Mapping[str, Any]) -> str:
    """The same for the header: ``abort; symptom=loop; onset=131``."""
    parts = [f"{key}={value}" for key, value in why.items() if key not in ("action", "choice")]
    return "; ".join([str(why["action"]), *parts])


def last_events(asked: Asked, reader: AnswerReader, why: Mapping[str, Any]) -> bytes:
    """The events that end a stream whose whole events were all passed on."""
    return b"".join(_events(asked, reader, why))


def _events(asked: Asked, reader: AnswerReader, why: Mapping[str, Any]) -> Iterator[bytes]:
    if asked.route is Route.RESPONSES:
        response = incomplete_response(reader, why)
        kind = "response.incomplete"
        yield b"event: " + kind.encode() + b"\n" + _event({"type": kind, "response": response})
        return
    names = ("id", "object", "created", "model")
    head = {name: reader.head[name] for name in names if name in reader.head}
    ended: dict[str, Any] = {"logprobs": None, "finish_reason": FINISH_REASON}
    ended["stop_reason"] = f"{FIELD}:{why['symptom']}"
    part: dict[str, Any] = {"delta": {}} if asked.route is Route.CHAT else {"text": ""}
    going_on = [index for index, each in reader.choices.items() if each.finish_reason is None]
    going_on = going_on or [why["choice"]]  # its end was read, and was not passed on
    choices = [{"index": index, **part, **ended} for index in going_on]
    yield _event({**head, "choices": choices, FIELD: why})
    prompt = next((each.assembler.prompt_tokens for each in reader.choices.values()), None)
    options = asked.body.get("stream_options")
    if prompt is not None and isinstance(options, dict) and options.get("include_usage"):
        written = sum(each.written for each in reader.choices.values())
        usage = {"prompt_tokens": prompt, "total_tokens": prompt + written, "completion_tokens": written}
        yield _event({**head, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def incomplete_response(reader: AnswerReader, why: Mapping[str, Any], text: str | None = None) -> Any:
    """The response object of an answer that was ended. text: what it wrote, where nobody has seen it yet."""
    response = reader.head.get("response")
    found: dict[str, Any] = dict(response) if isinstance(response, dict) else {}
    found |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, FIELD: why}
    if text is not None:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        message = {"type": "message", "role": "assistant", "status": "incomplete", "content": content}
        found["output"] = [message]
    return found


def _event(value: Any) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


class WholeEvents:
    """Lets a stream's bytes pass up to the end of the last whole event, so that another can follow.

    held: the beginning of an event that is not whole yet, of `MAX_EVENT` bytes at most.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._end = b""

    @property
    def held(self) -> bytes:
        return b"".join(self._pieces)

    def give_up(self, data: bytes) -> bytes:
        """What was held, and these bytes: no event will follow."""
        held, self._pieces, self._size = self.held, [], 0
        return held + data

    def add(self, data: bytes) -> bytes:
        """What can pass now. Raises LineTooLongError."""
        if not self._pieces and data.endswith(b"\n\n"):
            return data
        self._pieces.append(data)
        self._size += len(data)
        seen = self._end + data
        self._end = seen[-3:]
        if b"\n\n" not in seen and b"\r\n\r\n" not in seen:
            if self._size > MAX_EVENT:
                raise LineTooLongError
            return b""
        data = self.held
        ends = (data.rfind(end) + len(end) for end in (b"\n\n", b"\r\n\r\n") if end in data)
        at = max(ends, default=0)
        self._pieces = [data[at:]] if at < len(data) else []
        self._end = data[at:][-3:]
        self._size = len(data) - at
        return data[:at]
