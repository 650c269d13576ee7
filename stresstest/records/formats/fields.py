"""What a record holds beside the answer's text: where the logs keep it, and the record made of both."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stresstest.detectors.text.templated import without_model_turns
from stresstest.model import Message
from stresstest.model.volatile import steady, without_times_and_ids
from stresstest.records.formats.adapter import Place, Row
from stresstest.records.formats.bodies.answer import RecordedAnswer
from stresstest.records.formats.bodies.body import is_body
from stresstest.records.formats.bodies.content import join_content
from stresstest.records.formats.bodies.turns import (
    MODEL_SPEAKS,
    before_the_answer,
    beside_text,
    refuse_longer_ending,
    role_of,
    unwrap_turn,
)
from stresstest.records.formats.json_values import structure_in
from stresstest.records.formats.printed import refuse_printed
from stresstest.records.full_texts import answer_at
from stresstest.records.record import (
    FIELD_TARGETS,
    FieldMapping,
    Record,
    UnreadableError,
    as_seconds,
    as_text,
    as_token_count,
    parse_path,
    value_at,
)
from stresstest.records.replaced import is_replaced

TIME_KEYS = ("start", "startTime", "start_time", "end", "endTime", "end_time")
FINISH_KEYS = ("finish_reason", "stop_reason", "done_reason", "stop_type")
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
PROMPT_KEYS = ("messages", "prompt", "input", "inputs")
_APART = (
    *("system", "system_prompt", "system_message", "instructions", "instruction", "suffix", "history"),
    *("context", "contexts", "documents", "image", "images", "image_url", "image_urls"),
    *("audio", "audios", "video", "videos", "multi_modal_data", "image_path", "attachments", "files"),
    *("system_instruction", "systemInstruction", "preamble", "persona", "chat_history", "knowledge"),
    *(
        "document",
        "article",
        "passage",
        "vars",
        "variables",
        "retrieved_docs",
        "retrieved_contexts",
        "previous_response_id",
    ),
)
"""Keys of what else the model reads, beside the turns or the text of a prompt."""
_SHAPING = ("tools", "functions", "chat_template_kwargs")
"""Keys of what makes another prompt of the same turns, and is no text of them."""
_LETTERS = str.maketrans("0123456789", "ghijklmnop")
FLATTENED = "prompt_flattened"
"""Set where a log keeps the turns of a prompt as one text."""
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
_QUESTION_KEYS = ("question", "query", "instruction", "user_input")
"""Where evaluations keep what was asked, beside what else the prompt holds."""
_ID_KEYS = ("id", "custom_id", "request_id")
_LANGUAGE_KEYS = ("language", "lang")
_REQUEST_KEYS = (
    *("request", "request_body", "proxy_server_request", "body", "model_parameters", "params"),
    *("sampling_params", "optional_params", "parameters", "extra_body", "generation_config"),
    *("generation_kwargs", "gen_kwargs", "invocation_params"),
)
ASKED_KEYS = frozenset({*PROMPT_KEYS, *_APART, *_SHAPING, *_REQUEST_KEYS, "conversation", "conversations"})
"""Where a row keeps what was asked, in any form."""


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
    asked = _asked(row, base) if echoed or prompted else ()
    several = len(found) > 1
    for answer in found:
        refuse_printed(answer.text)
    key = base.prompt_key or (_row_name(row) if several else None)
    return [
        replace(
            base,
            id=f"{base.id}#{n}" if several else base.id,
            text=answer.text[answer_at(asked, answer.text) or 0 :] if echoed else answer.text,
            answer_at=answer_at(asked, answer.text) if prompted and not echoed else None,
            has_text=answer.known
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
            # The body's usage is of all its choices together.
            completion_tokens=None if several else base.completion_tokens,
        )
        for n, (answer, hole) in enumerate(map(_cut_out, found))
    ]


def _asked(row: Row, record: Record) -> Sequence[str]:
    """The turns of the prompt, as a text may hold them."""
    if record.messages:
        return [turn.content for turn in record.messages]
    named = (row[key] for key in _QUESTION_KEYS if isinstance(row.get(key), str))
    return [record.prompt_text or next(named, "")]


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
    mapped = place.mapped
    places = [row, *([] if body is None else [body]), request]
    usage = [held for p in places for key in _USAGE_KEYS if isinstance(held := p.get(key), dict)]

    def at(name: str, *keys: str, within: Sequence[Any] = places) -> Any:
        if name in mapped.fields:
            return value_at(row, mapped.fields[name])
        return next((p[k] for p in within for k in keys or (name,) if p.get(k) is not None), None)

    asked = _decoded(at("prompt", *PROMPT_KEYS))
    if not asked and "prompt" not in mapped.fields:  # LiteLLM's spend logs have empty messages beside it
        asked = next((said for p in places for key in PROMPT_KEYS if (said := _decoded(p.get(key)))), None)
        asked = asked or next((said for key in _QUESTION_KEYS if isinstance(said := row.get(key), str)), None)
    turns = _turns(asked)
    if turns:
        asked = turns = before_the_answer(turns, found)
        if body is None and "response" not in mapped.fields:
            refuse_longer_ending(asked, found)
    prompt, messages, beside = prompt_text(asked), _messages(asked), beside_text(turns)
    if asked:
        there = set().union(*places)
        apart = (key for key in _APART if key in there)
        beside += "".join(_shown(key, given) for key in apart if _is_apart(key, given := at(key), prompt))
    # An object of the caller's own (Langfuse's arguments, Braintrust's fields), or the ids of tokens.
    unread = json.dumps(asked, sort_keys=True, default=str) if asked and not (prompt or beside) else ""
    own_key = as_text(at("prompt_id"))
    if (prompt or beside or unread) and not own_key:
        own_key = prompt_key(
            prompt or unread, beside + "".join(repr(given) for key in _SHAPING if (given := at(key)))
        )
    finish = at("finish_reason", *FINISH_KEYS, within=[*places, *usage])
    finish = as_text(finish.get("type") if isinstance(finish, dict) else finish)  # SGLang's is an object
    tokens = at("completion_tokens", *_COUNT_KEYS, within=[*usage, row])
    counted = as_token_count(len(tokens) if isinstance(tokens, list) else tokens)
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
        cached=str(at("cached", "cache_hit", "cacheHit")).lower() == "true",
        prompt_text=prompt,
        requested_text=requested_text(asked),
        messages=messages,
        whole_prompt=not (beside or unread or row.get(FLATTENED) or _MIDDLE_LEFT_OUT in prompt)
        and bool(messages or not turns),
        prompt_key=own_key,
        extra={
            key: value
            for key in mapped.keys
            if (value := _extra((row, row.get("metadata"), body, request), key, mapped)) is not None
        },
    )


def _decoded(asked: Any) -> Any:
    """The turns where they were written as JSON text."""
    found = structure_in(asked) if isinstance(asked, str) else None
    turns = isinstance(found, list) and all(isinstance(turn, dict) and "role" in turn for turn in found)
    return found if turns or found == {} else asked


def prompt_key(prompt: str, shaped: str = "") -> str:
    """What answers to equal prompts share. shaped: what else shapes the answer."""
    asked_again = without_times_and_ids(prompt)
    content = f"{asked_again}\0{steady(shaped)}" if shaped else asked_again
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _cap(given: Any) -> int | None:
    """The cap; None without one, which llama.cpp and its clients write as -1, Langfuse's as "Infinity"."""
    uncapped = given in (-1, "-1") or (isinstance(given, str) and given.lower() in _NO_CAP)
    return None if uncapped else as_token_count(given)


