"""Rows without a response body: plain records, the user's own layout, and requests without their text.

A plain record is ``{"id", "response" | "output" | "text" | …, "finish_reason"?, "model"?, …}``. In the user's
own layout, ``--field response=path.to.text`` names where the answer is. Without text, a request's times and
counts alone are enough for `cost`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from stresstest.records.formats.adapter import Place, Row, RowFormat
from stresstest.records.formats.apis.openai import object_in
from stresstest.records.formats.beside import is_prompted, prompt_ends, refuse_whole_answers
from stresstest.records.formats.bodies.answer import RecordedAnswer, read_several
from stresstest.records.formats.bodies.bare import as_body
from stresstest.records.formats.bodies.body import parse_answers
from stresstest.records.formats.bodies.calls import (
    ONLY_TOOL_CALLS,
    has_calls,
    has_tool_call,
    is_nothing,
    message_arguments,
    parts_arguments,
)
from stresstest.records.formats.bodies.content import join_content
from stresstest.records.formats.bodies.reasoning import find_reasoning, join_reasoning
from stresstest.records.formats.fields import FINISH_KEYS, TEXTLESS, TIME_KEYS, answered
from stresstest.records.formats.pieces import join_pieces, refuse_stream
from stresstest.records.formats.vllm_outputs import completion_output
from stresstest.records.record import (
    FieldMapping,
    Record,
    TextlessError,
    UnreadableError,
    describe_type,
    value_at,
)

TEXT_KEYS = (
    *("response", "output", "text", "completion", "generated_text", "content"),
    *("output_text", "model_output", "full_output", "generation", "generations", "prediction"),
)
"""Where a plain record has its text. Not `answer`: in a set of
questions that is the right one, which nobody generated."""
_LISTED = ("output", "generations")
"""Of these, the ones that may hold a list of answers that are objects."""
_FULL_TEXT_KEYS = ("generated_text", "text")
"""Where transformers, TGI and vLLM's demo server put the prompt and the answer."""
ANSWER_KEYS = frozenset({*TEXT_KEYS, "outputs", "choices", "standard_logging_object", "kwargs"})
"""Where the answer of a row may be, in any format but a conversation."""


def text_of(value: Any) -> str:
    """A text, or the texts of a list of parts and what its calls say. UnreadableError where there is none."""
    if isinstance(value, str):
        refuse_stream(value)
    found = join_content(value) if isinstance(value, str | list) else None
    if has_tool_call(value):
        written = parts_arguments(value)
        if not found and is_nothing(written):
            raise TextlessError(ONLY_TOOL_CALLS)
        return (found or "") + written
    if found is None:
        what = "a list without a text" if isinstance(value, list) else describe_type(value)
        raise UnreadableError(f"no text there: {what}")
    return found


def _recognises(row: Row, _mapped: FieldMapping) -> bool:
    return any(row.get(key) is not None for key in TEXT_KEYS)


def _answer_key(row: Row) -> str:
    """The key of the answer. UnreadableError where several hold different texts: any could be the answer.

    Empty ones do not count, and a text that ends in another one, behind the row's prompt, is that answer with
    its prompt. Behind anything else it is the whole answer, and the other one what was read out of it.
    """
    there = [key for key in TEXT_KEYS if row.get(key) is not None]
    texts = {key: text for key in there if (text := _plain_text(row[key]))}
    if len(texts) < 2:
        key = next(iter(texts or there))
        refuse_whole_answers(row, key, [texts.get(key, "")], TEXT_KEYS)
        return key
    shortest = min(texts, key=lambda key: len(texts[key]))
    said = texts[shortest]
    ends = prompt_ends(row)
    if not all(text == said or is_prompted(ends, text.removesuffix(said), text) for text in texts.values()):
        raise UnreadableError(
            f"{' and '.join(map(repr, texts))} differ, and each could be the answer: name it with --field, "
            f"for example --field response={max(texts, key=lambda key: len(texts[key]))}"
        )
    refuse_whole_answers(row, shortest, [said], TEXT_KEYS)
    return shortest


