"""Values that no server writes, in every field of every log format: a damaged line at most."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from stresstest.records import FieldMapping, UnreadableError, read_chunks
from stresstest.records.formats.registry import parse_line

_CHAT: dict[str, Any] = {
    "id": "c",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Hello.",
                "reasoning_content": "hm",
                "tool_calls": None,
            },
            "finish_reason": "stop",
            "logprobs": {
                "content": [
                    {
                        "token": "Hello",
                        "logprob": -0.1,
                        "bytes": [72],
                        "top_logprobs": [{"token": "Hello", "logprob": -0.1, "bytes": [72]}],
                    }
                ]
            },
            "token_ids": [1, 2],
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    "created": 1,
}
_SPAN = {
    "traceId": "a",
    "spanId": "b",
    "name": "chat",
    "startTimeUnixNano": "1",
    "endTimeUnixNano": "2",
    "attributes": [
        {"key": "gen_ai.request.model", "value": {"stringValue": "m"}},
        {
            "key": "gen_ai.output.messages",
            "value": {"stringValue": '[{"role":"assistant","parts":[{"type":"text","content":"hi"}]}]'},
        },
        {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "5"}},
    ],
}
ROWS: dict[str, dict[str, Any]] = {
    "plain": {
        "id": "a",
        "response": "Hello.",
        "finish_reason": "stop",
        "max_tokens": 5,
        "completion_tokens": 2,
        "start": 1.5,
        "end": "2026-01-01T00:00:00Z",
        "first_token": 2,
        "model": "m",
        "prompt": "p",
    },
    "chat": _CHAT,
    "batch": {"custom_id": "x", "response": {"status_code": 200, "body": _CHAT}, "error": None},
    "responses": {
        "id": "r",
        "object": "response",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "hi"}]}],
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "usage": {"input_tokens": 1, "output_tokens": 2},
    },
    "litellm": {
        "standard_logging_object": {
            "id": "i",
            "messages": [{"role": "user", "content": "q"}],
            "response": _CHAT,
            "model_parameters": {"max_tokens": 3},
            "startTime": 1.0,
            "endTime": 2.0,
        }
    },
    "vllm": {"prompt": "p", "outputs": [{"text": "yo", "token_ids": [1, 2], "finish_reason": "length"}]},
    "otlp": {"resourceSpans": [{"scopeSpans": [{"spans": [_SPAN]}]}]},
}
HOSTILE: tuple[Any, ...] = (
    *(None, True, -1, 2**63, 10**400, 1e308, float("nan"), float("inf"), "", "9" * 5000, "²", "1e400"),
    *("0001-01-01T00:00:00+23:59", [], {}, [None], {"a": None}, [1, "a", {}], {"text": 5}, "\ud800", b"x"),
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _paths(inner, (*path, key))


def _with(value: Any, path: tuple[Any, ...], hostile: Any) -> Any:
    if not path:
        return hostile
    changed = copy.copy(value)
    changed[path[0]] = _with(value[path[0]], path[1:], hostile)
    return changed


@pytest.mark.slow
@pytest.mark.parametrize("form", ROWS)
def test_a_row_with_any_value_is_an_answer_or_damaged(form: str) -> None:
    """One such line ended the scan of all others with a traceback."""
    for path in list(_paths(ROWS[form]))[1:]:
        for hostile in HOSTILE:
            row = _with(ROWS[form], path, hostile)
            for mapped in (FieldMapping({}, ("model", "max_tokens", "a.0.b")), FieldMapping({}, (), True)):
                with suppress(UnreadableError):
                    parse_line(row, "log", 1, mapped)


class _CountedRow(dict[str, Any]):
    """A row that counts how often the whole of it is written out."""

    written = 0

    def __repr__(self) -> str:
        self.written += 1
        return super().__repr__()


@pytest.mark.parametrize("key", ["choices", "generations", "outputs"])
def test_a_row_is_named_once_however_many_answers_it_holds(key: str) -> None:
    """The name is made of the whole row: made anew for each answer, a line of 1.6 MB took minutes."""
    answer = {"text": "ok", "finish_reason": "stop"}
    row = _CountedRow({key: [answer] * 500})
    assert len(parse_line(row, "log", 1, FieldMapping())) == 500
    assert row.written == 1


def test_a_number_too_long_for_python_is_damage(tmp_path: Path) -> None:
    """In an array as in a line: 5,000 digits are no JSON that anybody can read."""
    long = "1" * 5000
    path = tmp_path / "a.json"
    path.write_text(f'[{{"response": "a", "n": {long}}}]')
    assert [line.reason[:7] for chunk in read_chunks(str(path)) for line in chunk.damaged] == ["the JSO"]
    with pytest.raises(UnreadableError, match="not a token count"):
        parse_line(json.dumps({"response": "a", "max_tokens": long}).encode(), "log", 1, FieldMapping())
