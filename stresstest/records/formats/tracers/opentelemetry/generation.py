"""One span, or one log record, as a plain row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from stresstest.records.formats.adapter import Row
from stresstest.records.formats.asked import FLATTENED
from stresstest.records.formats.bodies.body import parse_answers
from stresstest.records.formats.fields import TEXTLESS
from stresstest.records.formats.json_values import as_object, objects, structure_in
from stresstest.records.formats.tracers.opentelemetry.messages import (
    as_choice,
    event_messages,
    holds_calls,
    is_choice,
    read_messages,
    read_prompt,
)
from stresstest.records.formats.tracers.opentelemetry.numbered import (
    numbered_calls,
    numbered_choices,
    numbered_turns,
)
from stresstest.records.formats.tracers.opentelemetry.otlp import (
    attributes,
    first,
    is_cut,
    seconds,
    structure,
)
from stresstest.records.formats.tracers.opentelemetry.whole import (
    LANGFUSE,
    is_langfuse,
    langfuse_fields,
    read_wholes,
)
from stresstest.records.record import UnreadableError

OPERATION = "gen_ai.operation.name"
_MARKS = (
    *("gen_ai.", "llm.usage.", "llm.output_messages.", "llm.token_count.", "llm.invocation_parameters"),
    LANGFUSE,
)
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
_FINISH = ("gen_ai.response.finish_reasons", "llm.finish_reason", "ai.response.finishReason")
_CHOICES, _MOST_CHOICES = "gen_ai.request.choice.count", 16
_FIRST_TOKEN = ("gen_ai.latency.time_to_first_token", "gen_ai.response.time_to_first_token")
"""Seconds after the span's start."""
_OUTPUTS = ("gen_ai.output.messages", "gen_ai.completion")
_ANSWERS = (*_OUTPUTS, "llm.output_messages.", "llm.choices.", LANGFUSE + "output")
_INPUTS = ("gen_ai.input.messages", "gen_ai.prompt", "ai.prompt.messages")
_START, _END = ("startTimeUnixNano", "start_time"), ("endTimeUnixNano", "end_time")
_KIND = "openinference.span.kind"


@dataclass(frozen=True, slots=True)
class Generation:
    """A span that may be one of a generation, as a plain row. attributes: the span's own, decoded. choices:
    how many answers it has, as far as it tells."""

    row: Row
    span: Mapping[str, Any]
    attributes: Mapping[str, Any]
    choices: int = 1

    @property
    def operation(self) -> Any:
        """What the span says that it is of; None where it does not."""
        return self.attributes.get(OPERATION)

    @property
    def is_model_call(self) -> bool:
        """Whether a tracer marks it as a call of a model, or it is the event of an answer."""
        kind = self.attributes.get(_KIND)
        return kind is not None or is_langfuse(self.attributes) or is_choice(self.span)


def has_marks(given: Any) -> bool:
    """Whether the attributes of a span, as they are written, have names of generations among them."""
    if isinstance(given, dict):
        return any(str(key).startswith(_MARKS) for key in given)
    return any(str(each.get("key")).startswith(_MARKS) for each in objects(given))


def read_generation(span: Mapping[str, Any], writer: str = "") -> Generation | None:
    """One span as a plain row; None for a span that is not of a model. writer: the service and the library
    that it is of."""
    own = found = attributes(span.get("attributes"))
    if not has_marks(own):
        return None
    if own.get(_KIND, "LLM") != "LLM" or (LANGFUSE + "type" in own and not is_langfuse(own)):
        return None
    messages = event_messages(span, found)
    for event in objects(span.get("events")):
        found = {**attributes(event.get("attributes")), **found}
    start, token = seconds(first(span, _START)), first(found, _FIRST_TOKEN)
    reasons = _reasons(first(found, _FINISH)) or [each["finish_reason"] for each in messages]
    row = {
        "trace_id": span.get("traceId")
        or as_object(span.get("context")).get("trace_id")
        or span.get("trace_id"),
        "span_writer": f"{writer} {span.get('name', '')}",
        "id": first(found, _IDS) or span.get("spanId") or _context(span),
        "model": first(found, _MODELS),
        "max_tokens": first(found, _CAPS),
        "prompt_tokens": first(found, _PROMPT_TOKENS),
        "completion_tokens": first(found, _OUTPUT_TOKENS),
        "start": start,
        "end": seconds(first(span, _END)),
        "prompt": _prompt(found),
        "invocation_params": structure(found.get("llm.invocation_parameters")),
        FLATTENED: _has_called(found) or None,
        TEXTLESS: _is_cut_at_a_length(found) or None,
        **{key: value for key, value in langfuse_fields(found).items() if value is not None},
        **_answer(found, messages, reasons),
    }
    if isinstance(token, int | float) and isinstance(start, float):
        row["first_token"] = start + token
    row = {key: value for key, value in row.items() if value is not None}
    return Generation(row, span, own, _choice_count(own, reasons))


