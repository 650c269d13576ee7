"""The log formats that are read, in order: the first that recognises a row or a file reads it.

To add a format, write a module with its adapter (see `adapter`) and list it here, before the formats that
would also recognise its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b

import msgspec

from stresstest.config.credentials.texts import hide_credentials
from stresstest.model.texts.json_escapes import without_json_escapes
from stresstest.model.texts.lax_json import decode_lax
from stresstest.model.tokens import MIN_UNSEEN_TOKENS
from stresstest.records.formats import (
    bench_serve,
    conversation,
    lm_eval,
    no_answers,
    pieces,
    plain,
    turn_rows,
    vllm_log,
    vllm_outputs,
)
from stresstest.records.formats.adapter import Envelope, Place, Row, RowFormat, TextLog
from stresstest.records.formats.apis import anthropic_batch, api_page, openai, openai_batch
from stresstest.records.formats.bodies.answer import RecordedAnswer, refuse_many
from stresstest.records.formats.fields import answered
from stresstest.records.formats.given_up import marked_as_given_up
from stresstest.records.formats.limit import cut_to_limit
from stresstest.records.formats.tracers import langfuse, langsmith, litellm, opentelemetry
from stresstest.records.formats.unread import is_looked_at, unread_texts
from stresstest.records.json_elements import json_elements
from stresstest.records.padding import without_padding
from stresstest.records.record import (
    LONG_ANSWER,
    FieldMapping,
    MalformedError,
    RawRecord,
    Record,
    TextlessError,
    UnreadableError,
    describe_type,
    given_text,
)

TEXT_LOGS: tuple[TextLog, ...] = (vllm_log.FORMAT,)
ROW_FORMATS: tuple[RowFormat | Envelope, ...] = (
    api_page.FORMAT,
    no_answers.FORMAT,
    pieces.PIECE,
    opentelemetry.FORMAT,
    langfuse.FORMAT,
    langsmith.FORMAT,
    litellm.FORMAT,
    lm_eval.FORMAT,
    bench_serve.FORMAT,
    anthropic_batch.FORMAT,
    plain.USER_MAPPING,
    conversation.FORMAT,
    openai.RESPONSES,
    openai.CHAT_COMPLETION,
    openai_batch.FORMAT,
    openai.LOGGED_RESPONSE,
    openai.FAILED_REQUEST,
    turn_rows.FORMAT,
    plain.FORMAT,
    vllm_outputs.FORMAT,
    plain.TIMED_REQUEST,
)
_NAMED_KEYS = 12
_LONGEST_KEY = 1_000
"""Characters of a key in which a secret is looked for: exports of usage have API keys as names."""
_OF_A_TURN = frozenset({"author", "from", "name", "role", "sender", "speaker", "type"})
"""Keys of the turns of a conversation, which are no answers one by one."""


def parse_line(raw: RawRecord, source: str, line: int, mapped: FieldMapping) -> list[Record]:
    """The answers of one line, one for each choice or span. Raises UnreadableError with the reason."""
    if isinstance(raw, str):
        return [without_padding(given_text(raw, source, line))]
    rows = [raw] if isinstance(raw, dict) else _rows(raw)
    row, place = rows[0], Place(source, line, mapped)
    read = _read(row, place, ROW_FORMATS) if len(rows) == 1 else _read_several(rows, place, ROW_FORMATS)
    try:
        found = [without_padding(each) for each in read]
    except UnreadableError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        # Types that no server writes, anywhere in it: one such line must not end the scan of the others.
        raise UnreadableError("values in it have types that no server writes") from None
    if len(rows) > 1 and not any(record.has_text for record in found):
        raise UnreadableError("several objects without an answer")
    if found and len(rows) == 1 and is_looked_at(line) and all(record.hole is None for record in found):
        found[0] = replace(found[0], beside=unread_texts(row, found))
    if all(record.prompt_key is not None for record in found):
        return found
    content = _hash(raw.strip() if isinstance(raw, bytes) else repr(raw))
    keys = (_answer_hash(record, row) or content + n for n, record in enumerate(found))
    return [replace(record, row_key=key % (1 << 64) or 1) for record, key in zip(found, keys, strict=True)]


def _rows(raw: bytes) -> list[Row]:
    """The object of a line; or its objects, where a writer left out the line ends, appended an array, or made
    a list of the answers to each prompt (Transformers' pipelines)."""
    try:
        return [parse_json_object(raw)]
    except UnreadableError:
        rows: list[Row] = []
        whole, is_list = iter((raw,)), raw.lstrip().startswith(b"[")
        try:
            rows.extend(map(parse_json_object, json_elements(lambda _: next(whole, b""), len(raw))))
        except UnreadableError:
            rows.append({})  # what is left of the line is an answer that cannot be read
        turns = is_list and any(_OF_A_TURN & row.keys() for row in rows)
        if turns or not any(rows) or (len(rows) == 1 and not is_list):
            raise
        return rows


def _answer_hash(record: Record, row: Row) -> int | None:
    """What lines with the same answer to the same document share; None where that cannot be told.

    Evaluations write a line for each filter or metric, which differ in the score alone
    (lm-evaluation-harness). An id may be used again in another file, or name a whole session, so that a short
    answer counts as the same only where the document itself is beside it.
    """
    own = None if record.id == f"{record.source}:{record.line}" else record.id
    number, document = row.get("doc_id"), row.get("doc")
    answer = record.reasoning + record.text
    if (own is None and number is None) or (len(answer) < LONG_ANSWER and document is None):
        return None
    return _hash(repr((own, number, document, record.reasoning, record.text)))


def _hash(content: bytes | str) -> int:
    """64 bits that equal contents share."""
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "big")