def _plain_text(value: Any) -> str:
    return (join_content(value) or "").strip() if isinstance(value, str | list) else ""


def _records(row: Row, place: Place) -> list[Record]:
    key = _answer_key(row)
    value = row[key]
    if place.format == FORMAT.name:
        place = replace(place, format=repr(key))
    prompted = _may_hold_prompt(row, key)
    several = _several(row, value, listed=key in _LISTED, turn=key == "content" and "role" in row)
    if several:
        return answered(row, read_several(several, _listed), place, prompted=prompted)
    reasoning = find_reasoning(row) or join_reasoning(value)
    text = join_content(value) or "" if reasoning and not has_tool_call(value) else text_of(value)
    return answered(row, [_with_calls(text, reasoning, value, row)], place, prompted=prompted)


def _may_hold_prompt(row: Row, key: str) -> bool:
    """Whether a text may have its prompt before the answer. Where a server says why it ended, it has none."""
    return key in _FULL_TEXT_KEYS or not any(row.get(name) for name in FINISH_KEYS)


def _several(row: Row, value: Any, *, listed: bool = False, turn: bool = False) -> Sequence[Any]:
    """The answers in a list: several samples of one prompt, of which some may have failed (None). listed:
    also of a single one, and of objects. turn: the texts are parts of one message."""
    if not isinstance(value, list) or turn:
        return value if listed and isinstance(value, list) else ()
    texts = [each for each in value if isinstance(each, str)]
    if value and len(texts) == len(value) and (listed or len(value) > 1):
        return join_pieces(row, texts)
    if listed or (len(value) > 1 and texts and all(each is None or isinstance(each, str) for each in value)):
        return value
    return ()


def _with_calls(text: str, reasoning: str, value: Any, holder: Mapping[str, Any]) -> RecordedAnswer:
    """An answer with the arguments of the calls that stand beside its text."""
    beside = message_arguments({**holder, "content": None})
    calls = has_tool_call(value) or has_calls(holder)
    return RecordedAnswer(text + beside, reasoning, calls=calls, known=not holder.get(TEXTLESS))


def _listed(value: Any) -> RecordedAnswer:
    return completion_output(value) if isinstance(value, dict) else RecordedAnswer(text_of(value))


FORMAT = RowFormat("plain record", _recognises, _records)


def _is_timed(row: Row, mapped: FieldMapping) -> bool:
    return bool(row.get(TEXTLESS)) or (mapped.textless and any(row.get(key) is not None for key in TIME_KEYS))


def _timed_records(row: Row, place: Place) -> list[Record]:
    return answered(row, [RecordedAnswer("", known=False)], place)


TIMED_REQUEST = RowFormat("no text kept", _is_timed, _timed_records)


def _is_mapped(_row: Row, mapped: FieldMapping) -> bool:
    return "response" in mapped.fields


def _mapped_records(row: Row, place: Place) -> list[Record]:
    path = place.mapped.fields["response"]
    value = value_at(row, path)
    named = ".".join(map(str, path))
    if value is None:
        raise UnreadableError(f"nothing at {named}")
    place = replace(place, format=repr(named))
    if body := as_body(object_in(value)):
        return answered(row, parse_answers(body), place, body)
    beside = value_at(row, path[:-1]) if path[1:] else row
    holder = beside if isinstance(beside, dict) else {}
    prompted = _may_hold_prompt(row, str(path[-1]))
    if several := _several(row, value, turn="role" in holder):
        return answered(row, read_several(several, _listed), place, prompted=prompted)
    answer = _with_calls(text_of(value), find_reasoning(holder), value, holder)
    return answered(row, [answer], place, prompted=prompted)


USER_MAPPING = RowFormat("layout given by --field", _is_mapped, _mapped_records)
