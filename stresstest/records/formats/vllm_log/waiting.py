"""The requests of a log that wait for their answers, in bounded memory."""

from __future__ import annotations

import itertools
import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stresstest.records.formats.fields import TEXTLESS
from stresstest.records.formats.vllm_log.lines import Request

_REMEMBERED = 20_000
"""Requests whose answers may still come; the oldest counts as never answered."""
_MAX_PROMPTS = 64 << 20
"""Bytes of their prompts; the oldest prompts are forgotten."""
_MOST_CHOICES = 1_024
"""Answers to one request that are waited for."""
_MOST_LACKING = 16
"""Answers that one request lacks, as far as they are counted: how many it asked for is the client's word."""
_MAX_PIECES, _PIECE_BYTES = 64 << 20, 64
"""Characters of streams that have not ended, and what a piece takes beside them. The oldest are forgotten."""
_THOUGHT = re.compile(r"\[reasoning: (.*)\]", re.DOTALL)
"""How a piece of reasoning is written."""


@dataclass(slots=True)
class _Open:
    """A request. expected: its answers that are still to come; None where the log does not say that it
    generates text. pieces: of its stream, None where nobody can tell whose they are."""

    row: dict[str, Any]
    expected: int | None = None
    pieces: list[str] | None = field(default_factory=list)


class WaitingRequests:
    """Clients may give several requests one id (`X-Request-Id`): each is waited for, and whose an answer is,
    nobody knows while two are open."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._piece_size = 0
        self._prompts: OrderedDict[str, int] = OrderedDict()
        self._prompt_size = 0

    def __len__(self) -> int:
        return len(self._open)

    def add(self, asked: Request, at: float | str | None) -> Iterator[dict[str, Any]]:
        """Wait for a request's answers, or add what another line tells of it. The rows of the oldest one, if
        there are too many. at: when it came."""
        name = asked.id
        known = self._open.setdefault(name, _Open({"id": name}))
        if at is not None:
            known.row.setdefault("start", at)
        if asked.prompt is not None:
            self._keep_prompt(name, asked.prompt)
        if asked.max_tokens is not None:
            known.row["max_tokens"] = asked.max_tokens
        if asked.answers is not None:
            if known.expected:
                self._forget_prompt(name)
                known.row = {"id": name}
            known.expected = (known.expected or 0) + min(asked.answers, _MOST_CHOICES)
            if known.expected > 1:
                self._forget_pieces(known)
        return self.give_up() if len(self._open) > _REMEMBERED else iter(())

    def add_piece(self, name: str, piece: str) -> None:
        """Of a stream whose only answer may be its pieces: who loops is left by its client."""
        asked = self._open.get(name)
        if asked is None or asked.expected != 1 or asked.pieces is None:
            return
        asked.pieces.append(piece)
        self._piece_size += len(piece) + _PIECE_BYTES
        while self._piece_size > _MAX_PIECES:
            self._forget_pieces(next(each for each in self._open.values() if each.pieces))

    def answered(self, name: str) -> dict[str, Any]:
        """What is known of an answer's request; one with all its answers is waited for no longer."""
        numbered = () if name in self._open else (f"{name}_{n}" for n in itertools.count())
        for each in list(itertools.takewhile(self._open.__contains__, numbered)):
            # One request may be several to the engine.
            known = self._open.pop(each)
            self._forget_pieces(known)
            self._forget_prompt(each)
            self._open.setdefault(name, _Open({**known.row, "id": name}, 1))
        asked = self._open.get(name)
        if asked is None:
            return {}
        self._forget_pieces(asked)
        if asked.expected is not None:
            asked.expected -= 1
            if asked.expected <= 0:
                del self._open[name]
                self._forget_prompt(name)
        return asked.row

    def give_up(self) -> Iterator[dict[str, Any]]:
        """The rows of the answers that the oldest request still lacks; it is waited for no longer."""
        name, asked = self._open.popitem(last=False)
        self._forget_prompt(name)
        pieces = asked.pieces
        self._forget_pieces(asked)
        if not pieces or asked.expected != 1:
            yield from itertools.repeat(
                {**asked.row, TEXTLESS: True}, min(asked.expected or 0, _MOST_LACKING)
            )
            return
        thought = [found[1] for piece in pieces if (found := _THOUGHT.fullmatch(piece))]
        said = "".join(piece for piece in pieces if not _THOUGHT.fullmatch(piece))
        yield {**asked.row, "reasoning_content": "".join(thought), "response": said, "finish_reason": "abort"}

    def _keep_prompt(self, name: str, prompt: str) -> None:
        self._forget_prompt(name)
        self._open[name].row["prompt"] = prompt
        self._prompts[name] = len(prompt) if prompt.isascii() else 4 * len(prompt)
        self._prompt_size += self._prompts[name]
        while self._prompt_size > _MAX_PROMPTS:
            oldest = next(iter(self._prompts))
            self._forget_prompt(oldest)
            self._open[oldest].row.pop("prompt", None)

    def _forget_prompt(self, name: str) -> None:
        """Count it no longer."""
        self._prompt_size -= self._prompts.pop(name, 0)

    def _forget_pieces(self, asked: _Open) -> None:
        """For good: what would be kept of it from now on is not its beginning."""
        self._piece_size -= sum(len(piece) + _PIECE_BYTES for piece in asked.pieces or ())
        asked.pieces = None
