"""Gibberish in the answer and in the reasoning before it, each with a detector of its own."""

from __future__ import annotations

from dataclasses import replace

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.gibberish.online import GibberishDetector
from stresstest.detectors.text.segments import TextSegmenter
from stresstest.model import Symptom, Token


class _Thought:
    """One stretch of reasoning, and its own text. before: tokens of the output before it."""

    def __init__(self, spec: DetectorSpec, before: int) -> None:
        self._feed = TextSegmenter(in_lines=False)
        self._feed.tokens = before
        self._detector = GibberishDetector(replace(spec, language=None), self._feed, reasoning=True)
        self.finish, self.symptoms = self._detector.finish, self._detector.symptoms

    def update(self, token: Token) -> None:
        token = replace(token, reasoning=False)
        self._feed.update(token)
        self._detector.update(token)

    @property
    def open_from(self) -> int | None:
        return self._detector.open_from

    def end(self, position: int) -> list[Symptom]:
        """Its symptoms, none of which goes on beyond its last token, the one at `position`."""
        self.finish("stop")
        return [s if s.end is not None else replace(s, end=position) for s in self.symptoms()]


class GibberishInParts:
    """Online detector of `gibberish` over reasoning and answer. The feed takes the answer's tokens first."""

    def __init__(self, spec: DetectorSpec, feed: TextSegmenter) -> None:
        self._spec = spec
        self._answer = GibberishDetector(spec, feed)
        self._thought: _Thought | None = None
        self._found: list[Symptom] = []
        self._position = 0

    def update(self, token: Token) -> None:
        self._position += 1
        if token.reasoning:
            self._thought = self._thought or _Thought(self._spec, self._position - 1)
            self._thought.update(token)
            return
        if self._thought is not None:
            self._found += self._thought.end(self._position - 1)
            self._thought = None
        self._answer.update(token)

    def finish(self, finish_reason: str | None) -> None:
        self._answer.finish(finish_reason)
        if self._thought is not None:
            self._thought.finish(finish_reason)

    @property
    def open_from(self) -> int | None:
        """First token of a suspect stretch that is not settled."""
        return self._answer.open_from if self._thought is None else self._thought.open_from

    def symptoms(self) -> list[Symptom]:
        thought = [] if self._thought is None else self._thought.symptoms()
        return [*self._found, *thought, *self._answer.symptoms()]
