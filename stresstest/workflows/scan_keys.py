"""Whether the records have the keys that they are to be grouped by: told before hours are spent on them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import msgspec

from stresstest import records
from stresstest.model.scanned import ScanResult
from stresstest.records.mapping import parse_path
from stresstest.records.record import Raw
from stresstest.workflows.scan_judge import Job, group_of, readable

_LINES = 200


@dataclass(frozen=True, slots=True)
class Glance:
    """The beginning of the files. read: records in it; seen: keys to group by that one of them has at least.

    there: every key in it, with dots for what lies inside: "metadata.team".
    """

    read: int
    seen: frozenset[str]
    there: tuple[str, ...]

    def hint(self, key: str) -> str | None:
        """What may have been meant, or what there is."""
        close = difflib.get_close_matches(key, self.there, n=1, cutoff=0.6)
        ends = [each for each in self.there if each.rpartition(".")[2] == key]
        if close or ends:
            return f"Did you mean {(ends or close)[0]!r}?"
        return f"They have: {', '.join(self.there[:12])}." if self.there else None


def glance(files: Iterable[str], job: Job) -> Glance:
    """Read the first lines of every file but stdin, which can be read only once."""
    read, seen = 0, set[str]()
    there: dict[str, None] = {}
    for name in files:
        first = next(records.chunks(name), None) if name != "-" else None
        if first is None:
            continue
        first = replace(first, items=tuple(islice(first.items, _LINES)))
        for record in readable(first, job, []):
            read += 1
            values = zip(job.keys, group_of(record, job.keys), strict=True)
            seen.update(key for key, value in values if value is not None)
        for _, raw in first.items:
            there.update(dict.fromkeys(_keys(raw)))
    return Glance(read, frozenset(seen), tuple(there))


def nowhere(key: str, files: Iterable[str], job: Job) -> bool:
    """Whether the files surely hold no such key: they are searched for its name, much faster than judged.

    False where that cannot be told: stdin is read only once, and what has a meaning of its own (the model,
    the task) is known by several names.
    """
    name = str((job.mapped.fields.get(key) or parse_path(key))[-1])
    if key in records.TARGETS or not name.isascii() or "-" in (names := list(files)):
        return False
    raws = (raw for file in names for chunk in records.chunks(file) for _, raw in chunk.items)
    return not any(name in str(raw) if isinstance(raw, dict) else name.encode() in raw for raw in raws)


def absent(result: ScanResult) -> list[str]:
    """The keys that no record of a whole scan had."""
    return [key for key in result.group_by if all(group.key[key] is None for group in result.groups)]


def _keys(raw: Raw) -> list[str]:
    """Keys of plain values on a row's first two levels; none of a row that cannot be read."""
    try:
        row: Any = raw if isinstance(raw, dict) else msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    if not isinstance(row, dict):
        return []
    found = []
    for key, value in row.items():
        if isinstance(value, dict):
            found += [f"{key}.{inner}" for inner, v in value.items() if isinstance(v, str | int | float)]
        elif isinstance(value, str | int | float):
            found.append(str(key))
    return found
