"""Calls of tools in recorded answers: the model writes their arguments, so that they can fail as any text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

ONLY_TOOL_CALLS = "only tool calls, no text"
_CALL_ENDINGS = ("tool_use", "_call", "-call", "mcp_approval_request")
"""`tool_use` and `mcp_tool_use`, `function_call`, `web_search_call`, `shell_call`, …: not their `_output`.
Vercel's AI SDK writes `tool-call`."""
_CALL_KEYS = ("tool_call", "toolUse", "toolCall", "functionCall", "function_call")
"""Of parts without a type (Bedrock's Converse, Haystack, Gemini), and within LibreChat's."""
_INNER = ("function", "custom", "server_tool_call", *_CALL_KEYS)
_WRITTEN = (
    "arguments",
    "args",
    "input",
    "code",
    "action",
    "operation",
    "queries",
    "partial_json",
)
"""Where the kinds of calls keep what the model wrote. LangChain keeps a streamed answer's as `partial_json`,
beside an empty `input`."""
_NOTHING = frozenset({"", "{}"})


def has_tool_call(parts: Any) -> bool:
    """Whether one of an answer's parts, or items, is a call of a tool."""
    return isinstance(parts, list) and any(map(is_tool_call, parts))


def is_tool_call(part: Any) -> bool:
    """Whether a part of a content, or an item, is a call of a tool; a whole message is none."""
    if not isinstance(part, dict):
        return False
    kind = part.get("type")
    if kind is None and "role" not in part:
        return any(isinstance(part.get(key), dict) for key in _CALL_KEYS)
    return isinstance(kind, str) and kind.endswith(_CALL_ENDINGS)


def has_calls(message: Mapping[str, Any]) -> bool:
    """Whether a message calls a tool: by `tool_calls`, the older `function_call`, or a part of it."""
    return bool(message.get("tool_calls") or message.get("function_call")) or has_tool_call(
        message.get("content")
    )


def message_arguments(message: Mapping[str, Any]) -> str:
    """The arguments of a message's calls, in order and without anything between, as a stream brings them."""
    content, calls = message.get("content"), message.get("tool_calls")
    parts = parts_arguments(content if isinstance(content, list) else ())
    listed = "".join(map(arguments, calls if isinstance(calls, list) else ()))
    return max(parts, listed, key=len) + arguments(message.get("function_call"))  # the same, kept twice


def parts_arguments(parts: Sequence[Any]) -> str:
    """The arguments of the calls among an answer's parts."""
    return "".join(arguments(part) for part in parts if is_tool_call(part))


def arguments(call: Any) -> str:
    """What the model wrote for a call; "" where there is nothing. Objects are written as JSON again."""
    if not isinstance(call, dict):
        return ""
    inner = next((call[key] for key in _INNER if isinstance(call.get(key), dict)), call)
    written = [inner[key] for key in _WRITTEN if inner.get(key) is not None]
    written = written or [inner.get("parameters")]  # as Llama 3.1 was trained to write
    given = next(filter(None, written), written[0])
    if isinstance(given, str):
        return given
    try:
        return json.dumps(given, ensure_ascii=False, default=str) if isinstance(given, dict | list) else ""
    except (RecursionError, TypeError, ValueError):
        return ""


def is_nothing(text: str) -> bool:
    """Whether arguments hold nothing to judge: none, or an empty object."""
    return text.strip() in _NOTHING
