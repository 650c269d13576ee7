"""The answers of a log as an export needs them. Imports little, since every worker process loads it."""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

import msgspec

from stresstest.config.credentials.fields import without_credentials
from stresstest.config.request_fields import canonical
from stresstest.detectors.identification.inference import infer_language
from stresstest.features.export.answers import (
    CALLS,
    IN_DOUBT,
    LOST,
    NO_PROMPT,
    NOT_ENDED,
    OTHER_LANGUAGE,
    PARTIAL_PROMPT,
    REASONING,
    REFUSED,
    UNSEEN,
    AskedPrompt,
    ExportedAnswer,
    LeftOutAnswer,
)
from stresstest.model import PARAMETERS, Decoding, Message, Subject
from stresstest.model.scanned import ScanVerdict
from stresstest.records import Record
from stresstest.scanning.answer.endings import lacks_its_end
from stresstest.tasks.bodies import FIELDS
from stresstest.tasks.prompt import UNREAD_FIELDS, fingerprint

_OTHER_FIELDS = (
    *("functions", "function_call", "guided_json", "guided_regex", "guided_choice", "guided_grammar"),
    *("grammar", "lora_request", "adapter", "thinking"),
)
_SHAPING = tuple(name for name in (*FIELDS, *_OTHER_FIELDS) if name not in UNREAD_FIELDS)
"""Fields of a request that shape the answer: with other values, it is another request."""
REQUEST_KEYS = (*PARAMETERS, *_SHAPING)
"""Keys of a record, or of its request, that say how it was asked."""
_WORD_END = re.compile(r"\w*")


def recorded_answer(
    record: Record, verdict: ScanVerdict, *, copies: int, strings: bool
) -> ExportedAnswer | LeftOutAnswer:
    """One recorded answer; a degenerate one is cut `copies` copies after its onset.

    strings: a prompt without roles is the text of a completion, not a user's message.
    """
    end = _rejected_end(record.text, verdict, copies) if verdict.degenerate else len(record.text)
    if record.hole is not None and (not verdict.degenerate or record.hole < len(record.reasoning) + end):
        return LeftOutAnswer(UNSEEN)
    if not verdict.degenerate and (verdict.unseen or lacks_its_end(record)):
        return LeftOutAnswer(UNSEEN)
    if verdict.lost:
        return LeftOutAnswer(LOST)
    if record.reasoning or verdict.reasoned:
        return LeftOutAnswer(REASONING)
    if record.calls:
        return LeftOutAnswer(CALLS)
    if record.refused:
        return LeftOutAnswer(REFUSED)
    if not record.whole_prompt:
        return LeftOutAnswer(PARTIAL_PROMPT)
    if not record.prompt_text:
        return LeftOutAnswer(NO_PROMPT)
    text = record.text[:end]
    return ExportedAnswer(
        source=record.source,
        key=record.id,
        prompt=_prompt(record, strings),
        subject=Subject(record.model or "", record.task or "", verdict.language or ""),
        decoding=_decoding(record),
        text=text,
        tokens=_tokens(record, verdict, len(text)),
        prompt_tokens=record.prompt_tokens,
        onset=None if verdict.tokens is None else verdict.tokens.onset,
        onset_char=verdict.onset_char,
        symptom=verdict.symptom and str(verdict.symptom),
        flaw=None if verdict.degenerate else _flaw(record, verdict),
        recorded=True,
    )


def _rejected_end(text: str, verdict: ScanVerdict, copies: int) -> int:
    """The character behind the copies, never before the end of the word of the alarm."""
    alarm, onset = verdict.alarm_char or 0, verdict.onset_char or 0
    word = _WORD_END.match(text, alarm)
    return max(onset + copies * verdict.copy_chars, word.end() if word else 0, alarm + 1)


def _prompt(record: Record, strings: bool) -> AskedPrompt:
    text = record.prompt_text if strings and not record.messages else None
    messages = record.messages if text is None else ()
    if text is None and not messages:
        messages = (Message("user", record.prompt_text),)
    body = _request_fields(record)
    return AskedPrompt(fingerprint(messages, text, body), messages, text, body=body)


def _request_fields(record: Record) -> str | None:
    """Without credentials, such as those that a request brings for the servers of its tools."""
    found: dict[str, Any] = {}
    for key in _SHAPING:
        if (given := record.extra.get(key)) is not None:
            try:
                found[key] = msgspec.json.decode(given)
            except (msgspec.DecodeError, RecursionError):  # also NaN and Infinity, which are no JSON
                found[key] = given
    return canonical(without_credentials(found)) if found else None


def _decoding(record: Record) -> Decoding:
    """What the log says of it; nothing where it is silent."""
    given: dict[str, float] = {}
    for key in PARAMETERS:
        try:
            value = float(record.extra[key])
        except (KeyError, ValueError):
            continue
        if isfinite(value):
            given[key] = value
    if "top_k" in given:
        return Decoding(**{**given, "top_k": int(given["top_k"])})  # type: ignore[arg-type]
    return Decoding(**given)  # type: ignore[arg-type]


def _tokens(record: Record, verdict: ScanVerdict, kept: int) -> int | None:
    """Tokens of the kept characters; a share of the answer's own."""
    if verdict.tokens is None:
        return None
    return round(verdict.tokens.length * kept / max(1, len(record.text)))


def _flaw(record: Record, verdict: ScanVerdict) -> str | None:
    if not verdict.ended or not record.text.strip():
        return NOT_ENDED
    if verdict.unresolved:
        return IN_DOUBT
    if verdict.language and infer_language(record.text) not in (None, verdict.language):
        return OTHER_LANGUAGE
    return None
