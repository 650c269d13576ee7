"""Which log a line comes from, by its keys: plain, OpenAI batch output, bodies, LiteLLM, vLLM, OpenTelemetry.

Every shape ends in the same :class:`Record`. Nothing is guessed from values; what is not there is None.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from stresstest.records.answers import ONLY_TOOL_CALLS, Answer, answers, calls_tools, is_body, joined
from stresstest.records.mapping import TARGETS, Mapped, follow, kind, parse_path, seconds, text, whole
from stresstest.records.otel import is_otel, span_rows
from stresstest.records.record import Raw, Record, TextlessError, UnreadableError

TEXT_KEYS = (
    *("response", "output", "text", "completion", "generated_text", "content"),
    *("output_text", "model_output", "generation", "generations", "prediction"),
)
"""Where a plain answer's text stands: the first of these that is there. Not `answer`: in a set of questions
that is the right one, which nobody generated."""
_LISTED = ("output", "generations")
"""Of these, the ones that may hold a list of answers."""
ANSWER_KEYS = frozenset({*TEXT_KEYS, "outputs", "choices", "standard_logging_object", "kwargs"})
"""Where the answer of a line may stand."""
_FINISH_KEYS = ("finish_reason", "stop_reason")
_CAP_KEYS = ("max_tokens", "max_completion_tokens", "max_new_tokens", "max_output_tokens")
_START_KEYS = ("start", "startTime", "start_time")
_END_KEYS = ("end", "endTime", "end_time")
_FIRST_TOKEN_KEYS = ("first_token", "completionStartTime", "completion_start_time")
_TIMES = (*_START_KEYS, *_END_KEYS)
_PROMPT_KEYS = ("messages", "prompt", "input")
_TURNS = (("messages", "role", "content"), ("conversations", "from", "value"))
"""A conversation, who speaks in it, and what is said: chats as OpenAI has them, and ShareGPT's."""
_MODEL_SPEAKS = frozenset({"assistant", "gpt", "model", "chatgpt", "bot"})
_NAMED_KEYS = 12
_ID_KEYS = ("id", "custom_id", "request_id")
_LANGUAGE_KEYS = ("language", "lang")
_STANDARD = "standard_logging_object"


def records(raw: Raw, source: str, line: int, mapped: Mapped) -> list[Record]:
    """The answers of one line, one for each choice or span. Raises UnreadableError with the reason."""
    row = raw if isinstance(raw, dict) else parsed(raw)
    if not mapped.fields and is_otel(row):
        return _of_spans(row, source, line, mapped)
    return _of_row(_conversation(_unwrapped(row), mapped), source, line, mapped)


def _of_spans(row: dict[str, Any], source: str, line: int, mapped: Mapped) -> list[Record]:
    """Every generation of an export; those that kept no text are left out unless they are asked for."""
    found = span_rows(row)
    wanted = [each for each in found if mapped.textless or "response" in each]
    if not wanted:
        raise UnreadableError("spans without the text of an answer" if found else "no span of a generation")
    return [record for each in wanted for record in _of_row(each, source, line, mapped)]


def _of_row(row: dict[str, Any], source: str, line: int, mapped: Mapped) -> list[Record]:
    body, about = _body(row, mapped)
    found = _answers(row, body, mapped)
    base = _base(row, body, about, source, line, mapped)
    several = len(found) > 1
    return [
        replace(
            base,
            id=f"{base.id}#{n}" if several else base.id,
            text=answer.text,
            has_text=answer.known,
            reasoning=answer.reasoning,
            finish_reason=answer.finish_reason or base.finish_reason,
            tokens=answer.tokens,
            prompt_key=base.prompt_key or (f"{source}:{line}" if several else None),
            # The body's usage is of all its choices together.
            completion_tokens=None if several else base.completion_tokens,
        )
        for n, answer in enumerate(found)
    ]


def parsed(raw: bytes) -> dict[str, Any]:
    """One JSON object. Raises UnreadableError: no JSON, no UTF-8, no object."""
    try:
        row = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError as bad:
            raise UnreadableError(f"not UTF-8 (byte {bad.start + 1})") from None
        raise UnreadableError(f"not JSON ({_first(str(error))})") from None
    if not isinstance(row, dict):
        raise UnreadableError(f"{kind(row)}, not an object")
    return row


