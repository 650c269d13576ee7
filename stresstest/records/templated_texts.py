"""Texts of a chat template that hold a prompt and its answer, in a log without prompts beside them: what
pipelines and `batch_decode` of transformers return."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from stresstest.detectors.extra_turns.marks import HEAD, MODEL, ROLE_TOKEN, USER, any_of
from stresstest.records.formats.asked import prompt_key
from stresstest.records.record import Record

SEVERAL_TURNS = " with several turns"
"""Behind the place of a text that holds a whole conversation."""
_MOST = 0.9
"""Share of texts that are such. Of a model that writes such turns itself, a few are."""
_PREAMBLE = 4096
"""Characters of a system prompt that a template writes without a mark, before the user's turn."""
_START = (
    r"(?:<s>|<bos>|<\|begin_of_text\|>|<\|startoftext\|>|<｜begin▁of▁sentence｜>|<\|endoftext\|>|<pad>|\s)*"
)
_TEMPLATES = tuple(
    (re.compile(user), re.compile(model))
    for user, model in (
        (rf"{any_of(USER)}|{ROLE_TOKEN}system|<\|system\|>", rf"(?:{any_of(MODEL)}){HEAD}"),
        (r"\[INST\]", r"\[/INST\]"),
        (r"(?m:^)(?:system|user)[ \t]*\n", r"\n(?:assistant|model)[ \t]*\n|(?<=\S)assistant\n\n"),
        (r"(?m:^)(?:system|user)(?=\S)", r"\nassistant(?=\S)"),
        (r"(?m:^|(?<=[.!?] ))(?:USER|User|Human):", r"(?<=\s)(?:ASSISTANT|Assistant):"),
        (r"(?m:^)### (?:Instruction|Input|User|Human):", r"\n### (?:Response|Assistant):"),
    )
)
"""How a turn of the system's or the user's begins, and one of the model's: in special tokens, Llama 2's and
Mistral's, special tokens that were skipped (Llama 3 has no line break before a role, Granite none behind it),
Vicuna's, Alpaca's."""
_LEADING = re.compile(_START)


class _Turns(NamedTuple):
    """preamble: what stands before the first turn. asked: where that begins. said: where the model's first
    turn begins. several: it has others."""

    preamble: str
    asked: int
    said: int
    several: bool


def without_templated_prompts(records: Sequence[Record]) -> Sequence[Record]:
    """The records with answers alone, where nearly all texts that may hold a prompt begin with one in a chat
    template, after a preamble that most share. Where nearly all have one turn of the model's, what follows it
    in the others stays: the model wrote it itself. Else nobody can tell, and those others are marked."""
    places = [n for n, record in enumerate(records) if _may_hold_prompt(record)]
    found: dict[int, _Turns] = {}
    for looked_at, n in enumerate(places):
        if looked_at - len(found) > (1 - _MOST) * len(places):
            return records
        if turns := _turns(records[n].text):
            found[n] = turns
    preambles = Counter(turns.preamble for turns in found.values())
    most = len(found) / 2
    found = {n: t for n, t in found.items() if not t.preamble or preambles[t.preamble] >= most}
    if len(found) < max(1, _MOST * len(places)):
        return records
    singly = sum(not turns.several for turns in found.values()) >= _MOST * len(places)
    told = list(records)
    for n, turns in found.items():
        if singly or not turns.several:
            told[n] = _behind(records[n], turns)
        else:
            read_from = f"{records[n].read_from}{SEVERAL_TURNS}"
            told[n] = replace(records[n], read_from=read_from, several_turns=True)
    return told


def _may_hold_prompt(record: Record) -> bool:
    """Where a server says why an answer ended, its text has no prompt, but for TGI's."""
    served = record.finish_reason is not None and "generated_text" not in record.read_from
    return (
        not (served or record.prompt_text or record.messages)
        and record.answer_at is None
        and record.has_text
        and record.hole is None
        and record.tokens is None
    )


def _turns(text: str) -> _Turns | None:
    begins = _LEADING.match(text)
    at = begins.end() if begins else 0
    for user, model in _TEMPLATES:
        asked = user.search(text, at, at + _PREAMBLE)
        first = model.search(text, asked.end()) if asked else None
        if asked and first:
            several = model.search(text, first.end()) is not None
            return _Turns(text[at : asked.start()].strip(), asked.start(), first.end(), several)
    return None


def _behind(record: Record, turns: _Turns) -> Record:
    said, prompt = record.text[turns.said :].lstrip(), record.text[turns.asked : turns.said]
    key = record.prompt_key or prompt_key(prompt)
    if not said:  # nothing, or an echo: nobody knows
        return replace(record, text="", has_text=False, prompt_text=prompt, prompt_key=key)
    read_from = f"{record.read_from} behind the prompt"
    return replace(record, text=said, prompt_text=prompt, prompt_key=key, answer_at=0, read_from=read_from)
