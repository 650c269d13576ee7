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

import ast
import itertools
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from stresstest.records.formats.adapter import TextLog
from stresstest.records.formats.fields import TEXTLESS
from stresstest.records.formats.plain import ANSWER_KEYS
from stresstest.records.record import UnreadableError

_REMEMBERED = 20_000
"""Requests whose answers may still come; the oldest counts as never answered."""

_MAX_PROMPTS = 64 << 20
"""Bytes of the prompts of requests that wait for answers; the oldest prompts are forgotten."""
_MOST_CHOICES = 1_024
"""Answers to one request that are waited for."""
_MAX_PIECES, _PIECE_BYTES = 64 << 20, 64
"""Characters of streams that have not ended, and what a piece takes beside them. The oldest are forgotten."""

_ANSWERED = "Generated response "
_ANSWER = re.compile(
    r"Generated response (?P<id>.{1,200}?)(?P<stream> \(streaming (?:delta|complete)\))?: output: "
)
_COUNTED = re.compile(
    r"Generated response (?P<id>.{1,200}?) details: output_token_ids: (?P<ids>None|\[[^\]]*\])"
)
"""With `--log-level DEBUG`, before the answer."""
_REASON_AT, _IDS_AT, _PROMPT_AT = ", finish_reason: ", ", output_token_ids: ", "prompt: "
_REASON = re.compile(r"[\w.-]+\s*")
_IDS = re.compile(r"None|\[[^\]]*\]")
_REQUEST = re.compile(r"Received request (?P<id>.{1,200}?): (?=prompt: |params: )")
_DETAILS = re.compile(r"Request (?P<id>.{1,200}?) details: prompt: ")
_QUOTED = re.compile(r"'[^'\\]*(?:\\.[^'\\]*)*'|\"[^\"\\]*(?:\\.[^\"\\]*)*\"")
_CAP = re.compile(r"\bmax_tokens=(\d+)")
_GENERATES = re.compile(r"params: (?:Sampling|BeamSearch)Params\((?:n=(\d{1,5})\b)?")
_THOUGHT = re.compile(r"\[reasoning: (.*)\]", re.DOTALL)
"""How a piece of reasoning is written."""
_CALLED = "[tool_calls: "
"""How calls of tools are written, in the place of a text."""
_LOG_LENGTH = re.compile(r"max_log_len['\"]?[=:] ?(\d+)")
_MESSAGES = ("message", "msg", "log", "event")
_MOMENTS = ("timestamp", "asctime", "time", "ts", "@timestamp")
_STAMP = re.compile(r"\b(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)\b")
"""In vLLM's prefix, ``INFO 11-21 20:00:00 [logger.py:40]``."""
_HEAD = 96
_LEAP_YEAR = 2024

_PREFIX = re.compile(
    rb"^(?:\(\w+ pid=\d+\) )?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[", re.MULTILINE
)
"""How vLLM's text lines begin, whatever they say."""
_REQUEST_MARKS = (b"Generated response ", b"Received request ")
"""What the lines of requests and answers have in them, and what an answer about vLLM may have too."""
_LINES = (b"Generated response ", b"Received request ", b" details: prompt: ", b"max_log_len")
"""What a line that is read has in it. The first of them says what the line is."""
_MARKS = (*_REQUEST_MARKS, b" vLLM ", b"vllm")


def _recognises(head: bytes) -> bool:
    """Whether a file that begins so is vLLM's log, as text or as JSON lines."""
    if head.lstrip()[:1] in (b"{", b"["):
        return _is_json_log(head)
    return any(mark in head for mark in _MARKS) or _PREFIX.search(head) is not None


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
    messages = [row[key] for key in _MESSAGES if isinstance(row.get(key), str)]
    return any(mark.decode() in message for message in messages for mark in _REQUEST_MARKS)


@dataclass(slots=True)
class _Open:
    """A request that waits for answers. expected: how many; None where the log does not say that it generates
    text. pieces: of its stream, None where nobody can tell whose they are."""

    row: dict[str, Any]
    expected: int | None = None
    pieces: list[str] | None = field(default_factory=list)


