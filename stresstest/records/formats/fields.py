"""What a record holds beside the answer's text: where the logs keep it, and the record made of both."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from stresstest.model.tokens import MIN_UNSEEN_TOKENS
from stresstest.records.formats.adapter import Place, Row
from stresstest.records.formats.asked import APART, PROMPT_KEYS, SHAPING, Fields, asked_turns, read_asked
from stresstest.records.formats.bodies.answer import RecordedAnswer
from stresstest.records.formats.bodies.body import is_body
from stresstest.records.formats.json_values import as_object, objects, structure_in
from stresstest.records.formats.printed import refuse_printed
from stresstest.records.full_texts import prompt_in
from stresstest.records.record import (
    FIELD_TARGETS,
    FieldMapping,
    Record,
    as_seconds,
    as_text,
    as_token_count,
    parse_path,
    utf8_size,
    value_at,
)
from stresstest.records.replaced import is_replaced

TIME_KEYS = ("start", "startTime", "start_time", "end", "endTime", "end_time")
FINISH_KEYS = ("finish_reason", "stop_reason", "stopReason", "done_reason", "stop_type")
_CAP_KEYS = ("max_tokens", "max_completion_tokens", "max_new_tokens", "max_output_tokens")
_NO_CAP = ("infinity", "inf", "none", "null")
_USAGE_KEYS = ("usage", "usageDetails", "details", "meta_info")
"""Where a record, or its body, keeps its counts; TGI and SGLang keep why it ended there as well."""
_COUNT_KEYS = (
    *("completion_tokens", "output_tokens", "num_generated_tokens", "generated_tokens", "tokens_predicted"),
    "eval_count",
)
"""Ray Data keeps the tokens themselves as `generated_tokens`."""
_START_KEYS, _END_KEYS = TIME_KEYS[:3], TIME_KEYS[3:]
_FIRST_TOKEN_KEYS = ("first_token", "completionStartTime", "completion_start_time")
TEXTLESS = "text_not_kept"
"""Set where a log did not keep the text of this answer, or not all of it."""
_MIDDLE_LEFT_OUT = "(litellm_truncated "
_REDACTED = (
    *("__REDACTED__", "redacted-by-litellm", _MIDDLE_LEFT_OUT),
    *("...truncated by litellm", "<truncated due to size exceeding limit>"),
)
"""What tracers (OpenInference, Langfuse) and proxies (LiteLLM) write in the place of a text, or of a part
of it, that they hide or that is too long for them."""
_CUT_OUT = re.compile(r"\.\.\. \(litellm_truncated [^\n]{1,600}?\) \.\.\.")
"""What LiteLLM writes in its spend logs for the middle of a text of more than 2,048 characters."""
_ID_KEYS = ("id", "custom_id", "request_id")
_TRACE_KEYS = ("trace_id", "traceId")
_LANGUAGE_KEYS = ("language", "lang")
_REQUEST_KEYS = (
    *("request", "request_body", "proxy_server_request", "body", "model_parameters", "params"),
    *("sampling_params", "optional_params", "parameters", "extra_body", "generation_config"),
    *("generation_kwargs", "gen_kwargs", "invocation_params"),
)
ASKED_KEYS = frozenset({*PROMPT_KEYS, *APART, *SHAPING, *_REQUEST_KEYS, "conversation", "conversations"})
"""Where a row keeps what was asked, in any form."""


_SCORING_CAP = 1
"""Tokens up to which a request for its prompt back (`echo`) is one for likelihoods, as evaluations send."""


def answered(
    row: Row,
    found: Sequence[RecordedAnswer],
    place: Place,
    body: Mapping[str, Any] | None = None,
    *,
    prompted: bool = False,
) -> list[Record]:
    """The records of a row's answers. body: the response body that they come from, if there is one. prompted:
    the texts may have their prompt before them."""
    request = _request(row)
    echoed = request.get("echo") is True
    base = _base(row, body, request, place, found)
    if echoed and base.max_tokens is not None and base.max_tokens <= _SCORING_CAP:
        return []  # nothing was generated: the request was for the likelihood of its prompt
    unplaced = echoed and not any("message" in each for each in objects((body or {}).get("choices")))
    prompted = prompted and not echoed
    asked = asked_turns(row, base) if echoed or prompted else ()
    several = len(found) > 1
    for answer in found:
        refuse_printed(answer.text)
    spent = base.completion_tokens
    if several and spent is not None:
        # The body's usage is of all its choices together: of one only what no text of theirs can hold tells.
        shown = sum(utf8_size(answer.reasoning + answer.text) for answer in found)
        spent = spent // len(found) if spent - shown >= MIN_UNSEEN_TOKENS * len(found) else None
    key = base.prompt_key or (_row_name(row) if several else None)
    return [
        replace(
            base,
            id=f"{base.id}#{n}" if several else base.id,
            text=answer.text[held[1] :] if echoed and held else answer.text,
            prompt_at=held[0] if prompted and held else 0,
            answer_at=held[1] if prompted and held else None,
            has_text=answer.known
            and not (unplaced and (held is None or not held[1]))  # nobody knows where the answer begins
            and not row.get(TEXTLESS)
            and not any(mark in answer.text for mark in _REDACTED)
            and not is_replaced(answer.text),
            reasoning=answer.reasoning,
            hole=hole,
            calls=answer.calls,
            refused=answer.refused,
            finish_reason=answer.finish_reason or base.finish_reason,
            tokens=None if echoed else answer.tokens,  # the prompt's are among them
            prompt_key=key,
            completion_tokens=spent,
        )
        for n, (answer, hole) in enumerate(map(_cut_out, found))
        for held in (prompt_in(asked, answer.text) if echoed or prompted else None,)
    ]


def _cut_out(answer: RecordedAnswer) -> tuple[RecordedAnswer, int | None]:
    """The answer without the mark where the log cut a part of it out, and the characters before that."""
    for name in ("reasoning", "text"):
        written = getattr(answer, name)
        mark = _CUT_OUT.search(written)
        if mark is not None:
            before = mark.start() + (len(answer.reasoning) if name == "text" else 0)
            joined = {name: written[: mark.start()] + written[mark.end() :]}
            return replace(answer, **joined, tokens=None, known=False), before
    return answer, None


def _row_name(row: Row) -> str:
    """What the answers of one row share, and those of a row with the same content."""
    return hashlib.blake2b(repr(row).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _base(
    row: Row,
    body: Mapping[str, Any] | None,
    request: Mapping[str, Any],
    place: Place,
    found: Sequence[RecordedAnswer],
) -> Record:
    """Everything but the answer, from the user's mapping first, then the line, its body, its request."""
    places = [row, *([] if body is None else [body]), request]
    fields = Fields(row, places, place.mapped)
    at = fields.at
    usage = [held for p in places for key in _USAGE_KEYS if isinstance(held := p.get(key), dict)]
    asked = read_asked(fields, found, beside_body=body is not None)
    finish = at("finish_reason", *FINISH_KEYS, within=[*places, *usage])
    finish = as_text(finish.get("type") if isinstance(finish, dict) else finish)  # SGLang's is an object
    tokens = at("completion_tokens", *_COUNT_KEYS, within=[*usage, row])
    counted = _with_reasoning(as_token_count(len(tokens) if isinstance(tokens, list) else tokens), usage)
    ids = at("id", *reversed(_ID_KEYS) if "custom_id" in row else _ID_KEYS)
    return Record(
        id=as_text(ids) or f"{place.source}:{place.line}",
        source=place.source,
        line=place.line,
        read_from=place.format,
        text="",
        model=as_text(at("model")),
        task=as_text(at("task")),
        language=as_text(at("language", *_LANGUAGE_KEYS)),
        finish_reason=None if finish == "streaming_complete" else finish,
        max_tokens=_cap(at("max_tokens", *_CAP_KEYS)),
        prompt_tokens=as_token_count(
            at("prompt_tokens", "prompt_tokens", "input_tokens", "num_input_tokens", within=[*usage, row])
        ),
        completion_tokens=counted or _count_token_ids(row, body),
        start=as_seconds(at("start", *_START_KEYS)),
        end=as_seconds(at("end", *_END_KEYS)),
        first_token=as_seconds(at("first_token", *_FIRST_TOKEN_KEYS)),
        trace=as_text(at("trace", *_TRACE_KEYS)),
        writer=as_text(row.get("span_writer")),
        cached=str(at("cached", "cache_hit", "cacheHit")).lower() == "true",
        prompt_text=asked.text,
        requested_text=asked.requested,
        messages=asked.messages,
        whole_prompt=asked.whole and _MIDDLE_LEFT_OUT not in asked.text,
        prompt_key=asked.key,
        extra={
            key: value
            for key in place.mapped.keys
            if (value := _extra((row, row.get("metadata"), body, request), key, place.mapped)) is not None
        },
    )


