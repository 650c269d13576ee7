"""What this server remembers of its answers: a continuation is recognised by its last two sentences.

Two, because one sentence may well stand in several answers.

An answer is indexed only when the first continuation asks: most runs never pay for it.
"""

from __future__ import annotations

import re
from array import array
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.hazards import LatentAnswer

_STRETCH = re.compile(r"[^.!?\n]+[.!?]?")
_SHORTEST = 12
"""Characters of a sentence: less is a number or an exclamation."""
_BLANKS = re.compile(r"\s+")
_LAST = 12
"""How many sentences back from the end of a prompt are looked up."""


@dataclass(frozen=True, slots=True)
class RememberedAnswer:
    """tokens: of the answer's text up to the end of the prompt."""

    latent: LatentAnswer
    tokens: int


class AnswerMemory:
    """Bounded: the latest `tokens` of unindexed answers, the latest `sentences` of indexed ones."""

    def __init__(self, tokens: int = 4_000_000, sentences: int = 400_000) -> None:
        self._most_tokens = tokens
        self._most_sentences = sentences
        self._held = 0
        self._pending: deque[tuple[LatentAnswer, int, array[int]]] = deque()
        self._places: OrderedDict[bytes, tuple[LatentAnswer, int]] = OrderedDict()

    def remember(self, latent: LatentAnswer, before: int, ids: Sequence[int]) -> None:
        """An answer, or a part of one that begins after `before` tokens of it."""
        self._pending.append((latent, before, array("i", ids)))
        self._held += len(ids)
        while self._held > self._most_tokens and len(self._pending) > 1:
            self._held -= len(self._pending.popleft()[2])

    def find_answer(self, answer_text: str) -> RememberedAnswer | None:
        """The answer that a text is part of, by the last pair of its sentences that is known."""
        self._index()
        sentences = _complete_sentences(answer_text)[-_LAST:]
        for before, sentence in reversed([(None, sentences[0]), *pairwise(sentences)] if sentences else []):
            found = self._places.get(_key(before[0] if before else "", sentence[0]))
            if found is not None:
                latent, tokens = found
                return RememberedAnswer(
                    latent, tokens + len(vocabulary.encode(answer_text[sentence.end() :]))
                )
        return None

    def _index(self) -> None:
        while self._pending:
            latent, before, ids = self._pending.popleft()
            self._held -= len(ids)
            text, at, tokens, last = vocabulary.decode(ids), 0, before, ""
            for sentence in _complete_sentences(text):
                tokens += len(vocabulary.encode(text[at : sentence.end()]))
                at = sentence.end()
                self._places[_key(last, sentence[0])] = (latent, tokens)
                last = sentence[0]
            while len(self._places) > self._most_sentences:
                self._places.popitem(last=False)


def _complete_sentences(text: str) -> list[re.Match[str]]:
    """Every sentence that is whole, in time linear in the text (a flood is one stretch without an end)."""
    return [
        found
        for found in _STRETCH.finditer(text)
        if found.end() - found.start() > _SHORTEST and found[0][-1] in ".!?"
    ]


def _key(before: str, sentence: str) -> bytes:
    text = _BLANKS.sub(" ", f"{before.strip()} {sentence.strip()}")
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
