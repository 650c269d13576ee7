"""An answer that reasons first: a text of its own, which may fail, and then the answer."""

from __future__ import annotations

import random
from dataclasses import replace

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.answer import TextAnswer
from stresstest.simulation.engine.writing import EmittedToken
from stresstest.simulation.engine.writing.token_emitter import TokenEmitter, heading_pieces


class ReasonedAnswer:
    """Reasoning and answer as one stream of tokens. parsed: the server tells reasoning from answer; without a
    reasoning parser it stands in the text, between `<think>` and `</think>`.

    onset, symptom: the truth, in output tokens from the first one. Reasoning that fails for good never ends.
    """

    def __init__(
        self, thought: TextAnswer, answer: TextAnswer, language: str, seed: int, *, parsed: bool
    ) -> None:
        emitter = TokenEmitter(language, 1.0, random.Random(seed))
        self._opening = [] if parsed else emitter.emit(heading_pieces("<think>\n"))
        self._closing = [] if parsed else emitter.emit(heading_pieces("\n</think>\n\n"))
        self._tags = len(self._opening)
        self._pending = list(self._opening)
        self._parsed = parsed
        self._thought = thought
        self._answer = answer
        self._thinking = True
        self._written = 0
        self._before = 0

    @property
    def onset(self) -> int | None:
        if self._thought.onset is not None:
            return self._tags + self._thought.onset
        return None if self._answer.onset is None else self._before + self._answer.onset

    @property
    def symptom(self) -> str | None:
        return self._thought.symptom or self._answer.symptom

    def next_token(self) -> EmittedToken | None:
        written = self._pending.pop(0) if self._pending else self._from_text()
        self._written += 1
        return written

    def _from_text(self) -> EmittedToken | None:
        if self._thinking:
            written = self._thought.next_token()
            if written is not None and written.id != vocabulary.EOS:
                return replace(written, reasoning=True) if self._parsed else written
            self._thinking = False
            self._before = self._written + len(self._closing)
            self._pending = list(self._closing)
            if self._pending:
                return self._pending.pop(0)
        return self._answer.next_token()
