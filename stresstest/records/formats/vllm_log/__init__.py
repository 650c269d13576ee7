"""vLLM's own request log: what `--enable-log-requests --enable-log-outputs` writes, as text or JSON lines.

An answer is one line, ``Generated response ID: output: '…', output_token_ids: […], finish_reason: stop``
(`vllm/entrypoints/logger.py`, 0.10 and later; the token ids are missing in some). The cap is in an
earlier line, ``Received request ID: … max_tokens=…``. Streaming deltas are read where no complete line
follows, as of a client that left; with several answers to one request nobody knows whose they are.

Some answers are not in the log: vLLM writes no line of those that are nothing but reasoning, of those of the
completions endpoint, and of requests that were given up, unless they were streamed; and it cuts texts at
`--max-log-len`. All these count as answers without text.
"""

from __future__ import annotations

import re

import msgspec

from stresstest.records.formats.adapter import TextLog
from stresstest.records.formats.plain import ANSWER_KEYS
from stresstest.records.formats.vllm_log.lines import ANSWERED, MESSAGES, RECEIVED
from stresstest.records.formats.vllm_log.reader import RequestLog

_LEVEL = rb"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b"
_LOGGED = re.compile(
    rb"^.*" + _LEVEL + rb" \d\d-\d\d \d\d:\d\d:\d\d \[|^(?=.*" + _LEVEL + rb").*(?:vllm|vLLM)",
    re.MULTILINE,
)
"""vLLM's lines, whatever they say: as it writes them itself, or with its name and a level in another layout.
A text about vLLM has its name, too."""
_REQUEST_MARKS = (ANSWERED, RECEIVED)
"""What the lines of requests and answers have in them, and what an answer about vLLM may have too."""


def _recognises(head: bytes) -> bool:
    """Whether a file that begins so is vLLM's log, as text or as JSON lines."""
    if head.lstrip()[:1] in (b"{", b"["):
        return _is_json_log(head)
    return any(mark in head for mark in _REQUEST_MARKS) or _LOGGED.search(head) is not None


def _is_json_log(head: bytes) -> bool:
    """Whether a file that begins as JSON is vLLM's log written as JSON lines.

    The first whole line with a mark decides: in a log it is in the message of an object that has no
    answer of its own.
    """
    line = next((line for line in head.splitlines() if any(mark in line for mark in _REQUEST_MARKS)), b"")
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    if not isinstance(row, dict) or not ANSWER_KEYS.isdisjoint(row):
        return False
    messages = [row[key] for key in MESSAGES if isinstance(row.get(key), str)]
    return any(mark.decode() in message for message in messages for mark in _REQUEST_MARKS)


FORMAT = TextLog(
    name="vLLM request log",
    recognises=_recognises,
    reader=RequestLog,
    nothing="a vLLM log without answers: it needs --enable-log-requests --enable-log-outputs",
)