def _with_reasoning(counted: int | None, usage: Sequence[Mapping[str, Any]]) -> int | None:
    """The count with tokens of reasoning that are counted apart: in the total alone (Gemini's endpoint of
    OpenAI's API), or beside it (xAI's)."""
    for held in usage:
        details = as_object(held.get("completion_tokens_details"))
        names = ("completion_tokens", "prompt_tokens", "total_tokens")
        own, prompt, total = (as_token_count(held.get(name)) for name in names)
        reasoning = as_token_count(details.get("reasoning_tokens")) or 0
        if own is None or own != counted:
            continue
        apart = max(reasoning if reasoning > own else 0, (total or 0) - (prompt or 0) - own if prompt else 0)
        return own + apart if apart >= MIN_UNSEEN_TOKENS else own
    return counted


def _cap(given: Any) -> int | None:
    """The cap; None without one, which llama.cpp and its clients write as -1, Langfuse's as "Infinity"."""
    uncapped = given in (-1, "-1") or (isinstance(given, str) and given.lower() in _NO_CAP)
    return None if uncapped else as_token_count(given)


def _request(row: Row) -> dict[str, Any]:
    """The request's parameters, where the row keeps them apart."""
    found: dict[str, Any] = {}
    for key in _REQUEST_KEYS:
        given = _decoded(row.get(key))
        if isinstance(given, dict) and not is_body(given):
            for held in (given.get("extra_body"), given.get("body"), given):
                found |= as_object(_decoded(held))
    return found


def _decoded(value: Any) -> Any:
    """The value, or what it holds as JSON text."""
    return structure_in(value) if isinstance(value, str) else value


def _count_token_ids(row: Row, body: Mapping[str, Any] | None) -> int | None:
    """How many token ids the answer has, where they were kept (vLLM's `return_token_ids`, its dumps)."""
    choices = (body or {}).get("choices") or row.get("outputs")
    holder = choices[0] if isinstance(choices, list) and len(choices) == 1 else row
    for key in ("token_ids", "output_token_ids"):
        if isinstance(holder, dict) and isinstance(holder.get(key), list) and holder[key]:
            return len(holder[key])
    return None


def _extra(places: Sequence[Any], key: str, mapped: FieldMapping) -> str | None:
    if key in FIELD_TARGETS:
        return None
    path = mapped.fields.get(key) or parse_path(key)
    for place in places:
        value = value_at(place, path) if place is not None else None
        text = (
            json.dumps(value, sort_keys=True) if value and isinstance(value, dict | list) else as_text(value)
        )
        if text is not None:
            return text
    return None