def _is_cut_at_a_length(found: Mapping[str, Any]) -> bool:
    """Whether the answer is as long as an attribute of JSON that was cut: all are cut at one length."""
    lengths = {len(value) for value in found.values() if is_cut(value)}
    texts = (value for key, value in found.items() if key.startswith(_ANSWERS) and isinstance(value, str))
    return bool(lengths) and any(len(text) in lengths and not is_cut(text) for text in texts)


def _context(span: Mapping[str, Any]) -> Any:
    """The id of a span or a log record that an SDK printed."""
    return as_object(span.get("context")).get("span_id") or span.get("span_id")


def _answer(
    found: Mapping[str, Any], events: Sequence[dict[str, Any]], reasons: Sequence[Any]
) -> dict[str, Any]:
    """The answer, as fields of a plain row; none where the span kept no text. Each output message, and each
    number of attributes, is a choice: several are those of a response body.

    Tracers keep an answer in several places, and leave something out in most of them: the fullest is taken.
    """
    wholes = [*read_wholes(found), *(_chosen(each, reasons) for each in _choices(found, events))]
    answer = max(wholes, key=_size, default={})
    return {"finish_reason": reasons[0], **answer} if len(reasons) == 1 else answer


def _chosen(choices: list[dict[str, Any]], reasons: Sequence[Any]) -> dict[str, Any]:
    if len(reasons) == len(choices):
        choices = [{**each, "finish_reason": reason} for each, reason in zip(choices, reasons, strict=True)]
    return choices[0] if len(choices) == 1 else {"response": {"choices": list(map(as_choice, choices))}}


def _choices(found: Mapping[str, Any], events: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The answers in each place that keeps some."""
    value = first(found, _OUTPUTS)
    if value is not None and not is_cut(value):
        yield from filter(None, [read_messages(structure(value))])
    yield from filter(None, [read_messages(list(events)), numbered_choices(found)])


def _size(answer: Mapping[str, Any]) -> int:
    """Characters of the texts in it."""
    said = answer["response"]
    if isinstance(said, str):
        return len(said) + len(answer.get("reasoning_content", ""))
    with suppress(UnreadableError):
        return sum(len(each.text) + len(each.reasoning) for each in parse_answers(said))
    return 0


def _reasons(value: Any) -> list[Any]:
    if isinstance(value, str):
        value = structure_in(value) if value.startswith("[") else [value]
    return list(value) if isinstance(value, list | tuple) else []


def _choice_count(found: Mapping[str, Any], reasons: Sequence[Any]) -> int:
    asked = found.get(_CHOICES)
    return min(max(1, len(reasons), asked if isinstance(asked, int) else 1), _MOST_CHOICES)


def _prompt(found: Mapping[str, Any]) -> Any:
    """The turns of the prompt, or its text; None where the span kept neither."""
    value = first(found, _INPUTS)
    return numbered_turns(found) or None if value is None else read_prompt(value)


def _has_called(found: Mapping[str, Any]) -> bool:
    """Whether turns of the prompt call tools: their arguments are then part of its text."""
    return numbered_calls(found) or holds_calls(structure(first(found, _INPUTS)))