class RequestLog:
    """Joins the lines of a request. `add_line` a line, get the answers that it tells of as plain rows.

    Clients may give several requests one id (`X-Request-Id`): each is waited for, and whose an answer is,
    nobody knows while two are open.
    """

    def __init__(self) -> None:
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._piece_size = 0
        self._prompts: OrderedDict[str, int] = OrderedDict()
        self._prompt_size = 0
        self._longest: int | None = None
        self._counted: tuple[str, int] | None = None

    def add_line(self, line: bytes) -> Iterable[dict[str, Any]]:
        """The row of an answer, the rows of an old request without answers; none for other lines.

        Raises UnreadableError.
        """
        if not any(mark in line for mark in _LINES):
            return []
        text, at = _message(line)
        found = [(place, mark) for mark in _LINES if (place := text.find(mark.decode())) >= 0]
        first = min(found)[1] if found else None  # a prompt may quote a line of the log
        if first == _LINES[-1] and (length := _LOG_LENGTH.search(text)):
            self._longest = int(length[1])
        if first != _LINES[0]:
            return self._remember(text, at, _DETAILS if first == _LINES[2] else _REQUEST)
        counted = _COUNTED.match(text, text.find(_ANSWERED))
        if counted:
            self._counted = (counted["id"], _count_ids(counted["ids"]))
            return []
        row, is_delta = _answer(text)
        if is_delta:
            self._keep_piece(row["id"], row["response"])
            return []
        if self._counted is not None and self._counted[0] == row["id"]:
            row.setdefault("completion_tokens", self._counted[1])
        self._counted = None
        if self._longest is not None and len(row["response"]) >= self._longest:
            row |= {"finish_reason": None, TEXTLESS: True}
        return [{**self._answered(row["id"]), **row, **({} if at is None else {"end": at})}]

    def unanswered(self) -> Iterator[dict[str, Any]]:
        """At the end of the log: the rows of the answers that are not in it."""
        while self._open:
            yield from self._give_up(next(iter(self._open)))

    def _remember(self, line: str, at: float | str | None, form: re.Pattern[str]) -> Iterable[dict[str, Any]]:
        match = form.search(line)
        if match is None:
            return []
        name, end = match["id"], match.end()
        asked = self._open.setdefault(name, _Open({"id": name}))
        if at is not None:
            asked.row.setdefault("start", at)
        place = line.find(_PROMPT_AT, match.start())
        prompt = None if place < 0 else _QUOTED.match(line, place + len(_PROMPT_AT))
        if prompt:
            self._keep_prompt(name, _unquoted(prompt[0]))
            end = prompt.end()
        cap = _CAP.search(line, end)
        if cap:
            asked.row["max_tokens"] = int(cap[1])
        generates = _GENERATES.search(line, end) if form is _REQUEST else None
        if generates:
            if asked.expected:
                self._forget_prompt(name)
                asked.row = {"id": name}
            asked.expected = (asked.expected or 0) + min(int(generates[1] or 1), _MOST_CHOICES)
            if asked.expected > 1:
                self._forget_pieces(asked)
        return self._give_up(next(iter(self._open))) if len(self._open) > _REMEMBERED else []

    def _answered(self, name: str) -> dict[str, Any]:
        """What is known of an answer's request; one with all its answers is waited for no longer."""
        numbered = () if name in self._open else (f"{name}_{n}" for n in itertools.count())
        for each in list(itertools.takewhile(self._open.__contains__, numbered)):
            # One request may be several to the engine.
            known = self._open.pop(each)
            self._forget_pieces(known)
            self._forget_prompt(each)
            self._open.setdefault(name, _Open({**known.row, "id": name}, 1))
        asked = self._open.get(name)
        if asked is None:
            return {}
        self._forget_pieces(asked)
        if asked.expected is not None:
            asked.expected -= 1
            if asked.expected <= 0:
                del self._open[name]
                self._forget_prompt(name)
        return asked.row

    def _give_up(self, name: str) -> Iterator[dict[str, Any]]:
        """The rows of the answers that a request still lacks."""
        asked = self._open.pop(name)
        self._forget_prompt(name)
        pieces = asked.pieces
        self._forget_pieces(asked)
        if not pieces or asked.expected != 1:
            yield from itertools.repeat({**asked.row, TEXTLESS: True}, asked.expected or 0)
            return
        thought = [found[1] for piece in pieces if (found := _THOUGHT.fullmatch(piece))]
        said = "".join(piece for piece in pieces if not _THOUGHT.fullmatch(piece))
        yield {**asked.row, "reasoning_content": "".join(thought), "response": said, "finish_reason": "abort"}

    def _keep_prompt(self, name: str, prompt: str) -> None:
        self._forget_prompt(name)
        self._open[name].row["prompt"] = prompt
        self._prompts[name] = len(prompt) if prompt.isascii() else 4 * len(prompt)
        self._prompt_size += self._prompts[name]
        while self._prompt_size > _MAX_PROMPTS:
            oldest = next(iter(self._prompts))
            self._forget_prompt(oldest)
            self._open[oldest].row.pop("prompt", None)

    def _forget_prompt(self, name: str) -> None:
        """Count it no longer."""
        self._prompt_size -= self._prompts.pop(name, 0)

    def _keep_piece(self, name: str, piece: str) -> None:
        """Of a stream whose only answer may be its pieces: who loops is left by its client."""
        asked = self._open.get(name)
        if asked is None or asked.expected != 1 or asked.pieces is None:
            return
        asked.pieces.append(piece)
        self._piece_size += len(piece) + _PIECE_BYTES
        while self._piece_size > _MAX_PIECES:
            self._forget_pieces(next(each for each in self._open.values() if each.pieces))

    def _forget_pieces(self, asked: _Open) -> None:
        """For good: what would be kept of it from now on is not its beginning."""
        self._piece_size -= sum(len(piece) + _PIECE_BYTES for piece in asked.pieces or ())
        asked.pieces = None


