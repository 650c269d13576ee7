"""OpenTelemetry's GenAI spans to plain rows: a collector's OTLP JSON, and spans as the SDKs print them.

Attributes as in the GenAI semantic conventions (1.27 and later), with the names that vLLM's own spans
(`--otlp-traces-endpoint`), OpenLLMetry and OpenInference use for the same things, and answers in events.
Spans of other kinds are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from stresstest.records.formats.adapter import Envelope, Row
from stresstest.records.formats.bodies import find_reasoning, join_reasoning
from stresstest.records.formats.calls import (
    arguments,
    has_calls,
    has_tool_call,
    is_tool_call,
    message_arguments,
)
from stresstest.records.formats.fields import FLATTENED, TEXTLESS
from stresstest.records.record import FieldMapping

_PROMPT_TOKENS = (
    *("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    *("llm.usage.prompt_tokens", "llm.token_count.prompt"),
)
_OUTPUT_TOKENS = (
    *("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    *("llm.usage.completion_tokens", "llm.token_count.completion"),
)
_CAPS = ("gen_ai.request.max_tokens", "llm.request.max_tokens")
_MODELS = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
_IDS = ("gen_ai.response.id", "gen_ai.request.id")
_FINISH = "gen_ai.response.finish_reasons"
_FIRST_TOKEN = ("gen_ai.latency.time_to_first_token", "gen_ai.response.time_to_first_token")
"""Seconds after the span's start."""
_OUTPUTS = ("gen_ai.output.messages", "gen_ai.completion")
_INPUTS = ("gen_ai.input.messages", "gen_ai.prompt")
_COMPLETIONS = ("gen_ai.completion.{}.", "llm.output_messages.{}.message.")
_PROMPTS = ("gen_ai.prompt.{}.", "llm.input_messages.{}.message.")
_ARGUMENTS = ("tool_calls.{}.arguments", "tool_calls.{}.tool_call.function.arguments")
_CONTENTS = "contents.{}.message_content.text"
"""Parts of a message, in OpenInference's names."""
_CHOICE_EVENT = "gen_ai.choice"
_CALLS = "tool_calls"
_CALLED: list[dict[str, Any]] = [{}]
"""Tells that an answer's text holds the arguments of calls."""
_THOUGHTS = ("reasoning", "reasoning_content")
_MOST_NUMBERED = 64
"""Numbered attributes of one kind that are looked for."""
_MARKS = ("gen_ai.", "llm.usage.", "llm.output_messages.", "llm.token_count.")
_OPERATION = "gen_ai.operation.name"
_AGENT, _CLIENT = "invoke_agent", (3, "SPAN_KIND_CLIENT", "SpanKind.CLIENT")
"""An agent's span wraps generations of its process; of a client's kind it is a remote agent's answer."""
_NO_GENERATION = frozenset({"embeddings", "execute_tool", "create_agent", "invoke_workflow", "retrieval"})
"""Operations of spans that hold no generation, or that only wrap spans of their own."""
_GENERATIONS = frozenset({"chat", "text_completion", "generate_content", "responses", "completion"})
_SERVERS = "llm_request"
"""Name of vLLM's own spans: beside a client's, the same generations."""


def _recognises(row: Row, mapped: FieldMapping) -> bool:
    """Whether a row is an OTLP export or a span with GenAI attributes; a user's mapping overrides both."""
    return not mapped.fields and (isinstance(row.get("resourceSpans"), list) or _is_span(row))


def _unwrapped(row: Row, mapped: FieldMapping) -> list[Row]:
    """The generations of an export, or of a single span, as plain rows in order; other spans left out.

    Without `mapped.textless`, those that kept no text and surely are no others' are marked.
    """
    found = [each for span in _spans(row) if (each := _generation(span)) is not None]
    if mapped.textless:
        return [each.row for each in found]
    traces = Counter(each.span.get("traceId") for each in found)
    parents = {each.span.get("parentSpanId") for each in found} - {None, ""}
    kept = (each for each in found if not _is_beside(each, traces[each.span.get("traceId")] > 1, parents))
    return [
        each.row if "response" in each.row else {**each.row, TEXTLESS: True}
        for each in kept
        if "response" in each.row or _has_generated(each, parents)
    ]


@dataclass(frozen=True, slots=True)
class _Generation:
    """A span that may be one of a generation, as a plain row. attributes: the span's own, decoded."""

    row: Row
    span: Mapping[str, Any]
    attributes: Mapping[str, Any]

    @property
    def operation(self) -> Any:
        return self.attributes.get(_OPERATION)


def _is_beside(found: _Generation, shared: bool, parents: Collection[Any]) -> bool:
    """Whether a span tells of generations that others tell of: vLLM's own, where a client has one, and that
    of an agent in the same process. shared: its trace has others of them. parents: ids of the spans around
    those of generations."""
    span = found.span
    if found.operation == _AGENT:
        return span.get("kind") not in _CLIENT or span.get("spanId") in parents
    serves = span.get("name") == _SERVERS and "response" not in found.row
    return serves and (shared or bool(span.get("parentSpanId")))


