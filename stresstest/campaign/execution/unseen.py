"""Tokens that a server counts and does not show: reasoning kept back by a gateway, or padding without text.

Nobody knows whether they were sound, so an answer that holds them is not healthy on their account.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from stresstest.campaign.execution.token_scale import is_cut_to_size, pieces_of
from stresstest.detectors.text.thinking import last_closing_mark
from stresstest.model import GenerationVerdict, Token
from stresstest.model.tokens import MIN_UNSEEN_TOKENS

_LETTERS = re.compile(r"[A-Za-z]+")
_BLANKS = re.compile(r"[ \t]+")
_MARK_BETWEEN = re.compile(r"\w[、。，！？；：]\w")
_MOST_JOINED = 0.02
"""Share of events with more than one word from which on they are no tokens."""
_LEAST_SHARE = 0.03
"""Unseen tokens, at least, as a share of all: a few events of a long answer may hold two within one word."""
_LEAST_WITHIN = 0.01
"""Share of events that begin within a word from which on they are tokens: usually 0.05 in English, more in
other languages."""
_MARKED = re.compile(r"[^\W\d_][.,;:!?)\"”»]")
_MOST_MARKED, _FEWEST_MARKS = 0.5, 4
"""Where fewer do, as in simple prose: words whose mark is in the same event, at most, as a share of all."""
_SHORT = 3
"""Pieces cut to this size are as many as tokens, or more."""


def count_unseen(tokens: Sequence[Token], counted: int, events: Sequence[int] = ()) -> int:
    """How many of the counted tokens are surely not in the text that arrived: below `MIN_UNSEEN_TOKENS` only
    all of them.

    tokens: as they arrived, those without text included; words, where the server counted at the end only.
    counted: by the server. events: where tokens are words, characters of the text after each event that
    brought some.
    """
    text = "".join(token.text for token in tokens)
    if not text:
        return counted
    if counted - (len(events) or sum(1 for token in tokens if token.text)) < MIN_UNSEEN_TOKENS:
        return 0
    pieces = pieces_of(text, events)
    if not events:
        return unseen_beside(min(_most_with_text(tokens), most_tokens(text)), counted)
    if _are_tokens(pieces):
        return unseen_beside(min(sum(map(_most_of_event, pieces)), most_tokens(text)), counted)
    return unseen_beside(max(len(tokens), most_tokens(text)), counted)


def unseen_beside(shown: int, counted: int) -> int:
    """How many tokens are surely not in a text that has at most `shown` of them; 0 where they are too few to
    tell anything."""
    unseen = counted - shown
    return unseen if unseen >= max(MIN_UNSEEN_TOKENS, _LEAST_SHARE * counted) else 0


class ShownTokens:
    """Counts how many of the server's tokens have text, with those whose text may have come with a later
    one's: held back for a stop sequence or by a parser of tools, or bytes of one character."""

    __slots__ = ("_held", "most")

    def __init__(self) -> None:
        self.most = 0
        self._held = 0

    def add(self, text: str) -> None:
        """Take the next token's text."""
        if not text:
            self._held += 1
            return
        self.most += 1
        if self._held:
            self.most += min(self._held, most_tokens(text) - 1)
            self._held = 0


def _most_with_text(tokens: Sequence[Token]) -> int:
    shown = ShownTokens()
    for token in tokens:
        shown.add(token.text)
    return shown.most


def _are_tokens(pieces: Sequence[str]) -> bool:
    """Whether the events seem to be tokens.

    Servers send an event a token (llama.cpp, TGI, vLLM behind LiteLLM), or one for the several tokens of a
    character. A token holds no second word, as the events of speculative decoding do, and none begins within
    a word or between a word and its comma where a gateway sends word by word.
    """
    if len(pieces) < MIN_UNSEEN_TOKENS:
        return False
    if max(map(len, pieces)) > _SHORT and is_cut_to_size(pieces):
        return False
    if sum(map(_holds_several_words, pieces)) > _MOST_JOINED * len(pieces):
        return False
    within = sum(before[-1:].isalnum() and piece[:1].isalnum() for before, piece in pairwise(pieces))
    if within >= _LEAST_WITHIN * len(pieces):
        return True
    marks = sum(len(_MARKED.findall(piece)) for piece in pieces)
    return marks <= _MOST_MARKED * len(_MARKED.findall("".join(pieces))) - _FEWEST_MARKS


def _most_of_event(piece: str) -> int:
    """The most tokens that an event brought: one, or one a byte of a single character; more where it has
    several words."""
    letters = piece.strip()
    if len(letters) == 1:
        return len(letters.encode("utf-8", "surrogatepass"))
    return most_tokens(piece) if _holds_several_words(piece) else 1


def _holds_several_words(piece: str) -> bool:
    """In languages without blanks, only a mark shows that."""
    words = sum(any(map(str.isalnum, part)) for part in piece.split())
    return words > 1 or _MARK_BETWEEN.search(piece) is not None


def count_hidden_reasoning(tokens: Sequence[Token], counted: int, events: Sequence[int] = ()) -> int:
    """How many tokens of reasoning are surely not in what arrived as such; fewer than `MIN_UNSEEN_TOKENS`
    count as none. counted: tokens of reasoning, by the server. events: as of `count_unseen`.

    Reasoning that is left in the text ends with a mark, also where it began in the prompt.
    """
    if counted < MIN_UNSEEN_TOKENS:
        return 0
    text = "".join(token.text for token in tokens)
    thought = [token for token in tokens if token.reasoning]
    shown = "".join(token.text for token in thought) or text[: last_closing_mark(text)]
    most = most_tokens(shown)
    pieces = pieces_of(text, events)
    if thought and not events:
        most = min(most, _most_with_text(thought))
    elif text.startswith(shown) and _are_tokens(pieces):
        most = min(most, sum(map(_most_of_event, pieces[: bisect_right(events, len(shown))])))
    hidden = counted - most
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
