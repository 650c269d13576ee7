"""Lengths of all texts of a scan: they show a log's cut where no megabyte has enough cut texts to tell."""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from stresstest.records import Record
from stresstest.records.cut_texts import LEAST_SIZE, LEAST_TEXTS, NEARBY, TAIL, text_end

_MOST = 8_192
"""Lengths that are kept, the smallest: memory stays bounded, and parts add up to the same."""


@dataclass(slots=True)
class TextLengths:
    """By characters. texts: all texts; cut: those known to be cut; unknown: those that end as cut ones do and
    count as whole; ends: the smallest hashes of the different ends of the last two."""

    texts: Counter[int] = field(default_factory=Counter)
    cut: Counter[int] = field(default_factory=Counter)
    unknown: Counter[int] = field(default_factory=Counter)
    ends: dict[int, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[Record]) -> TextLengths:
        """Of the records of one chunk, those known to be cut marked as `with_cuts` does."""
        found = cls()
        for record in records:
            end = text_end(record)
            size = len(end.body)
            if size < LEAST_SIZE * (1 - NEARBY):
                continue
            found.texts[size] += 1
            known = record.hole == len(record.reasoning) + len(record.text)
            if known or end.may_be_cut:
                (found.cut if known else found.unknown)[size] += 1
                found._add_ends(size, [zlib.crc32(end.body[-TAIL:].encode("utf-8", "replace"))])
        return found

    def merge(self, later: TextLengths) -> None:
        """Add the texts that follow."""
        for mine, theirs in ((self.texts, later.texts), (self.cut, later.cut), (self.unknown, later.unknown)):
            mine.update(theirs)
        for size, ends in later.ends.items():
            self._add_ends(size, ends)
        if len(self.texts) <= _MOST:
            return
        for size in sorted(self.texts)[_MOST:]:
            for each in (self.texts, self.cut, self.unknown, self.ends):
                each.pop(size, None)

    def limits(self) -> dict[int, int]:
        """Length at which the log cuts → texts of that length that count as whole, where there are any."""
        sizes = sorted(self.texts)
        sums = [0, *accumulate(self.texts[size] for size in sizes)]
        found = {}
        for size, ends in self.ends.items():
            low, high = bisect_left(sizes, size * (1 - NEARBY)), bisect_right(sizes, size * (1 + NEARBY))
            others = sums[high] - sums[low] - self.texts[size]
            alike = self.cut[size] + self.unknown[size]
            if size >= LEAST_SIZE and len(ends) >= LEAST_TEXTS and alike >= others and self.unknown[size]:
                found[size] = self.unknown[size]
        return found

    def dump(self) -> dict[str, Any]:
        """Everything, for `load`."""
        counted = {name: list(getattr(self, name).items()) for name in ("texts", "cut", "unknown")}
        return {**counted, "ends": list(self.ends.items())}

    @classmethod
    def load(cls, dumped: Mapping[str, Any]) -> TextLengths:
        """What was dumped."""
        texts, cut, unknown = (Counter(dict(dumped[name])) for name in ("texts", "cut", "unknown"))
        return cls(texts, cut, unknown, dict(dumped["ends"]))

    def _add_ends(self, size: int, ends: Iterable[int]) -> None:
        self.ends[size] = sorted({*self.ends.get(size, ()), *ends})[:LEAST_TEXTS]


def cut_notes(limits: Mapping[int, int]) -> list[str]:
    """A sentence for each of `TextLengths.limits`, the first three."""
    return [
        f"{count:,} answers end in the midst of a sentence at {length:,} characters, and few of the "
        "others have about that length: the log has cut them there."
        for length, count in sorted(limits.items())[:3]
    ]