def _read(row: Row, place: Place, formats: Sequence[RowFormat | Envelope]) -> Iterator[Record]:
    for n, found in enumerate(formats, 1):
        if found.recognises(row, place.mapped):
            place = place if place.format else replace(place, format=found.name)
            if isinstance(found, RowFormat):
                records = _records(found, row, place)
            else:
                inner = _read_several(list(found.unwrapped(row, place.mapped)), place, formats[n:])
                records = map(found.completed, inner)
            apart = isinstance(found, Envelope) and found.apart
            for record in records:
                record = _unescaped(record)
                yield cut_to_limit(record if apart else marked_as_given_up(record, row))
            return
    raise UnreadableError(_unrecognised(row))


def _unescaped(record: Record) -> Record:
    """The record with its JSON as the model wrote it; as it is where positions in it are known."""
    if record.tokens is not None or record.hole is not None or record.answer_at:
        return record
    text = without_json_escapes(record.text)
    return record if text == record.text else replace(record, text=text)


def _records(found: RowFormat, row: Row, place: Place) -> Iterator[Record]:
    """The answers of a row. A call without arguments that spent tokens has lost them, or reasoning, in the
    log: it is an answer without text."""
    try:
        yield from found.records(row, place)
    except TextlessError:
        hidden = answered(row, [RecordedAnswer("", known=False)], place, openai.response_of(row))
        if (hidden[0].completion_tokens or 0) < MIN_UNSEEN_TOKENS:
            raise
        yield from hidden


def _read_several(
    rows: Sequence[Row], place: Place, formats: Sequence[RowFormat | Envelope]
) -> Iterator[Record]:
    """The answers of the rows that one line holds: a batch of spans is not lost with one of them.

    One of several that cannot be read counts as an answer without text, and a call without arguments as an
    empty one. Raises UnreadableError for a single row that cannot be read, for calls alone, and for too many
    rows.
    """
    refuse_many(rows)
    found: list[Record] = []
    errors: list[UnreadableError] = []
    for row in rows:
        try:
            found += list(_read(row, place, formats))
        except UnreadableError as error:
            called = isinstance(error, TextlessError)
            found.append(
                Record(
                    id=f"{place.source}:{place.line}",
                    source=place.source,
                    line=place.line,
                    text="",
                    read_from=place.format,
                    has_text=called,
                    calls=called,
                )
            )
            errors.append(error)
    alone = len(rows) == 1 or all(isinstance(each, TextlessError) for each in errors)
    if errors and len(errors) == len(rows) and alone:
        raise errors[0]
    yield from found


def parse_json_object(raw: bytes) -> Row:
    """One JSON object, with NaN and halves of characters as loggers write them. Raises MalformedError: no
    JSON, no UTF-8, no object."""
    try:
        row = decode_lax(msgspec.json.decode, raw)
    except (ValueError, RecursionError) as error:
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError as bad:
            raise MalformedError(f"not UTF-8 (byte {bad.start + 1})") from None
        pieces.refuse_event_line(raw)
        raise MalformedError(f"not JSON ({_first(str(error))})") from None
    if not isinstance(row, dict):
        raise MalformedError(f"{describe_type(row)}, not an object")
    return row


def _first(message: str) -> str:
    return message.splitlines()[0][:80].rstrip(".") if message else "damaged"


def _unrecognised(row: Row) -> str:
    named = [
        hide_credentials(str(key)[:_LONGEST_KEY])[:40] + " (a list)" * isinstance(value, list)
        for key, value in row.items()
    ]
    more = f" and {len(named) - _NAMED_KEYS} more keys" if len(named) > _NAMED_KEYS else ""
    there = f": it has {', '.join(named[:_NAMED_KEYS])}{more}" if named else ""
    return f"no text in it{there}"
