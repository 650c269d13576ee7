"""Tokens that a server counts and does not show: reasoning kept back by a gateway, or padding without text.

Nobody knows whether they were sound, so an answer that holds them is not healthy on their account.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from stresstest.detectors.text.thinking import last_closing_mark
from stresstest.model import GenerationVerdict, Token
from stresstest.model.tokens import MIN_UNSEEN_TOKENS

_LETTERS = re.compile(r"[A-Za-z]+")
_BLANKS = re.compile(r"[ \t]+")


def count_unseen(tokens: Sequence[Token], counted: int) -> int:
    """How many of the counted tokens are surely not in the text that arrived: below `MIN_UNSEEN_TOKENS` only
    all of them. tokens: as they arrived. counted: by the server."""
    text = "".join(token.text for token in tokens)
    if not text:
        return counted
    if counted - len(tokens) < MIN_UNSEEN_TOKENS:
        return 0
    unseen = counted - max(len(tokens), most_tokens(text))
    return unseen if unseen >= MIN_UNSEEN_TOKENS else 0


def count_hidden_reasoning(tokens: Sequence[Token], counted: int) -> int:
    """How many tokens of reasoning are surely not in what arrived as such; fewer than `MIN_UNSEEN_TOKENS`
    count as none. counted: tokens of reasoning, by the server.

    Reasoning that is left in the text ends with a mark, also where it began in the prompt.
    """
    if counted < MIN_UNSEEN_TOKENS:
        return 0
    shown = "".join(token.text for token in tokens if token.reasoning)
    if not shown:
        text = "".join(token.text for token in tokens)
        shown = text[: last_closing_mark(text)]
    hidden = counted - most_tokens(shown)
    return hidden if hidden >= MIN_UNSEEN_TOKENS else 0


def most_tokens(text: str) -> int:
    """More tokens than any usual tokenizer makes of a text: one for two letters, a sign, a digit, or a byte
    of anything else; words come with their blanks."""
    letters = _LETTERS.findall(text)
    rest = len(_BLANKS.sub("", text).encode("utf-8", "surrogatepass")) - sum(map(len, letters))
    return sum((len(word) + 1) // 2 for word in letters) + rest


def observe_shown(verdict: GenerationVerdict, counted: int) -> GenerationVerdict:
    """The verdict of an answer with unseen tokens that did not visibly fail: nothing of it is observed, since
    they may have come first."""
    if verdict.degenerate:
        return verdict
    return replace(verdict, tokens=max(verdict.tokens, counted), observed=0)