def _message(line: bytes) -> tuple[str, float | str | None]:
    """The line's text, or the message in it where the log was configured to write JSON; and its time."""
    if line.lstrip().startswith(b"{"):
        try:
            row = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            raise UnreadableError("a line of the log that is not JSON") from None
        found = [row[key] for key in _MESSAGES if isinstance(row, dict) and isinstance(row.get(key), str)]
        times = [row[key] for key in _MOMENTS if isinstance(row, dict) and row.get(key)]
        known = times[0] if times and isinstance(times[0], str | float | int) else None
        return (found[0] if found else ""), known
    text = line.decode("utf-8", "replace")
    return text, _timestamp(text)


def _timestamp(line: str) -> float | None:
    """Seconds on the log's own clock, to the whole second: vLLM writes neither year nor fraction.

    Every year counts as a leap year, so that a log may go through the end of February.
    """
    match = _STAMP.search(line[:_HEAD])
    if match is None:
        return None
    try:
        month, day, hour, minute, second = (int(each) for each in match.groups())
        return datetime(_LEAP_YEAR, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _answer(line: str) -> tuple[dict[str, Any], bool]:
    """A logged answer as a plain row, and whether it is only a piece of a stream. Raises UnreadableError.

    The line is read from both its ends, as the text between may look like any part of it.
    """
    match = _ANSWER.match(line, max(line.find(_ANSWERED), 0))
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
    try:
        value = ast.literal_eval(literal)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise UnreadableError("the logged text is cut") from None
    if not isinstance(value, str):
        raise UnreadableError("no text in it")
    return value


FORMAT = TextLog(
    name="vLLM request log",
    recognises=_recognises,
    reader=RequestLog,
    nothing="a vLLM log without answers: it needs --enable-log-requests --enable-log-outputs",
)
