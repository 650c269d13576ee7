"""Streamed answers that a log keeps in pieces. A piece judged by itself is always healthy, so none is taken
for an answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from stresstest.records.formats.adapter import Place, Row, RowFormat
from stresstest.records.formats.json_values import structure_in
from stresstest.records.record import FieldMapping, MalformedError, Record, UnreadableError

_PIECE = "a piece of a streamed answer: put the pieces of each answer together"
_MIN_PIECES = 8
_MAX_MEAN, _MAX_MEAN_UNSPACED = 24, 8
"""Characters of a piece, a token or a few, on the mean; of one in a script without spaces."""
_SPACED = 0.3
"""Share of pieces that begin or end with a space: most tokens begin with one, and no answer does."""
_MAX_EVENT = 64
"""Characters of an event of a stream of completions; one that is longer may be a body without its reason."""

_HEAD = 65_536
"""Characters of a text that are looked at for the first two events of a stream."""
_OTHER_LINES = r"(?:(?:(?:event|id|retry)?:[^\r\n]*+)?[\r\n]++)*+"
_EVENTS = re.compile(
    rf"\s*+(?:{_OTHER_LINES}data: ?[{{\[][^\r\n]*+[\r\n]++{_OTHER_LINES}data: ?[{{\[]"
    rf"|(?:{_OTHER_LINES}data:[^\r\n]*+[\r\n]++){{5}}"
    r"|(?:[0-9a-g]:[\"{\[][^\r\n]*+[\r\n]++){3})"
)
"""Two events of server-sent events in JSON or five in plain text, or three of the AI SDK's data stream. YAML
has no key twice."""
_BYTES = ("b'data: ", 'b"data: ', "b'event: ", 'b"event: ', "b': ", 'b": ')
"""Python's ``str()`` of a stream that was read and not decoded."""
_LINE_MARKS = ('"done"', '.chunk"')
_CHUNK_MARKS = ('.chunk"', '"candidates"')


def _is_piece(row: Row, _mapped: FieldMapping) -> bool:
    """An event of a stream, alone or logged as the response."""
    return any(isinstance(each, dict) and _is_event(each) for each in (row, row.get("response")))


def _is_event(row: Row) -> bool:
    """Of OpenAI's streams, LangChain's, Ollama's, or vLLM's own `generate`."""
    kind, choices = row.get("object"), row.get("choices")
    if kind == "text_completion" and isinstance(choices, list):
        return bool(choices) and all(map(_is_open, choices))
    langchain = row.get("type")
    return (
        (isinstance(kind, str) and kind.endswith(".chunk") and _has_deltas(choices))
        or (isinstance(langchain, str) and langchain.endswith("MessageChunk"))
        or (row.get("done") is False and ("created_at" in row or ("model" in row and _is_short(row))))
        or (row.get("finished") is False and "outputs" in row)
    )


def _is_open(choice: Any) -> bool:
    """Whether a choice has neither an end nor the length of an answer."""
    if not isinstance(choice, dict) or choice.get("finish_reason"):
        return False
    text = choice.get("text")
    return isinstance(text, str) and len(text) <= _MAX_EVENT


def _has_deltas(choices: Any) -> bool:
    listed = choices if isinstance(choices, list) else []
    return not any(isinstance(choice, dict) and choice.get("message") for choice in listed)


def _is_short(row: Row) -> bool:
    text = row.get("response")
    return isinstance(text, str) and len(text) <= _MAX_EVENT


def refuse_stream(text: str) -> None:
    """Raise UnreadableError for the body of a streamed answer, as a proxy keeps it in one text: the JSON
    between the pieces hides what is wrong with them."""
    start = text[:64].lstrip()
    if start.startswith(_BYTES):
        streamed = True
    elif start.startswith(("{", "[")):
        streamed = _is_lines_of_events(text) or _holds_chunks(text)
    else:
        framed = start.startswith(("data:", "event:", "id:", "retry:", ":")) or start[1:2] == ":"
        streamed = framed and _EVENTS.match(text[:_HEAD]) is not None
    if streamed:
        raise UnreadableError("the events of a streamed answer: put the pieces of each answer together")


def _is_lines_of_events(text: str) -> bool:
    """JSON, a line for each event, as Ollama writes its stream."""
    first, more, _ = text[:_HEAD].lstrip().partition("\n")
    if not (more and any(mark in first for mark in _LINE_MARKS)):
        return False
    event = structure_in(first)
    return isinstance(event, dict) and _is_event(event)


def _holds_chunks(text: str) -> bool:
    """A list of events, alone (Gemini's stream) or in an object (Cloudflare's gateway)."""
    if not any(mark in text[:_HEAD] for mark in _CHUNK_MARKS):
        return False
    found = structure_in(text)
    lists = [found] if isinstance(found, list) else (found or {}).values()
    return any(
        isinstance(each, list)
        and len(each) > 1
        and all(isinstance(event, dict) and (_is_event(event) or "candidates" in event) for event in each)
        for each in lists
    )


def _raise_piece(_row: Row, _place: Place) -> list[Record]:
    raise UnreadableError(_PIECE)


def refuse_event_line(line: bytes) -> None:
    """Raise MalformedError for a line of server-sent events: as damaged JSON it would hide what to do."""
    if line.lstrip()[:6].startswith((b"data:", b"event:")):
        raise MalformedError(_PIECE)


PIECE = RowFormat("piece of a stream", _is_piece, _raise_piece)


def join_pieces(row: Row, texts: Sequence[str]) -> Sequence[str]:
    """The answers that a list of texts holds: one where Replicate streamed it, else each.

    Raises UnreadableError for many short texts, which may be either.
    """
    filled = [text for text in texts if text]
    size = sum(map(len, filled))
    if len(filled) < _MIN_PIECES or size > _MAX_MEAN * len(filled):
        return texts
    if isinstance(row.get("input"), dict) and isinstance(row.get("status"), str):
        return ["".join(texts)]
    spaced = sum(text[0].isspace() or text[-1].isspace() for text in filled)
    if spaced >= _SPACED * len(filled) or size <= _MAX_MEAN_UNSPACED * len(filled):
        raise UnreadableError(
            f"a list of {len(texts)} short texts, which may be the pieces of one answer: join them, or write "
            "a line for each answer"
        )
    return texts
