"""What the batches of a scan add up to, whether one process judged them all or many judged parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any, Protocol

from stresstest.errors import UsageError
from stresstest.records import DamagedLine
from stresstest.scanning.detect_chunk import ChunkVerdicts
from stresstest.scanning.tally import ScanTally
from stresstest.scanning.texts_read import TextsRead

MAX_NAMED_LINES = 5
"""Damaged lines that are named; the others are counted."""


class RecordProgress(Protocol):
    """Who watches. done: bytes of all files judged so far, as stored."""

    def advanced(self, done: int, requests: int, degenerate: int) -> None: ...

    def damaged(self, damaged: DamagedLine) -> None: ...

    def noticed(self, note: str) -> None:
        """Something that only all answers together show."""


class ScanState:
    """Counts by group, and the damage. What one dumped, another with the same keys can merge."""

    def __init__(
        self, keys: Sequence[str], show: int, *, strict: bool = False, listener: RecordProgress | None = None
    ) -> None:
        self.tallies = ScanTally(keys, show)
        self.damaged = 0
        self.textless = 0
        self.malformed = 0
        self.unread = 0
        self.named: list[DamagedLine] = []
        self.text_bytes = 0
        self.texts = TextsRead()
        self.degenerate = 0
        self.sources: set[str] = set()
        self._strict = strict
        self._listener = listener
        self._bytes = BytesDone()

    def add_batch(self, batch: ChunkVerdicts) -> None:
        """Count a batch, the next one in order. Raises UsageError for damage, if strict."""
        for damaged in batch.damaged:
            if damaged.textless:
                self.textless += 1
            else:
                self._name(damaged)
                self.damaged += 1
                self.malformed += damaged.malformed or damaged.rest
                self.unread += damaged.rest
        for each in batch.judged:
            self.tallies.add(each)
            self.degenerate += each.degenerate
        if batch.judged or batch.damaged:
            self.sources.add(batch.source)
        self.text_bytes += batch.text_bytes
        self.texts.merge(batch.texts)
        done = self._bytes.after(batch)
        if self._listener is not None:
            self._listener.advanced(done, self.tallies.requests, self.degenerate)

    def dump(self) -> dict[str, Any]:
        """Everything, for `merge`."""
        return {
            "tallies": self.tallies.dump(),
            "damaged": self.damaged,
            "malformed": self.malformed,
            "textless": self.textless,
            "unread": self.unread,
            "named": [astuple(line) for line in self.named],
            "text_bytes": self.text_bytes,
            "texts": self.texts.dump(),
            "degenerate": self.degenerate,
            "sources": sorted(self.sources),
        }

    def merge(self, dumped: Mapping[str, Any]) -> None:
        """Add what was dumped of the answers that follow. Raises UsageError for damage, if strict."""
        for line in dumped["named"]:
            self._name(DamagedLine(*line))
        self.damaged += dumped["damaged"]
        self.malformed += dumped["malformed"]
        self.textless += dumped["textless"]
        self.unread += dumped["unread"]
        self.text_bytes += dumped["text_bytes"]
        self.texts.merge(TextsRead.load(dumped["texts"]))
        self.degenerate += dumped["degenerate"]
        self.sources.update(dumped["sources"])
        self.tallies.merge(dumped["tallies"])

    def _name(self, damaged: DamagedLine) -> None:
        if self._strict:
            raise UsageError(f"{damaged} (--strict)")
        if len(self.named) < MAX_NAMED_LINES:
            self.named.append(damaged)
            if self._listener is not None:
                self._listener.damaged(damaged)


class BytesDone:
    """Bytes of all files judged so far, as stored."""

    def __init__(self) -> None:
        self._source = ""
        self._finished = self._done = 0

    def after(self, batch: ChunkVerdicts) -> int:
        """The bytes up to the end of this batch, the next one in order."""
        if batch.source != self._source:
            self._finished, self._source = self._finished + self._done, batch.source
        self._done = batch.done
        return self._finished + self._done
