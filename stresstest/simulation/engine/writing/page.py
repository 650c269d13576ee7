"""The page being written: outline and sentences joined, and sentences that end on a given token."""

from __future__ import annotations

import random
from collections.abc import Sequence

from stresstest.simulation.engine.writing.composer import Composer
from stresstest.simulation.engine.writing.ink import CONTENT, FUNCTION, OPEN, Pieces, pieces
from stresstest.simulation.engine.writing.outline import Brief, Outline

FITTED = 96
"""Tokens before an onset from which on sentences are chosen by their length, to end just before it."""
_TRIES = 160


class Page:
    """What is written and what comes next. ids: the answer so far, its history included."""

    def __init__(self, brief: Brief, rng: random.Random, history: Sequence[int]) -> None:
        self.brief = brief
        self.rng = rng
        self.ids = list(history)
        self.composer = Composer(brief.language, rng, brief.repetition_penalty)
        self.writer = self.composer
        """Who writes now: a drift puts a composer of another language here."""
        self.language = self.composer.grammar.language
        self.outline = Outline(brief, self.composer.grammar, rng, history)
        self._opening = self._first_sentence() if not history else None
        self._mean = 28.0

    def _first_sentence(self) -> str | None:
        """The topic is taken up once, at the beginning."""
        frame = self.composer.grammar.labels.get(f"opening_{self.brief.task}", "")
        topic = self.brief.topic.strip()
        usable = frame and topic and len(topic) <= 240 and topic.replace("\n", "") == topic
        return frame.replace("{topic}", topic) if usable else None

    def segment(self, cut: int = 0) -> Pieces | None:
        """The next sentence with what stands before it; None when the answer is complete.

        cut: if the token after so many is in this sentence, it shall begin a word, for the sentence will
        be cut before it.
        """
        if self.outline.over:
            return None
        before, register, blank = self.outline.prefix()
        by = self.writer
        if self._opening is not None and by is self.composer and register != "question":
            text, self._opening = self._opening, None
        else:
            text = by.sentence(register)
        body = pieces(blank + text, by.grammar.language, OPEN)
        for _ in range(12):
            at = cut - len(before)
            if not 0 < at < len(body) or body[at][1] in (FUNCTION, CONTENT):
                break
            body = pieces(blank + by.sentence(register), by.grammar.language, OPEN)
        self._take(before, body)
        return before + body

    def fit(self, room: int, end: str = "") -> Pieces | None:
        """A sentence chosen so that the text ends after `room` tokens, now or with a later sentence.

        end: what the very last one ends with instead of its full stop. Where nothing fits it runs over.
        """
        if self.outline.over:
            return None
        before, register, blank = self.outline.prefix()
        self._opening = None
        left = room - len(before)
        best: Pieces = []
        worst = 1e9
        for _ in range(_TRIES):
            text = self.composer.sentence(register)
            body = pieces(blank + text, self.language, OPEN)
            misfit = self._misfit(left - len(body))
            if misfit < worst:
                worst = misfit
                best = pieces(blank + text[:-1] + end, self.language, OPEN) if end and misfit == 0.0 else body
                if misfit == 0.0 or (misfit < 1.0 and left > 1.5 * self._mean):
                    break
        self._take(before, best)
        return before + best

    def _misfit(self, leftover: int) -> float:
        """0: ends exactly. Under 1: one or more ordinary sentences still fit. Else worse and worse."""
        share = leftover / self._mean
        if leftover == 0:
            return 0.0
        if leftover < 0:
            return 10.0 - leftover
        if 0.75 <= share <= 1.25 or share >= 1.6:
            return 0.5
        return 1.0 + min(abs(share - 1.0), abs(share - 2.0))

    def _take(self, before: Pieces, body: Pieces) -> None:
        self._mean += 0.05 * (len(body) - self._mean)
        self.outline.take(len(before) + len(body), bool(before))
