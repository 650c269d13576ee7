"""From positions counted in words to positions counted in tokens, never later than the true ones.

A server that counts nothing while it streams gives a total at best. The suite then reads the text's words
and signs (`detectors.text.tokens`), which may be finer than tokens (a T made of them would exceed every cap)
or coarser, and sharing the total out evenly would put an onset too late wherever a loop's tokens are shorter
than the prose before it. What can be relied on is a bound from below: words are at least a token each, as are
the events that brought the text (languages without blanks have no words), and what follows is at most a token
a byte.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from stresstest.detectors.text.scripts import DENSE_SCRIPTS, main_script, script_weights
from stresstest.detectors.verdict import PositionMap
from stresstest.endpoint.assembly import split_evenly
from stresstest.model import GenerationVerdict, Token

_WORD_END = re.compile(r"(?<=\S)\s")
# Tokens that a total may hold without any text at its end: end of turn, end of message.
_ENDING = 2
_MOST_LONGEST, _MOST_LONGEST_DENSE = 0.5, 0.9
"""Share of the longest among different tokens that none has; in scripts like Chinese, most have one character
or two."""


def pieces_of(text: str, events: Sequence[int]) -> list[str]:
    """What each event brought. events: characters of the text after each of them."""
    return [text[begin:end] for begin, end in pairwise((0, *events))]


def is_cut_to_size(pieces: Sequence[str]) -> bool:
    """Whether most different pieces are as long as the longest: of a vocabulary, few tokens are. One in fifty
    may be longer, as what a gateway sends at the end."""
    if not pieces:
        return False
    sizes = sorted(map(len, set(pieces)))
    is_dense = main_script(script_weights("".join(pieces))) in DENSE_SCRIPTS
    most = _MOST_LONGEST_DENSE if is_dense else _MOST_LONGEST
    return sizes.count(sizes[-1 - len(sizes) // 50]) >= most * len(sizes)


class TokenScale:
    """Positions in `chunks` (words and signs) as positions in tokens, of which there are `total`.

    events: characters of the text after each event that brought some. More of them than tokens say nothing,
    nor do pieces of one greatest size: a gateway has cut the text.
    """

    def __init__(self, chunks: Sequence[Token], total: int, events: Sequence[int] = ()) -> None:
        text = "".join(chunk.text for chunk in chunks)
        left, at, words = len(text.encode("utf-8", "surrogatepass")), 0, 0
        ends = [found.start() for found in _WORD_END.finditer(text)]
        events = () if len(events) > total or is_cut_to_size(pieces_of(text, events)) else events
        self._chunks = chunks
        self._total = total
        self._seen = [0]
        for k, chunk in enumerate(chunks, 1):
            at += len(chunk.text)
            left -= len(chunk.text.encode("utf-8", "surrogatepass"))
            while words < len(ends) and ends[words] < at:
                words += 1
            evenly = k * total // len(chunks)
            least = max(words, bisect_right(events, at), total - left - _ENDING)
            self._seen.append(max(self._seen[-1], min(evenly, least)))
        self._seen[-1] = total

    def tokens_in(self, chunks: int) -> int:
        """Whole tokens that so many chunks hold at least."""
        return self._seen[min(chunks, len(self._chunks))]

    def first_token(self, chunk: int) -> int:
        """The earliest token that a chunk may begin in."""
        return min(self.tokens_in(chunk - 1) + 1, self._total)

    def tokens(self) -> tuple[Token, ...]:
        """`total` tokens, their texts joined the streamed text, each where the positions say that it is."""
        made: list[Token] = []
        open_, kind, arrived = "", False, 0.0
        for k, chunk in enumerate(self._chunks, 1):
            if open_ and chunk.reasoning != kind and len(made) < self._total:
                made.append(Token(open_, arrived=arrived, reasoning=kind))  # never half thought, half answer
                open_ = ""
            open_, kind, arrived = open_ + chunk.text, chunk.reasoning, chunk.arrived
            room = self._seen[k] - len(made)
            if room > 0:
                made += [Token(part, arrived=arrived, reasoning=kind) for part in split_evenly(open_, room)]
                open_ = ""
        if open_:
            made.append(Token(open_, arrived=arrived, reasoning=kind))
        return tuple(made)

    def verdict(self, verdict: GenerationVerdict) -> GenerationVerdict:
        """The same judgement, its positions in tokens."""
        return PositionMap(self._total, first=self.first_token, last=self.tokens_in).verdict(verdict)
