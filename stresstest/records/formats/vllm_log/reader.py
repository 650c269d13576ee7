"""Joins the lines of vLLM's log that tell of one request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from stresstest.records.formats.fields import TEXTLESS
from stresstest.records.formats.vllm_log.clock import LogClock
from stresstest.records.formats.vllm_log.lines import (
    ANSWERED,
    LENGTH,
    MARKS,
    kind_of,
    read_answer,
    read_count,
    read_log_length,
    read_message,
    read_request,
)
from stresstest.records.formats.vllm_log.waiting import WaitingRequests


class RequestLog:
    """`add_line` a line, get the answers that it tells of as plain rows."""

    def __init__(self) -> None:
        self._waiting = WaitingRequests()
        self._clock = LogClock()
        self._longest: int | None = None
        self._counted: tuple[str, int] | None = None

    def add_line(self, line: bytes) -> Iterable[dict[str, Any]]:
        """The row of an answer, the rows of an old request without answers; none for other lines.

        Raises UnreadableError.
        """
        self._clock.see(line)
        if not any(mark in line for mark in MARKS):
            return []
        text, at = read_message(line, self._clock)
        kind = kind_of(text)
        if kind == LENGTH:
            self._longest = read_log_length(text) or self._longest
        if kind != ANSWERED:
            asked = read_request(text, kind)
            return [] if asked is None else list(self._waiting.add(asked, at))
        counted = read_count(text)
        if counted is not None:
            self._counted = counted
            return []
        row, is_delta = read_answer(text)
        if is_delta:
            self._waiting.add_piece(row["id"], row["response"])
            return []
        if self._counted is not None and self._counted[0] == row["id"]:
            row.setdefault("completion_tokens", self._counted[1])
        self._counted = None
        if self._longest is not None and len(row["response"]) >= self._longest:
            row |= {"finish_reason": None, TEXTLESS: True}
        return [{**self._waiting.answered(row["id"]), **row, **({} if at is None else {"end": at})}]

    def unanswered(self) -> Iterator[dict[str, Any]]:
        """At the end of the log: the rows of the answers that are not in it."""
        while self._waiting:
            yield from self._waiting.give_up()
