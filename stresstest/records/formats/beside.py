"""Texts that a row keeps beside its answer, any of which may be the whole of what the model wrote.

Evaluations keep what they read out of an answer ("42") under a name that is known here, and the answer under
one of their own. Of a loop nothing can be read ("[invalid]"), so that the failing answers are the ones that
would pass. Such rows are refused until the user names the answer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any

from stresstest.config.credentials.texts import hide_credentials
from stresstest.model.texts.copies import ends_in_copies
from stresstest.records.formats.adapter import Row
from stresstest.records.formats.asked import PROMPT_KEYS, prompt_text
from stresstest.records.formats.bodies.body import is_body, parse_answers
from stresstest.records.formats.bodies.choices import has_choices
from stresstest.records.formats.bodies.reasoning import REASONING_KEYS
from stresstest.records.formats.fields import ASKED_KEYS
from stresstest.records.formats.json_values import structure_in
from stresstest.records.record import UnreadableError

PREDICTED_KEYS = ("pred", "predicted", "generated")
"""Where evaluations keep what the model wrote, or only a label: the user has to say so with --field."""
_WORDS = re.compile(r"[a-z]+")
_ANSWER_WORDS = frozenset(
    {"raw", "response", "output", "completion", "generation", "generated", "prediction", "predicted", "gen"}
    | {"answer", "assistant", "llm", "decoded", "cot", "thought", "thoughts", "thinking", "reasoning"}
    | {"scratchpad", "trace"}
)
_OTHER_WORDS = frozenset(
    {"prompt", "input", "question", "request", "context", "reference", "expected", "gold", "target", "human"}
    | {"correct", "label", "chosen", "rejected", "student", "user", "previous", "tool", "search", "document"}
    | {"html", "transcript", "messages", "instructions", "guidelines", "format", "metadata", "docs", "stack"}
    | {"teacher", "a", "b"}
)
"""Words in the names of keys under which answers are kept, and of those that hold something else."""
_NOUNS = frozenset({"response", "output", "completion", "generation", "prediction", "answer"})
_QUALIFIERS = frozenset(
    {"raw", "full", "unparsed", "unprocessed", "model", "llm", "ai", "assistant", "generated", "predicted"}
    | {"text"}
)
_THOUGHTS = frozenset({"cot", "scratchpad", "thought", "reasoning"})
"""Names of whole answers: a noun with qualifiers ("raw_output"), "raw" alone, a word for thoughts."""
_MIN_LONGER, _MIN_CHARS = 8, 400
"""How many times as long as the answer, and how long, a text is beside which the answer looks extracted."""
_MOST_ANSWERS = 16
"""Answers of one row that are looked for in the texts beside them."""
_MOST_PARTS = 16
"""Texts of one row that are looked for in its answers, which may be long."""
_LONGEST_NAME = 200
"""Characters of a field's name that are shown."""
_LEAST_COPIES = 200
"""Characters that the copies at the end of a text need before it is refused whatever its key's name."""
_PROMPT_END = 100
"""Characters at the end of a prompt by which it is recognised in a text."""
_TEMPLATE = 200
"""Characters that a template, or the cue of an evaluation, has between a prompt and its answer."""
_DEPTH = 6
_Path = tuple[str, ...]


def refuse_whole_answers(row: Row, key: str, said: Sequence[str], read: Collection[str]) -> None:
    """Raise UnreadableError if an answer may have been extracted from a longer text beside it, or if a text
    that is not judged ends in repetitions and an answer does not.

    said: the answers, of which the first few are looked for. read: keys of what is read as an answer, and is
    told apart from this one elsewhere.
    """
    judged = {each.strip() for each in said}
    said, ends, parts = said[:_MOST_ANSWERS], None, 0
    least = max(_MIN_LONGER * min(map(len, said), default=0), _MIN_CHARS)
    for name, value in row.items():
        if name in read or name in REASONING_KEYS or not isinstance(value, str | list | dict):
            continue
        if isinstance(value, str) and len(value) < _MIN_CHARS:
            continue
        named = _is_named(name)
        if named is None and name in ASKED_KEYS:
            continue
        for path, text in _texts(value, (name,)):
            if len(text) < _MIN_CHARS or text.strip() in judged:
                continue
            ends = prompt_ends(row) if ends is None else ends
            before = next((text.removesuffix(each) for each in said if each and text.endswith(each)), text)
            if is_prompted(ends, before, text):
                continue
            if named is not None and len(text) >= least and (named or _holds_any(text, said)):
                why = f"is far longer than {key!r}, which may have been read out of it"
            elif name not in ASKED_KEYS and _loops(text) and not all(map(ends_in_copies, said)):
                why = f"ends in repetitions, and {key!r} is judged"
            else:
                continue
            parts += 1
            if parts > _MOST_PARTS or not any(text.strip() in each for each in said):
                raise _unread(path, why)


def _holds_any(text: str, said: Sequence[str]) -> bool:
    folded = text.casefold()
    return any(
        len(text) >= max(_MIN_LONGER * len(each), _MIN_CHARS) and each.casefold() in folded for each in said
    )


def _loops(text: str) -> bool:
    return ends_in_copies(text, _LEAST_COPIES) and any(map(str.isalpha, text[-_LEAST_COPIES:]))


def _unread(path: _Path, why: str) -> UnreadableError:
    where = hide_credentials(".".join(path)[:_LONGEST_NAME])
    return UnreadableError(
        f"{hide_credentials(path[0][:_LONGEST_NAME])!r} {why}: name the answer with --field, for example "
        f"--field response={where}"
    )


def _is_named(name: str) -> bool | None:
    """True if the key names a whole answer, False if it may, None if it does not."""
    found = _WORDS.findall(name.lower())
    words = {word.removesuffix("s") for word in found}
    if not (words | set(found)) & _ANSWER_WORDS or (words | set(found)) & _OTHER_WORDS:
        return None
    noun = bool(words & _NOUNS) and words <= _NOUNS | _QUALIFIERS
    return noun or words == {"raw"} or bool(words & _THOUGHTS)


def _texts(value: Any, path: _Path, depth: int = _DEPTH) -> Iterator[tuple[_Path, str]]:
    """Every text in a value, with the path to it: of a response body its answers alone, of a JSON text those
    in what it holds, with the path to the JSON text."""
    if isinstance(value, str):
        text = value.strip()
        found = structure_in(text) if depth == _DEPTH else None
        if found is not None:
            yield from ((path, inner) for _, inner in _texts(found, path, depth - 1))
        else:
            yield path, text
    elif is_body(value):
        with suppress(UnreadableError):
            for n, answer in enumerate(parse_answers(value)):
                inner = ("choices", str(n), "message", "content") if has_choices(value) else ()
                yield (*path, *inner), answer.reasoning + answer.text
    elif depth and isinstance(value, dict):
        for key, each in value.items():
            yield from _texts(each, (*path, str(key)), depth - 1)
    elif depth and isinstance(value, list):
        for n, each in enumerate(value):
            yield from _texts(each, (*path, str(n)), depth - 1)


def prompt_ends(row: Row) -> list[str]:
    """How the row's prompts end, by which they are recognised in a text."""
    ends = (prompt_text(row.get(key)).strip()[-_PROMPT_END:] for key in PROMPT_KEYS)
    return [end for end in ends if end]


def is_prompted(ends: Sequence[str], before: str, text: str) -> bool:
    """Whether what stands before the answer in a text is the row's prompt, in its template or without one. An
    answer that restates its prompt goes on behind it."""
    return before != text and any(end in before[-len(end) - _TEMPLATE :] for end in ends)
