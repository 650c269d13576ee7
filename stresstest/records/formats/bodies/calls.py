"""Calls of tools in recorded answers: the model writes their arguments, so that they can fail as any text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from stresstest.model.texts.json_escapes import without_json_escapes

ONLY_TOOL_CALLS = "only tool calls, no text"
_CALL_ENDINGS = ("tool_use", "_call", "tool_request", "tool_invocation", "mcp_approval_request")
"""`tool_use` and `mcp_tool_use`, `function_call`, `web_search_call`, `shell_call`, …: not their `_output`.
Vercel's AI SDK writes `tool-call` and `tool-invocation`, pi `toolCall`, goose `toolRequest`."""
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])|-")
_LONGEST_KIND = 64
_LISTS = ("tool_calls", "toolCalls")
"""Where a message keeps its calls; the latter in Gemini CLI's sessions."""
_CALL_KEYS = ("tool_call", "toolUse", "toolCall", "functionCall", "function_call")
"""Of parts without a type (Bedrock's Converse, Haystack, Gemini), and within LibreChat's."""
_INNER = ("function", "custom", "server_tool_call", "toolInvocation", *_CALL_KEYS)
_WRITTEN = (
    "arguments",
    "args",
    "tool_args",
    "input",
    "code",
    "action",
    "operation",
    "queries",
    "partial_json",
)
"""Where the kinds of calls keep what the model wrote. LangChain keeps a streamed answer's as `partial_json`,
beside an empty `input`."""
_MADE = ("arguments", "args", "tool_args")
_PARTED = ("content", "parts")
"""Where a message has parts; Vercel's AI SDK keeps them beside a text."""
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
    return isinstance(kind, str) and _HUMPS.sub("_", kind[:_LONGEST_KIND]).lower().endswith(_CALL_ENDINGS)


def has_calls(message: Mapping[str, Any]) -> bool:
    """Whether a message calls a tool: by `tool_calls`, the older `function_call`, or a part of it."""
    listed = any(message.get(name) for name in (*_LISTS, "function_call")) or any(
        map(_is_made, _tools(message))
    )
    return listed or any(has_tool_call(message.get(name)) for name in _PARTED)


def _tools(message: Mapping[str, Any]) -> list[Any]:
    found = message.get("tools")
    return found if isinstance(found, list) else []


def _is_made(tool: Any) -> bool:
    """Whether one of a message's `tools` is a call (LobeChat's, Agno's), not the offer of a tool."""
    return isinstance(tool, dict) and any(isinstance(tool.get(key), str | dict) for key in _MADE)


def message_arguments(message: Mapping[str, Any]) -> str:
    """The arguments of a message's calls, in order and without anything between, as a stream brings them."""
    held = [value for name in _PARTED if isinstance(value := message.get(name), list)]
    listed = [value for name in _LISTS if isinstance(value := message.get(name), list)]
    listed.append([tool for tool in _tools(message) if _is_made(tool)])
    kept = [*map(parts_arguments, held), *("".join(map(arguments, calls)) for calls in listed)]
    return max(kept, key=len, default="") + arguments(message.get("function_call"))  # the same, kept twice


def parts_arguments(parts: Sequence[Any]) -> str:
    """The arguments of the calls among an answer's parts."""
    return "".join(arguments(part) for part in parts if is_tool_call(part))


def arguments(call: Any) -> str:
    """What the model wrote for a call; "" where there is nothing. Objects are written as JSON again."""
    if not isinstance(call, dict):
        return ""
    inner = next((call[key] for key in _INNER if isinstance(call.get(key), dict)), call)
    inner = inner["value"] if isinstance(inner.get("value"), dict) else inner  # goose's
    written = [inner[key] for key in _WRITTEN if inner.get(key) is not None]
    written = written or [inner.get("parameters")]  # as Llama 3.1 was trained to write
    given = next(filter(None, written), written[0])
    if isinstance(given, str):
        return without_json_escapes(given)
    try:
        return json.dumps(given, ensure_ascii=False, default=str) if isinstance(given, dict | list) else ""
    except (RecursionError, TypeError, ValueError):
        return ""


def is_nothing(text: str) -> bool:
    """Whether arguments hold nothing to judge: none, or an empty object."""
    return text.strip() in _NOTHING