def _unwrapped(row: dict[str, Any]) -> dict[str, Any]:
    """LiteLLM's callbacks write their payload inside `standard_logging_object`, or that inside `kwargs`."""
    for outer in (row, row.get("kwargs")):
        if isinstance(outer, dict) and isinstance(outer.get(_STANDARD), dict):
            return dict(outer[_STANDARD])
    return row


def _conversation(row: dict[str, Any], mapped: Mapped) -> dict[str, Any]:
    """A row whose answer is the last turn of its conversation: that turn, apart from what it answers.

    As it is where the model does not speak last: then all of it is a prompt.
    """
    if "response" in mapped.fields or not ANSWER_KEYS.isdisjoint(row):
        return row
    for key, speaker, said in _TURNS:
        turns = row.get(key)
        if not isinstance(turns, list) or not turns or not isinstance(turns[-1], dict):
            continue
        last = turns[-1]
        if str(last.get(speaker)).lower() in _MODEL_SPEAKS:
            if last.get(said) is None:
                if last.get("tool_calls"):
                    raise TextlessError(ONLY_TOOL_CALLS)
                return row
            before = [{"content": turn.get(said)} for turn in turns[:-1] if isinstance(turn, dict)]
            return {**row, "response": last.get(said), "messages": before}
    return row


def _body(row: dict[str, Any], mapped: Mapped) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """The response body of a line, if it has one, and the request's parameters."""
    about: dict[str, Any] = {}
    for key in ("request", "body", "model_parameters", "params", "sampling_params", "optional_params"):
        if isinstance(row.get(key), dict) and not is_body(row[key]):
            about = {**row[key].get("body", {}), **row[key]} if _nested(row[key]) else {**about, **row[key]}
    if "response" in mapped.fields:
        return None, about
    if is_body(row):
        return row, about
    response = _object(row.get("response"))
    if response is None and isinstance(row.get("output"), dict):
        response = row["output"]
    if response is not None:
        if "status_code" in response or "body" in response:
            return _batch_body(row, response), about
        if is_body(response):
            return response, about
    elif row.get("response", "") is None or row.get("status") == "failure":
        raise UnreadableError(_failure(row))
    return None, about


def _nested(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("body"), dict)


def _batch_body(row: Mapping[str, Any], response: Mapping[str, Any]) -> dict[str, Any]:
    """OpenAI's batch output: {"custom_id", "response": {"status_code", "body"}, "error"}."""
    status, body = response.get("status_code"), _object(response.get("body"))
    if (isinstance(status, int) and status >= 400) or body is None:
        raise UnreadableError(_failure(row, status))
    if not is_body(body):
        raise UnreadableError("the response body holds no answer")
    return body


def _failure(row: Mapping[str, Any], status: Any = None) -> str:
    error = row.get("error") or row.get("error_str")
    code = error.get("code") if isinstance(error, dict) else None
    known = [str(each) for each in (status, code) if isinstance(each, int | str)]
    return f"the request failed ({', '.join(known)})" if known else "the request failed: no response"


def _object(value: Any) -> dict[str, Any] | None:
    """An object, or the object that a string holds (LiteLLM's spend logs keep JSON as text)."""
    if isinstance(value, str) and value.startswith("{") and value.endswith("}") and '"choices"' in value:
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _answers(row: Mapping[str, Any], body: dict[str, Any] | None, mapped: Mapped) -> list[Answer]:
    if "response" in mapped.fields:
        value = follow(row, mapped.fields["response"])
        if value is None:
            raise UnreadableError(f"nothing at {'.'.join(map(str, mapped.fields['response']))}")
        return [Answer(_plain(value))]
    if body is not None:
        return answers(body)
    for key in TEXT_KEYS:
        if row.get(key) is not None:
            value = row[key]
            outputs = value if key in _LISTED and isinstance(value, list) else None
            return [_listed(each) for each in outputs] if outputs else [Answer(_plain(value))]
    outputs = row.get("outputs")
    if isinstance(outputs, list) and outputs:  # vLLM's RequestOutput, dumped
        return [_completion_output(each) for each in outputs]
    if isinstance(outputs, str):
        return [Answer(outputs)]
    if mapped.textless and any(row.get(key) is not None for key in _TIMES):
        return [Answer("", known=False)]
    named = [str(key)[:40] + " (a list)" * isinstance(value, list) for key, value in row.items()]
    more = f" and {len(named) - _NAMED_KEYS} more keys" if len(named) > _NAMED_KEYS else ""
    there = f": it has {', '.join(named[:_NAMED_KEYS])}{more}" if named else ""
    raise UnreadableError(f"no text in it{there}")


