"""What a scan is asked for, and the groups that it makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from stresstest.config.credentials.texts import hide_credentials
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
    """A value without credentials; of a long one, which every answer of its group would hold, the beginning
    and a digest."""
    return None if value is None else _shortened(value)


@lru_cache(1 << 10)
def _shortened(value: str) -> str:
    long = len(value) > _LONGEST_VALUE
    shown = hide_credentials(f"{value[: _LONGEST_VALUE - 18]}…" if long else value)
    if shown == value:
        return value
    # Two addresses that differ in their key alone stay two groups.
    digest = blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8 if long else 3).hexdigest()
    return f"{shown} {digest}"


def _value(record: Record, key: str) -> str | None:
    if key in ("id", "model", "task", "language", "finish_reason", "source"):
        return record.extra.get(key) or getattr(record, key)
    if key in ("max_tokens", "prompt_tokens", "completion_tokens"):
        value = getattr(record, key)
        return None if value is None else str(value)
    return record.prompt_key if key == "prompt" else record.extra.get(key)
