"""Logs that keep a prompt and its answer as one text: those of transformers' pipelines, of TGI."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from stresstest.records.record import Record

PERHAPS_PROMPTED = " perhaps behind the prompt"
"""In the names of places whose texts may begin with the prompt, and are read from their beginning."""
FULL_TEXT = "'generated_text'"
"""Where transformers and TGI have the prompt before the answer."""
_MOST = 0.9
"""Share of texts that hold their prompt where the log writes it. One that its model repeats is rare."""
_BETWEEN = re.compile(
    r"^\s*(?:(?:\[/INST\]|<\|(?!channel|message|think)[^|<>\s]{1,40}\|>|</?s>|<(?:start|end)_of_turn>"
    r"|(?:assistant|model)[ \t]*\n|A(?:SSISTANT|ssistant):|### Response:)\s*){1,6}"
)
"""What chat templates write between the prompt and the answer. What opens a thought is the answer's."""
_BEGINS = re.compile(
    r"\s*(?:<\||<s>|\[INST\]|<start_of_turn>|(?:system|user)[ \t]*\n"
    r"|(?:SYSTEM|USER|User|Human):|### Instruction:)"
)
"""How a text in a chat template begins."""
_LEAST_PROMPT, _BEFORE, _APART = 32, 8192, 64
"""Characters of a prompt that a text has not by chance, of what a template writes before it, and between the
turns that follow it."""
_LEAST_TRUNCATED = 200
"""Characters that a text and a part of its prompt share where that was cut to fit."""
_MOST_PIECES = 500
"""Turns that are looked for, at each end of a prompt: each may be looked for in all of the text."""
_SHARED = 0.1
"""Share of the texts that begin as a template does, but for what differs in its dates."""
_DATES = re.compile(r"\d+")
_THINKS = re.compile(r"<think|\[THINK\]|<\|channel", re.IGNORECASE)
_WORDS = re.compile(r"\S+")
_MARKS = re.compile(
    r"<\|[^|<>\s]{1,40}\|>|\[/?INST\]|</?s>|<(?:start|end)_of_turn>|<\uff5c[^\uff5c]{1,40}\uff5c>"
)
"""Special tokens of chat templates, which are left out where a text was decoded without them."""
_ROLES = frozenset({"system", "user", "assistant", "model"})


def prompt_in(turns: Sequence[str], text: str) -> tuple[int, int] | None:
    """Where the prompt begins and the answer behind it, in a text that may hold both, in characters; (0, 0)
    where it does not, None where that cannot be told.

    turns: of the prompt, in their template or without one. They are looked for one behind the other, and the
    last long one has to be there, or a long part of the prompt at the beginning of the text, as one that was
    cut to fit leaves it; short ones alone only where the text begins with a template: an answer may begin
    with such a prompt by chance. White space does not count: decoding may leave some out.
    """
    every = (_squeezed(each) for turn in turns for each in _MARKS.split(turn))
    pieces = [piece for piece in every if piece and piece not in _ROLES]
    if not pieces:
        return None
    if len(pieces) > 2 * _MOST_PIECES:
        pieces = [*pieces[:_MOST_PIECES], *pieces[-_MOST_PIECES:]]
    window = text[: sum(map(len, turns)) + len(turns) * _APART + _BEFORE]
    squeezed = _squeezed(window)
    long = [n for n, piece in enumerate(pieces) if len(piece) >= _LEAST_PROMPT]
    if not long:
        if not _BEGINS.match(text):
            return None if squeezed.startswith(pieces[-1]) else (0, 0)
        long = [len(pieces) - 1]
    begin, end, found = -1, 0, False
    for n, piece in enumerate(pieces):
        is_long = len(piece) >= _LEAST_PROMPT or n == long[-1]
        at = squeezed.find(piece, end, None if is_long else end + len(piece) + _APART)
        begin = at if begin < 0 else begin
        end = at + len(piece) if at >= 0 else end
        found = at >= 0 if n == long[-1] else found
    if not found:
        begin, end = 0, _truncated_end("".join(pieces), squeezed)
    return (_unsqueezed(window, begin), _unsqueezed(window, end)) if end else (0, 0)


def _truncated_end(prompt: str, text: str) -> int:
    """Where the prompt ends with which a text begins, if it was cut at its end or its beginning to fit
    (`truncation=True`); 0 where the text begins with something else. Both without white space."""
    differ = (n for n, (one, other) in enumerate(zip(prompt, text, strict=False)) if one != other)
    shared = next(differ, min(len(prompt), len(text)))
    if shared >= _LEAST_TRUNCATED:
        return shared
    end = text.find(prompt[-_LEAST_PROMPT:]) + _LEAST_PROMPT
    cut = end >= _LEAST_TRUNCATED and prompt.endswith(text[:end])
    return end if cut else 0


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _unsqueezed(text: str, end: int) -> int:
    """The index in the text behind its first `end` characters that are not white space."""
    seen = 0
    for word in _WORDS.finditer(text):
        if seen + len(word[0]) >= end:
            return word.start() + end - seen
        seen += len(word[0])
    return len(text)


def without_prompts(records: Sequence[Record]) -> Sequence[Record]:
    """The records with answers alone, where nearly all of their texts hold the prompt: positions are the
    answer's. A text that has its prompt twice stays: that may be an echo. One that is nothing but its prompt
    is an answer without text. What stands before a prompt is a template's where many texts begin with it: an
    answer restates its prompt behind words of its own."""
    heads = [_head(record) if record.answer_at else None for record in records]
    looked_at = sum(record.answer_at is not None for record in records)
    shared, least = Counter(heads), max(1.0, _SHARED * looked_at)
    held = [head is not None and _is_template(head, shared[head] >= least) for head in heads]
    if sum(held) < max(1, _MOST * looked_at):
        return [_marked(record, begins) for record, begins in zip(records, held, strict=True)]
    return [
        _without_prompt(record) if begins or not record.answer_at else record
        for record, begins in zip(records, held, strict=True)
    ]


def _head(record: Record) -> str:
    """What stands before the prompt, without the numbers of dates."""
    return _DATES.sub("", _squeezed(record.text[: record.prompt_at]))


def _is_template(head: str, is_shared: bool) -> bool:
    return not _THINKS.search(head) and (len(head) <= _APART or is_shared)


def _marked(record: Record, begins: bool) -> Record:
    """The record, its place marked where its text begins with its prompt, or may. A short prompt is not
    looked for, and may be the end of a longer one."""
    short = record.read_from == FULL_TEXT and record.answer_at == 0 and record.prompt_text
    if begins or (short and 0 < len(_squeezed(record.prompt_text)) < _LEAST_PROMPT):
        return replace(record, read_from=f"{record.read_from}{PERHAPS_PROMPTED}")
    return record


def _without_prompt(record: Record) -> Record:
    said = _BETWEEN.sub("", record.text[record.answer_at :], count=1) if record.answer_at else ""
    again = _squeezed(record.prompt_text)
    if not record.answer_at or (again and again in _squeezed(said)) or record.hole is not None:
        return record
    if not said.strip():  # nothing, or an echo: nobody knows
        return replace(record, text="", has_text=False)
    return replace(record, text=said.lstrip(), answer_at=0, read_from=f"{record.read_from} behind the prompt")