def _listed(value: Any) -> Answer:
    return _completion_output(value) if isinstance(value, dict) else Answer(_plain(value))


def _plain(value: Any) -> str:
    found = joined(value) if isinstance(value, str | list) else None
    if found is None:
        if calls_tools(value):
            raise TextlessError(ONLY_TOOL_CALLS)
        what = "a list without a text" if isinstance(value, list) else kind(value)
        raise UnreadableError(f"no text there: {what}")
    return found


def _completion_output(value: Any) -> Answer:
    if isinstance(value, str):
        return Answer(value)
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        raise UnreadableError("no text in it")
    return Answer(value["text"], finish_reason=text(value.get("finish_reason")))


def _base(
    row: Mapping[str, Any],
    body: Mapping[str, Any] | None,
    about: Mapping[str, Any],
    source: str,
    line: int,
    mapped: Mapped,
) -> Record:
    """Everything but the answer, from the user's mapping first, then the line, its body, its request."""
    places = [row, *([] if body is None else [body]), about]
    usage = [p["usage"] for p in places if isinstance(p.get("usage"), dict)]

    def at(name: str, *keys: str, within: list[Any] = places) -> Any:
        if name in mapped.fields:
            return follow(row, mapped.fields[name])
        return next((p[k] for p in within for k in keys or (name,) if p.get(k) is not None), None)

    prompt = _prompt(at("prompt", *_PROMPT_KEYS))
    prompt_id = text(at("prompt_id"))
    finish = text(at("finish_reason", *_FINISH_KEYS))
    counted = _counted(row, body)
    return Record(
        id=text(at("id", *reversed(_ID_KEYS) if "custom_id" in row else _ID_KEYS)) or f"{source}:{line}",
        source=source,
        line=line,
        text="",
        model=text(at("model")),
        task=text(at("task")),
        language=text(at("language", *_LANGUAGE_KEYS)),
        finish_reason=None if finish == "streaming_complete" else finish,
        max_tokens=whole(at("max_tokens", *_CAP_KEYS)),
        prompt_tokens=whole(at("prompt_tokens", "prompt_tokens", "input_tokens", within=[*usage, row])),
        completion_tokens=whole(
            at("completion_tokens", "completion_tokens", "output_tokens", within=[*usage, row])
        )
        or counted,
        start=seconds(at("start", *_START_KEYS)),
        end=seconds(at("end", *_END_KEYS)),
        first_token=seconds(at("first_token", *_FIRST_TOKEN_KEYS)),
        prompt_text=prompt,
        prompt_key=prompt_id or (digest(prompt) if prompt else None),
        extra={key: value for key in mapped.keys if (value := _extra(row, body, key, mapped)) is not None},
    )


def _counted(row: Mapping[str, Any], body: Mapping[str, Any] | None) -> int | None:
    """How many token ids the answer has, where they were kept (vLLM's `return_token_ids`, its dumps)."""
    choices = (body or {}).get("choices") or row.get("outputs")
    holder = choices[0] if isinstance(choices, list) and len(choices) == 1 else row
    for key in ("token_ids", "output_token_ids"):
        if isinstance(holder, dict) and isinstance(holder.get(key), list) and holder[key]:
            return len(holder[key])
    return None


def _extra(row: Mapping[str, Any], body: Mapping[str, Any] | None, key: str, mapped: Mapped) -> str | None:
    if key in TARGETS:
        return None
    path = mapped.fields.get(key) or parse_path(key)
    for place in (row, row.get("metadata"), body):
        value = text(follow(place, path)) if place is not None else None
        if value is not None:
            return value
    return None


def _prompt(value: Any) -> str:
    """What was asked, as text: the messages' contents one after another."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        value = value.get("messages")
    if not isinstance(value, list):
        return ""
    parts = []
    for message in value:
        content = message.get("content") if isinstance(message, dict) else message
        try:
            parts.append(joined(content) or "")
        except UnreadableError:
            continue
    return "\n".join(part for part in parts if part)


def digest(value: str) -> str:
    """A short stable name of a text."""
    return hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _first(message: str) -> str:
    return message.splitlines()[0][:80].rstrip(".") if message else "damaged"
