"""Which spans count as generations: several may tell of the same one, and some wrap others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from stresstest.records.formats.json_values import as_object
from stresstest.records.formats.tracers.opentelemetry.generation import Generation

_AGENT, _CLIENT = "invoke_agent", (3, "SPAN_KIND_CLIENT", "SpanKind.CLIENT")
"""An agent's span wraps generations of its process; of a client's kind it is a remote agent's answer."""
_NO_GENERATION = frozenset(
    {"embeddings", "execute_tool", "create_agent", "invoke_workflow", "retrieval", "execute_event_loop_cycle"}
)
"""Operations of spans that hold no generation, or that only wrap spans of their own. A cycle of Strands
Agents repeats the message of the call within it, where that called a tool."""
_GENERATIONS = frozenset({"chat", "text_completion", "generate_content", "responses", "completion"})
_SERVERS = "llm_request"
"""Name of vLLM's own spans: beside a client's, the same generations."""
_ERRORS = (2, "STATUS_CODE_ERROR", "ERROR")
_LOGFIRE = frozenset({"logfire.span_type", "request_data"})
"""Logfire's own spans: the answer of a stream is in a log, and the span of its request has no answer's id."""


def is_beside(found: Generation, shared: bool, parents: Collection[Any]) -> bool:
    """Whether a span holds no generation, or tells of those that others tell of: vLLM's own, where a client
    has one, that of an agent in the same process, and that of a stream's request.

    shared: its trace has others of them. parents: ids of the spans around those of generations.
    """
    span = found.span
    if found.operation in _NO_GENERATION:
        return True
    if found.operation == _AGENT:
        return span.get("kind") not in _CLIENT or span.get("spanId") in parents
    if found.operation not in (None, *_GENERATIONS) and span.get("spanId") in parents:
        return True
    if "response" in found.row:
        return False
    told = found.attributes
    if told.keys() >= _LOGFIRE and "gen_ai.response.id" not in told and not _has_failed(span):
        return True
    return span.get("name") == _SERVERS and (shared or bool(span.get("parentSpanId")))


def _has_failed(span: Mapping[str, Any]) -> bool:
    status = as_object(span.get("status"))
    return status.get("code", status.get("status_code")) in _ERRORS


def has_generated(found: Generation, parents: Collection[Any]) -> bool:
    """Whether a span without text is one of a generation, not one that wraps others."""
    unnamed_agent = found.operation is None and "gen_ai.agent.name" in found.attributes
    wraps = found.span.get("spanId") in parents or unnamed_agent
    counted = found.row.get("completion_tokens") is not None
    return found.operation in _GENERATIONS or ((counted or found.is_model_call) and not wraps)
