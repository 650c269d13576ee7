"""Checks whether the records have the keys to group by, before and after a scan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from stresstest import records
from stresstest.config.suggestions import did_you_mean
from stresstest.model.scanned import ScanResult
from stresstest.records.formats.registry import parse_json_object
from stresstest.records.record import RawRecord, UnreadableError, parse_path
from stresstest.scanning.detect_chunk import parse_chunk
from stresstest.scanning.job import ScanJob, group_key

_LINES = 200


@dataclass(frozen=True, slots=True)
class KeySurvey:
    """The keys in the first records of the files.

    read: number of records. found_keys: keys of the scan that at least one of them has. available_keys: all
    their keys, nested ones with dots: "metadata.team". nested_keys: those that hold lists or objects.
    """

    read: int
    found_keys: frozenset[str]
    available_keys: tuple[str, ...]
    nested_keys: frozenset[str] = frozenset()

    def hint(self, key: str) -> str | None:
        """A suggestion for a missing key: the most similar one, or a list of those available."""
        if key in self.available_keys:
            return f"The records have {key!r}, but as the answer itself, which is no group."
        if key in self.nested_keys:
            return f"The records have {key!r}, but it holds lists or objects: name a value in it, as in a.b."
        ends = [each for each in self.available_keys if each.rpartition(".")[2] == key]
        if ends:
            return f"Did you mean {ends[0]!r}?"
        have = f"They have: {', '.join(self.available_keys[:12])}." if self.available_keys else None
        return did_you_mean(key, self.available_keys) or have


def survey_keys(files: Iterable[str], job: ScanJob) -> KeySurvey:
    """Survey the first lines of every file except stdin, which can be read only once."""
    read, found_keys, nested = 0, set[str](), set[str]()
    available: dict[str, None] = {}
    for name in files:
        first = next(records.read_chunks(name), None) if name != "-" else None
        if first is None:
            continue
        rows = [(line, row) for line, raw in islice(first.items, _LINES) if (row := _row(raw)) is not None]
        for record in parse_chunk(replace(first, items=tuple(rows)), job).records:
            read += 1
            values = zip(job.keys, group_key(record, job.keys), strict=True)
            found_keys.update(key for key, value in values if value is not None)
        for _, row in rows:
            available.update(dict.fromkeys(_keys(row)))
            nested.update(str(key) for key, value in row.items() if isinstance(value, dict | list))
    return KeySurvey(read, frozenset(found_keys), tuple(available), frozenset(nested))


def is_key_absent(key: str, files: Iterable[str], job: ScanJob) -> bool:
    """Whether the files certainly lack a key: a text search for its name, much faster than a scan.

    False where that is unknown: stdin can be read only once, and fields such as the model or the task have
    several names.
    """
    name = str((job.mapped.fields.get(key) or parse_path(key))[-1])
    if key in records.FIELD_TARGETS or not name.isascii() or "-" in (names := list(files)):
        return False
    raws = (raw for file in names for chunk in records.read_chunks(file) for _, raw in chunk.items)
    return not any(name.encode() in raw if isinstance(raw, bytes) else name in str(raw) for raw in raws)


def missing_keys(result: ScanResult) -> list[str]:
    """The keys to group by that no record of a scan has."""
    return [key for key in result.group_by if all(group.key[key] is None for group in result.groups)]


def _row(raw: RawRecord) -> dict[str, Any] | None:
    """A line's JSON object; None for a line without one."""
    try:
        return parse_json_object(raw) if isinstance(raw, bytes) else raw if isinstance(raw, dict) else None
    except UnreadableError:
        return None


def _keys(row: dict[str, Any]) -> list[str]:
    """Keys of plain values on a row's first two levels."""
    found = []
    for key, value in row.items():
        if isinstance(value, dict):
            found += [f"{key}.{inner}" for inner, v in value.items() if isinstance(v, str | int | float)]
        elif isinstance(value, str | int | float):
            found.append(str(key))
    return found
