"""The lines of vLLM's request log, one by one: requests, answers and the pieces of their streams, counts."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

import msgspec

from stresstest.records.formats.fields import TEXTLESS
from stresstest.records.formats.vllm_log.clock import LogClock
from stresstest.records.record import UnreadableError

ANSWERED, RECEIVED, DETAILS = b"Generated response ", b"Received request ", b" details: prompt: "
LENGTH = b"max_log_len"
MARKS = (ANSWERED, RECEIVED, DETAILS, LENGTH)
"""What a line that is read has in it. The first of them says what the line is."""
MESSAGES = ("message", "msg", "log", "event")
"""Where a log of JSON lines has its text."""
_MOMENTS = ("timestamp", "asctime", "time", "ts", "@timestamp")

_BEGINNING = ANSWERED.decode()
_ID = r"(?P<id>(?:(?!: )[^'\"#]){1,200}?)"
"""It may be the client's own (X-Request-Id), and must not imitate the rest of its line."""
_ANSWER = re.compile(rf"Generated response {_ID}(?P<stream> \(streaming (?:delta|complete)\))?: output: ")
_COUNTED = re.compile(rf"Generated response {_ID} details: output_token_ids: (?P<ids>None|\[[^\]]*\])")
_REASON_AT, _IDS_AT, _PROMPT_AT = ", finish_reason: ", ", output_token_ids: ", "prompt: "
_REASON = re.compile(r"[\w.-]+\s*")
_IDS = re.compile(r"None|\[[^\]]*\]")
_REQUEST = re.compile(rf"Received request {_ID}: (?=prompt: |params: )")
_DETAILED = re.compile(rf"Request {_ID} details: (?=prompt: )")
_QUOTED = re.compile(r"'[^'\\]*(?:\\.[^'\\]*)*'|\"[^\"\\]*(?:\\.[^\"\\]*)*\"")
_CAP = re.compile(r"\bmax_tokens=(\d{1,12})\b")
_GENERATES = re.compile(r"params: (?:Sampling|BeamSearch)Params\((?:n=(\d{1,5})\b)?")
_CALLED = "[tool_calls: "
"""How calls of tools are written, in the place of a text."""
_ARGUMENTS = re.compile(r"\bargs: (?:Namespace\(|\{)")
_LOG_LENGTH = re.compile(r"\bmax_log_len['\"]?[=:] ?(\d{1,12})\b")
"""In the line of the server's arguments alone: a path in the access log may have the same words."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a line tells of a request. answers: how many it asks for; None where the line does not say that it
    generates text."""

    id: str
    prompt: str | None = None
    max_tokens: int | None = None
    answers: int | None = None


def kind_of(text: str) -> bytes | None:
    """What the line is: the mark that comes first, since a prompt may quote a line of the log."""
    found = [(place, mark) for mark in MARKS if (place := text.find(mark.decode())) >= 0]
    return min(found)[1] if found else None


def read_request(text: str, kind: bytes | None) -> Request | None:
    """A request, from the line that it came with or from its details; None for another line.

    Raises UnreadableError where the prompt is cut.
    """
    received = kind != DETAILS
    match = (_REQUEST if received else _DETAILED).search(text)
    if match is None:
        return None
    end = match.end()
    quoted = _QUOTED.match(text, end + len(_PROMPT_AT)) if text.startswith(_PROMPT_AT, end) else None
    if quoted:
        end = quoted.end()
    cap = _CAP.search(_QUOTED.sub("''", text[end:]))  # a client's `stop` is quoted before it
    generates = _GENERATES.search(text, end) if received else None
    return Request(
        match["id"],
        _unquoted(quoted[0]) if quoted else None,
        int(cap[1]) if cap else None,
        int(generates[1] or 1) if generates else None,
    )


def read_count(text: str) -> tuple[str, int] | None:
    """The id of an answer and how many tokens it has, which `--log-level DEBUG` writes before the answer."""
    match = _COUNTED.match(text, text.find(_BEGINNING))
    return (match["id"], _count_ids(match["ids"])) if match else None


def read_log_length(text: str) -> int | None:
    """The characters of a text that the log keeps, from the line of the server's arguments."""
    arguments = _ARGUMENTS.search(text)
    match = _LOG_LENGTH.search(text, arguments.end()) if arguments else None
    return int(match[1]) if match else None


def read_message(line: bytes, clock: LogClock) -> tuple[str, float | str | None]:
    """The line's text, or the message in it where the log was configured to write JSON; and its time."""
    if line.lstrip().startswith(b"{"):
        try:
            row = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            raise UnreadableError("a line of the log that is not JSON") from None
        found = [row[key] for key in MESSAGES if isinstance(row, dict) and isinstance(row.get(key), str)]
        times = [row[key] for key in _MOMENTS if isinstance(row, dict) and row.get(key)]
        known = times[0] if times and isinstance(times[0], str | float | int) else None
        return (found[0] if found else ""), known
    text = line.decode("utf-8", "replace")
    return text, clock.read(text)


def read_answer(line: str) -> tuple[dict[str, Any], bool]:
    """A logged answer as a plain row, and whether it is only a piece of a stream. Raises UnreadableError.

    The line is read from both its ends, as the text between may look like any part of it.
    """
    match = _ANSWER.match(line, max(line.find(_BEGINNING), 0))
    end = line.rfind(_REASON_AT)
    reason = _REASON.fullmatch(line, end + len(_REASON_AT)) if end >= 0 else None
    if match is None or reason is None or end < match.end():
        raise UnreadableError("a logged response that is cut or of another format")
    at = line.rfind(_IDS_AT, match.end(), end)
    ids = _IDS.fullmatch(line, at + len(_IDS_AT), end) if at >= 0 else None
    output = line[match.end() : at if ids else end]
    text = _unquoted(output)
    row: dict[str, Any] = {"id": match["id"], "response": text}
    if not text:
        row[TEXTLESS] = True  # an endpoint of token ids; an empty answer of a chat is not logged
    if text.startswith(_CALLED):
        row["tool_calls"] = [{}]  # the text holds their arguments
    ended = reason[0].rstrip()
    if ended not in ("None", "streaming_complete"):
        row["finish_reason"] = ended
    if ids and ids[0] != "None":
        row["completion_tokens"] = _count_ids(ids[0])
    return row, "delta" in (match["stream"] or "")


def _count_ids(listed: str) -> int:
    return listed.count(",") + 1 if listed.strip("[] ") else 0


def _unquoted(literal: str) -> str:
    """A Python string literal's value: what `%r` wrote. Raises UnreadableError."""
    if _QUOTED.fullmatch(literal) is None:
        raise UnreadableError("the logged text is cut")
    try:
        value = ast.literal_eval(literal)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise UnreadableError("the logged text is cut") from None
    if not isinstance(value, str):
        raise UnreadableError("no text in it")
    return value