def _has_generated(found: _Generation, parents: Collection[Any]) -> bool:
    """Whether a span without text is one of a generation, not one that wraps others."""
    unnamed_agent = found.operation is None and "gen_ai.agent.name" in found.attributes
    wraps = found.span.get("spanId") in parents or unnamed_agent
    return found.operation in _GENERATIONS or (found.row.get("completion_tokens") is not None and not wraps)


def _is_span(row: Mapping[str, Any]) -> bool:
    given = row.get("attributes")
    if isinstance(given, dict):
        return any(str(key).startswith(_MARKS) for key in given)
    return isinstance(given, list) and any(
        isinstance(each, dict) and str(each.get("key")).startswith(_MARKS) for each in given
    )


def _spans(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if not isinstance(row.get("resourceSpans"), list):
        yield row
        return
    for resource in _objects(row["resourceSpans"]):
        for scope in _objects(resource.get("scopeSpans") or resource.get("instrumentationLibrarySpans")):
            yield from _objects(scope.get("spans"))


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list | tuple) else []


def _generation(span: Mapping[str, Any]) -> _Generation | None:
    """One span as a plain row; None for a span that is not a generation."""
    own = found = _attributes(span.get("attributes"))
    if not any(key.startswith(_MARKS) for key in found):
        return None
    if found.get(_OPERATION) in _NO_GENERATION:
        return None
    if found.get("openinference.span.kind", "LLM") != "LLM":
        return None
    choices = list(_choice_events(span, found))
    for event in _objects(span.get("events")):
        found = {**_attributes(event.get("attributes")), **found}
    start = _nanoseconds(span.get("startTimeUnixNano", span.get("start_time")))
    first = _first(found, _FIRST_TOKEN)
    row = {
        "id": _first(found, _IDS) or span.get("spanId") or _object(span.get("context")).get("span_id"),
        "model": _first(found, _MODELS),
        "max_tokens": _first(found, _CAPS),
        "prompt_tokens": _first(found, _PROMPT_TOKENS),
        "completion_tokens": _first(found, _OUTPUT_TOKENS),
        "start": start,
        "end": _nanoseconds(span.get("endTimeUnixNano", span.get("end_time"))),
        "prompt": _prompt(found),
        FLATTENED: _has_called(found) or None,
        **_answer(found, choices),
    }
    if isinstance(first, int | float) and isinstance(start, float):
        row["first_token"] = start + first
    return _Generation({key: value for key, value in row.items() if value is not None}, span, own)


