"""What a scan is asked for, and the groups that it makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from stresstest.model.scanned import ScanVerdict
from stresstest.records import FieldMapping, Record

_LONGEST_VALUE = 512
"""Characters of a group's key."""
GroupKey = tuple[str | None, ...]
GroupLanguages = dict[GroupKey, str]
"""What each group is written in."""


@dataclass(frozen=True, slots=True)
class ScanJob:
    """What every worker needs to know. keys: to group by. tokenizer: a file. by_length: a key.

    extract: makes of each answer and its verdict what a feature needs of them. It is called in the worker, so
    that no record is parsed twice or sent back whole, and must therefore be picklable.
    """

    mapped: FieldMapping = field(default_factory=FieldMapping)
    keys: tuple[str, ...] = ()
    language: str | None = None
    tokenizer: str | None = None
    by_length: str | None = None
    show: bool = False
    extract: Callable[[Record, ScanVerdict], Any] | None = None


def group_key(record: Record, keys: Sequence[str]) -> GroupKey:
    """The values of the keys to group by; None for a key that the record does not have."""
    return tuple(shorten(_value(record, key)) for key in keys)


def shorten(value: str | None) -> str | None:
    """A value; of a long one, which every answer of its group would hold, the beginning and a digest."""
    if value is None or len(value) <= _LONGEST_VALUE:
        return value
    digest = blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{value[: _LONGEST_VALUE - 18]}… {digest}"


def _value(record: Record, key: str) -> str | None:
    if key in ("id", "model", "task", "language", "finish_reason", "source"):
        return record.extra.get(key) or getattr(record, key)
    if key in ("max_tokens", "prompt_tokens", "completion_tokens"):
        value = getattr(record, key)
        return None if value is None else str(value)
    return record.prompt_key if key == "prompt" else record.extra.get(key)
