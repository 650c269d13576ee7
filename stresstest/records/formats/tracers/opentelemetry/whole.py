"""Answers that a span keeps whole: the response body, or what the client returned.

OpenInference writes the body into `output.value`; its numbered attributes leave reasoning and broken calls
out. Langfuse's spans have an observation's output, of the kinds that its exports have. Vercel's AI SDK keeps
text, object and calls apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stresstest.records.formats.bodies.bare import as_body
from stresstest.records.formats.bodies.calls import parts_arguments
from stresstest.records.formats.tracers.opentelemetry.otlp import is_cut, structure

LANGFUSE = "langfuse.observation."
_OUTPUT, _KIND = "output.value", "openinference.span.kind"
_VERCEL, _VERCEL_CALLS = ("ai.response.text", "ai.response.object"), "ai.response.toolCalls"
_VERCEL_THOUGHT = "ai.response.reasoning"


def read_wholes(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The answer as fields of a plain row, for each place where the span keeps it so."""
    body = as_body(structure(found.get(_OUTPUT))) if _KIND in found else None
    if body is not None:
        yield {"response": body}
    texts = [text for key in _VERCEL if isinstance(text := found.get(key), str) and not is_cut(text)]
    calls = structure(found.get(_VERCEL_CALLS))
    thought = found.get(_VERCEL_THOUGHT)
    thoughts = {"reasoning_content": thought} if isinstance(thought, str) and thought else {}
    if texts or isinstance(calls, list) or thoughts:
        made = [{"type": "tool_call", **each} for each in calls or () if isinstance(each, dict)]
        yield {"response": "".join(texts) + parts_arguments(made), **thoughts}
    if is_langfuse(found):
        output = structure(found.get(LANGFUSE + "output"))
        said = as_body(output) if not isinstance(output, str) else None if is_cut(output) else output
        if said is not None:
            yield {"response": said}


def langfuse_fields(found: Mapping[str, Any]) -> dict[str, Any]:
    """What a Langfuse span tells beside its answer, as fields of an observation."""
    if not is_langfuse(found):
        return {}
    asked = structure(found.get(LANGFUSE + "input"))
    turns = asked.get("messages") if isinstance(asked, dict) else None
    return {
        "model": found.get(LANGFUSE + "model.name"),
        "model_parameters": structure(found.get(LANGFUSE + "model.parameters")),
        "usage": structure(found.get(LANGFUSE + "usage_details")),
        "finish_reason": _word(found.get(LANGFUSE + "metadata.finish_reason")),
        "prompt": asked if turns is None else turns,
        "tools": asked.get("tools") if isinstance(asked, dict) else None,
    }


def is_langfuse(found: Mapping[str, Any]) -> bool:
    """Whether these are the attributes of a Langfuse generation."""
    return str(found.get(LANGFUSE + "type")).lower() == "generation"


def _word(value: Any) -> Any:
    """A word that is kept as JSON, without its quotes."""
    return value.strip('"') if isinstance(value, str) else value