def _first(found: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((found[key] for key in keys if found.get(key) is not None), None)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _nanoseconds(value: Any) -> Any:
    """OTLP's nanoseconds (a number, or digits in a string) as seconds; ISO 8601 stays as it is."""
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    return value / 1e9 if isinstance(value, int) and not isinstance(value, bool) else value


def _attributes(given: Any) -> dict[str, Any]:
    """Attributes as a plain dict, from OTLP's list of typed values or the SDK's object."""
    if isinstance(given, dict):
        return {str(key): value for key, value in given.items()}
    return {str(each.get("key")): _value(each.get("value")) for each in _objects(given)}


def _value(value: Any) -> Any:
    """OTLP's AnyValue: int64 comes as a string, arrays and maps nest."""
    if not isinstance(value, dict) or not value:
        return value
    kind, inner = next(iter(value.items()))
    if kind == "intValue":
        return int(inner) if str(inner).lstrip("-").isdecimal() else None
    if kind == "arrayValue":
        return [_value(each) for each in _objects(_object(inner).get("values"))]
    if kind == "kvlistValue":
        return _attributes(_object(inner).get("values"))
    return inner


def _choice_events(span: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The output messages that a span keeps as events: its own, or a list of them in an attribute."""
    own = [each for each in _objects(span.get("events")) if each.get("name") == _CHOICE_EVENT]
    kept = map(_attributes, (each.get("attributes") for each in own))
    contents = (_structure(fields.get("gen_ai.event.content", fields)) for fields in kept)
    listed = _objects(_structure(found.get("events")))
    for event in (*contents, *(each for each in listed if each.get("event.name") == _CHOICE_EVENT)):
        message = _structure(_object(event).get("message", _object(event).get("content")))
        if message is not None:
            said = message if isinstance(message, dict) else {"content": message}
            yield {**said, "finish_reason": _object(event).get("finish_reason")}


def _answer(found: Mapping[str, Any], events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The answer, as fields of a plain row; none where the span kept no text. Each output message, and each
    number of attributes, is a choice: several are those of a response body."""
    value = _first(found, _OUTPUTS)
    if value is None and events:
        choices = _message_choices(list(events))
    else:
        choices = _numbered_choices(found) if value is None else _message_choices(_structure(value))
    reasons = _reasons(found.get(_FINISH))
    if len(reasons) == len(choices):
        choices = [{**each, "finish_reason": reason} for each, reason in zip(choices, reasons, strict=True)]
    if len(choices) > 1:
        return {"response": {"choices": [_as_choice(each) for each in choices]}}
    return choices[0] if choices else {"finish_reason": reasons[0]} if len(reasons) == 1 else {}


def _as_choice(answer: Mapping[str, Any]) -> dict[str, Any]:
    thought = answer.get("reasoning_content")
    calls = {_CALLS: answer[_CALLS]} if _CALLS in answer else {}
    return {
        "message": {"content": answer.get("response", ""), "reasoning_content": thought, **calls},
        "finish_reason": answer.get("finish_reason"),
    }


def _reasons(value: Any) -> list[Any]:
    if isinstance(value, str):
        value = _json(value) if value.startswith("[") else [value]
    return list(value) if isinstance(value, list | tuple) else []


def _message_choices(messages: Any) -> list[dict[str, Any]]:
    """The answers that output messages hold, as fields of plain rows."""
    several = messages if isinstance(messages, list | tuple) else [messages]
    if not all(isinstance(each, dict) for each in several):
        text = _joined(_pieces(messages))
        return [] if text is None else [{"response": text}]
    found = []
    for each in several:
        thought = find_reasoning(each) or join_reasoning(each.get("parts"))
        fields = {
            "response": _joined(_pieces(each)),
            "reasoning_content": thought or None,
            "finish_reason": each.get("finish_reason"),
        }
        called = {_CALLS: _CALLED} if _holds_calls(each) else {}
        found.append({key: value for key, value in fields.items() if isinstance(value, str)} | called)
    return [each for each in found if "response" in each or "reasoning_content" in each]


def _numbered_choices(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The answers in numbered attributes, as fields of plain rows."""
    prefixes = (prefix.format(n) for prefix in _COMPLETIONS for n in range(_MOST_NUMBERED))
    return [each for prefix in prefixes if (each := _numbered_choice(found, prefix))]


def _numbered_choice(found: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    kept = {key: value for key, value in found.items() if key.startswith(prefix) and isinstance(value, str)}
    numbers = range(_MOST_NUMBERED)
    texts = ("content", *(_CONTENTS.format(n) for n in numbers))
    calls = (name.format(n) for n in numbers for name in _ARGUMENTS)
    said, called = (
        [text for name in names if (text := kept.get(prefix + name)) is not None] for names in (texts, calls)
    )
    parts = said + called
    thought = "".join(kept.get(prefix + name, "") for name in _THOUGHTS)
    fields: dict[str, Any] = {
        "response": "".join(parts) if parts else None,
        "reasoning_content": thought or None,
        _CALLS: _CALLED if called else None,
        "finish_reason": kept.get(prefix + "finish_reason"),
    }
    answered = bool(parts or thought)
    return {key: value for key, value in fields.items() if value is not None} if answered else {}


def _prompt(found: Mapping[str, Any]) -> Any:
    """The turns of the prompt, or its text; None where the span kept neither."""
    value = _first(found, _INPUTS)
    if value is None:
        numbered = (prefix.format(n) for prefix in _PROMPTS for n in range(_MOST_NUMBERED))
        turns = [
            {"role": found.get(prefix + "role"), "content": content}
            for prefix in numbered
            if isinstance(content := found.get(prefix + "content"), str)
        ]
        return turns or None
    value = _structure(value)
    if isinstance(value, list | tuple) and all(isinstance(each, dict) for each in value):
        return [{"role": each.get("role"), "content": _joined(_pieces(each))} for each in value]
    return _joined(_pieces(value))


def _has_called(found: Mapping[str, Any]) -> bool:
    """Whether turns of the prompt call tools: their arguments are then part of its text."""
    beginnings = tuple(prefix.partition("{")[0] for prefix in _PROMPTS)
    numbered = any(key.startswith(beginnings) and f".{_CALLS}." in key for key in found)
    return numbered or _holds_calls(_structure(_first(found, _INPUTS)))


def _joined(parts: Iterator[str]) -> str | None:
    """None for no parts."""
    found = list(parts)
    return "\n".join(found) if found else None


def _structure(value: Any) -> Any:
    """Messages that are given as JSON text, decoded; anything else as it is."""
    is_json = isinstance(value, str) and value.lstrip().startswith(("[", "{"))
    return _json(value) or value if is_json else value


def _pieces(value: Any) -> Iterator[str]:
    """Texts of a message: a string, {"content": …}, {"parts": [{"type": "text", "content": …}]}, and the
    arguments of calls among its parts or beside its content."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _pieces(each)
    elif is_tool_call(value):
        yield from filter(None, [arguments(value)])
    elif isinstance(value, dict) and value.get("type", "text") == "text":
        key = next((key for key in ("parts", "content", "text") if value.get(key) is not None), None)
        yield from _pieces(value[key]) if key else ()
        beside = message_arguments({**value, "content": None})
        yield from filter(None, [beside])


def _holds_calls(message: Any) -> bool:
    """Whether a message, or a list of them, calls a tool."""
    if isinstance(message, list | tuple):
        return any(map(_holds_calls, message))
    if not isinstance(message, dict):
        return False
    parts = message.get("parts")
    return has_calls(message) or has_tool_call(list(parts) if isinstance(parts, list | tuple) else None)


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None


FORMAT = Envelope("OpenTelemetry spans", _recognises, _unwrapped)
