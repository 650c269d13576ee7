"""Langfuse's observations, alone or in their trace: each generation is an answer. What the application, its
tools and its retrievers said is none.

Its API gives input, output and parameters as they were stored, which is JSON as a text.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stresstest.records.formats.adapter import Envelope, Row
from stresstest.records.formats.bodies.bare import as_body
from stresstest.records.formats.json_values import as_object
from stresstest.records.formats.tracers.opentelemetry.messages import as_choice, read_messages
from stresstest.records.formats.tracers.opentelemetry.otlp import first, structure
from stresstest.records.record import FieldMapping

_GENERATION = "GENERATION"
_OTHERS = frozenset(
    {"SPAN", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL"}
)
_TRACE_IDS = ("traceId", "trace_id")


def _recognises(row: Row, mapped: FieldMapping) -> bool:
    return "response" not in mapped.fields and (_is_observation(row) or bool(_generations(row)))


def _unwrapped(row: Row, _mapped: FieldMapping) -> list[Row]:
    """The generations as plain rows; none of another observation."""
    if not _is_observation(row):
        return list(map(_plain, _generations(row)))
    return [_plain(row)] if _is_generation(row) else []


def _is_observation(row: Row) -> bool:
    return _kind(row) in (_GENERATION, *_OTHERS) and any(key in row for key in _TRACE_IDS)


def _generations(row: Row) -> list[Row]:
    held = row.get("observations")
    return [each for each in held if _is_generation(each)] if isinstance(held, list) else []


def _is_generation(observation: Any) -> bool:
    return _kind(observation) == _GENERATION


def _kind(observation: Any) -> str:
    return str(observation.get("type")).upper() if isinstance(observation, dict) else ""


def _plain(observation: Row) -> Row:
    asked = structure(first(observation, ("modelParameters", "model_parameters")))
    counted = as_object(first(observation, ("usageDetails", "usage_details"))).get("output")
    more = {
        "input": structure(observation.get("input")),
        "model": first(observation, ("model", "provided_model_name", "providedModelName")),
        "completion_tokens": observation.get("completion_tokens", counted),
        "model_parameters": asked if isinstance(asked, dict) else None,
    }
    named = {key: value for key, value in more.items() if value is not None}
    return {**observation, **named, "output": _output(observation.get("output"))}


def _output(value: Any) -> Any:
    """The body or the message that is kept as JSON text, or the text that is; what else a model writes as
    JSON stays as it is."""
    found = structure(value)
    if _has_parts(found):
        return {"object": "chat.completion", "choices": list(map(as_choice, read_messages(found)))}
    if not isinstance(value, str):
        return value
    if not isinstance(found, str):
        return found if as_body(found) else value
    if value[:1] == value[-1:] == '"':
        try:
            return msgspec.json.decode(value, type=str)
        except msgspec.DecodeError:
            return value
    return value


def _has_parts(value: Any) -> bool:
    """Whether these are output messages of the GenAI conventions."""
    listed = value if isinstance(value, list) else []
    return bool(listed) and all(isinstance(each, dict) and "parts" in each for each in listed)


FORMAT = Envelope("Langfuse observation", _recognises, _unwrapped)
