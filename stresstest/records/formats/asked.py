"""What a row asked the model for: the prompt, its turns, and what stands beside them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stresstest.detectors.text.templated import asked_in, without_model_turns
from stresstest.model import Message
from stresstest.model.texts.times_and_ids import steady, without_times_and_ids
from stresstest.records.formats.adapter import Row
from stresstest.records.formats.bodies.answer import RecordedAnswer
from stresstest.records.formats.bodies.content import join_content
from stresstest.records.formats.bodies.turns import (
    asks,
    before_the_answer,
    beside_text,
    refuse_longer_ending,
    unwrap_turn,
)
from stresstest.records.formats.json_values import structure_in
from stresstest.records.record import FieldMapping, Record, UnreadableError, as_text, value_at

PROMPT_KEYS = ("messages", "prompt", "input", "inputs")
APART = (
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
SHAPING = ("tools", "functions", "chat_template_kwargs")
"""Keys of what makes another prompt of the same turns, and is no text of them."""
_LETTERS = str.maketrans("0123456789", "ghijklmnop")
MAX_TURNS = 100_000
"""Turns of one prompt: each takes twenty times its bytes once it is read."""
FLATTENED = "prompt_flattened"
"""Set where a log keeps the turns of a prompt as one text."""
_QUESTION_KEYS = ("question", "query", "instruction", "user_input")
"""Where evaluations keep what was asked, beside what else the prompt holds."""


def count_prompts(prompt: Any) -> int:
    """The prompts of a request for a plain completion: one is a text or its token ids."""
    several = isinstance(prompt, list) and bool(prompt) and not isinstance(prompt[0], int)
    return len(prompt) if several else 1


@dataclass(frozen=True, slots=True)
class Fields:
    """Where the fields of a record are looked for: by the user's mapping in the row, else in the places, the
    row, its body and its request, in this order."""

    row: Row
    places: Sequence[Mapping[str, Any]]
    mapped: FieldMapping

    def at(self, name: str, *keys: str, within: Sequence[Mapping[str, Any]] | None = None) -> Any:
        """The first value under one of the keys, else None. within: places instead of these."""
        if name in self.mapped.fields:
            return value_at(self.row, self.mapped.fields[name])
        places = self.places if within is None else within
        return next((p[k] for p in places for k in keys or (name,) if p.get(k) is not None), None)


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt, as `Record` keeps it. key: what answers to it share; None where it is not known. requested:
    its text without the model's earlier turns. whole: text and messages are all of it."""

    text: str
    requested: str | None
    messages: tuple[Message, ...]
    key: str | None
    whole: bool


def read_asked(fields: Fields, found: Sequence[RecordedAnswer], *, beside_body: bool) -> Asked:
    """What a row's answers answer. beside_body: they come from a response body. Raises UnreadableError where
    the turns end in a longer text than the answer, or are too many."""
    asked = _find(fields)
    turns = _turns(asked)
    if len(turns) > MAX_TURNS:
        raise UnreadableError(f"more than {MAX_TURNS:,} turns")
    if turns:
        asked = turns = before_the_answer(turns, found)
        if not beside_body and "response" not in fields.mapped.fields:
            refuse_longer_ending(asked, found)
    prompt, messages, beside = prompt_text(asked), _messages(asked), beside_text(turns)
    if asked:
        there = set().union(*fields.places)
        apart = (key for key in APART if key in there)
        beside += "".join(
            _shown(key, given) for key in apart if _is_apart(key, given := fields.at(key), prompt)
        )
    # An object of the caller's own (Langfuse's arguments, Braintrust's fields), or the ids of tokens.
    unread = json.dumps(asked, sort_keys=True, default=str) if asked and not (prompt or beside) else ""
    key = as_text(fields.at("prompt_id"))
    if (prompt or beside or unread) and not key:
        shaped = "".join(repr(given) for name in SHAPING if (given := fields.at(name)))
        key = prompt_key(prompt or unread, beside + shaped)
    whole = not (beside or unread or fields.row.get(FLATTENED)) and bool(messages or not turns)
    return Asked(prompt, requested_text(asked), messages, key, whole)


def _find(fields: Fields) -> Any:
    asked = _decoded(fields.at("prompt", *PROMPT_KEYS))
    if asked or "prompt" in fields.mapped.fields:
        return asked
    # LiteLLM's spend logs have empty messages beside the request.
    there = (_decoded(place.get(key)) for place in fields.places for key in PROMPT_KEYS)
    return next(filter(None, there), None) or _question(fields.row) or _requested(fields.row.get("request"))


def _question(row: Row) -> str | None:
    return next((said for key in _QUESTION_KEYS if isinstance(said := row.get(key), str)), None)


def _requested(request: Any) -> Any:
    """What the text of a request asked (a column of MLflow's traces): in its JSON, or as it is."""
    if not isinstance(request, str):
        return None
    inner = structure_in(request)
    if not isinstance(inner, dict):
        return request
    return (
        next(filter(None, (_decoded(inner.get(key)) for key in PROMPT_KEYS)), None)
        or _question(inner)
        or request
    )


def asked_turns(row: Row, record: Record) -> Sequence[str]:
    """The turns of the prompt, as a text may hold them."""
    if record.messages:
        return [turn.content for turn in record.messages]
    return [record.prompt_text or _question(row) or ""]


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
    """The same without the model's own earlier turns and the results of tools, also where an application has
    put them into a message; None where there are none."""
    if isinstance(value, str):
        return without_model_turns(value)
    turns = _turns(value)
    others = list(filter(asks, turns))
    return asked_in(list(_contents(others)), all_of_them=len(others) == len(turns))


def _turns(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = value.get("messages")
    return list(map(unwrap_turn, value)) if isinstance(value, list) else []


def _joined(turns: Iterable[Any]) -> str:
    return "\n".join(_contents(turns))


def _contents(turns: Iterable[Any]) -> Iterator[str]:
    for message in turns:
        content = message.get("content") if isinstance(message, dict) else message
        try:
            text = join_content(content)
        except UnreadableError:
            continue
        if text:
            yield text