def _shown(key: str, given: Any) -> str:
    """A field as text. An id that stands for the turns before is one of the prompt's: no figures, no id."""
    return repr(given).translate(_LETTERS) if key == "previous_response_id" else repr(given)


def _is_apart(key: str, given: Any, prompt: str) -> bool:
    """Whether a field holds something for the model to read that its prompt does not hold as well.

    The context of a tracer, an object, is none; nor is Ollama's, the tokens of prompt and answer.
    """
    if isinstance(given, str):
        return given not in prompt
    if key == "context":
        return isinstance(given, list) and any(isinstance(each, str | dict) for each in given)
    return isinstance(given, list | dict) and bool(given)


def _request(row: Row) -> dict[str, Any]:
    """The request's parameters, where the row keeps them apart."""
    found: dict[str, Any] = {}
    for key in _REQUEST_KEYS:
        given = row.get(key)
        given = structure_in(given) if isinstance(given, str) else given
        if isinstance(given, dict) and not is_body(given):
            for held in (given.get("extra_body"), given.get("body"), given):
                held = structure_in(held) if isinstance(held, str) else held
                found |= held if isinstance(held, dict) else {}
    return found


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


def _messages(value: Any) -> tuple[Message, ...]:
    """The prompt's turns; none where one has no role or no text, such as a call of a tool."""
    given = value.get("messages") if isinstance(value, dict) else value
    turns = [turn if isinstance(turn, dict) else {} for turn in given] if isinstance(given, list) else []
    try:
        contents = [join_content(turn.get("content")) for turn in turns]
    except UnreadableError:
        return ()
    found = [
        Message(role, content)
        for turn, content in zip(turns, contents, strict=True)
        if isinstance(role := turn.get("role"), str) and content is not None
    ]
    return tuple(found) if len(found) == len(turns) else ()


def prompt_text(value: Any) -> str:
    """The prompt as text: the messages' contents one after another."""
    return value if isinstance(value, str) else _joined(_turns(value))


def requested_text(value: Any) -> str | None:
    """The same without the model's own earlier turns; None where there are none."""
    if isinstance(value, str):
        return without_model_turns(value)
    turns = _turns(value)
    others = [turn for turn in turns if role_of(turn) not in MODEL_SPEAKS]
    return None if len(others) == len(turns) else _joined(others)


def _turns(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = value.get("messages")
    return list(map(unwrap_turn, value)) if isinstance(value, list) else []


def _joined(turns: Iterable[Any]) -> str:
    parts = []
    for message in turns:
        content = message.get("content") if isinstance(message, dict) else message
        try:
            parts.append(join_content(content) or "")
        except UnreadableError:
            continue
    return "\n".join(part for part in parts if part)
