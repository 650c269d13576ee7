"""Shared dataclasses as JSON documents and back, equal to what went in.

Plain JSON loses three things that `detail` mappings may hold: tuples, infinities and NaN. Python's
own JSON keeps the numbers; tuples inside free-form mappings are tagged. Fields that a document
lacks (written before they existed) take their defaults; fields it has too many are ignored.
Output is ASCII, so that every string the model can write (NUL, lone surrogates) can be stored.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from stresstest.errors import StoreError, UnreadableRunWarning
from stresstest.model import EndpointProfile, Generation, RunSettings
from stresstest.model.address import clean_url, without_userinfo

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
_TUPLE = "!tuple"
_LATEST = 1e11
"""Clock seconds: a moment some three thousand years ahead."""
_MOST = 1 << 53
_MOST_NAMED = 10
UNREADABLE = (StoreError, ValueError, TypeError, ArithmeticError, LookupError, RecursionError)
"""What reading a row fails on that was edited, damaged or written by a version with a defect."""


def dump(value: DataclassInstance, *, without: Sequence[str] = (), **extra: DataclassInstance) -> str:
    """A dataclass as a JSON document, leaving out the top-level fields in `without`; `extra` stands beside
    its fields."""
    plain = {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.name not in without}
    beside = {name: _plain(other) for name, other in extra.items()}
    return json.dumps(plain | beside, separators=(",", ":"))


def load(document: str, kind: type[T], **extra: object) -> T:
    """The dataclass that `dump` wrote; `extra` fills the fields left out then. StoreError if damaged."""
    import msgspec

    try:
        plain = json.loads(document, object_hook=_untag)
        result = msgspec.convert(plain | extra, kind)
    except (ValueError, TypeError, RecursionError, msgspec.ValidationError) as exc:
        raise StoreError(f"A stored {kind.__name__} is damaged ({exc}).") from exc
    return result


def require_columns(row: Any, what: str, texts: str = "", times: str = "", counts: str = "") -> None:
    """StoreError where a column holds what stresstest never writes: SQLite takes any type in any column.

    texts, times, counts: names of the columns, each of which may also be null.
    """
    for name in (*texts.split(), *times.split(), *counts.split()):
        value = getattr(row, name)
        if value is None:
            continue
        if name in texts.split():
            usual = isinstance(value, str)
        elif name in times.split():
            usual = isinstance(value, int | float) and abs(value) < _LATEST
        else:
            usual = isinstance(value, int) and 0 <= value <= _MOST
        if not usual:
            raise StoreError(
                f"A stored {what} is damaged: its {name} is {repr(value)[:40]}.",
                hint="Restore the store from a backup, or choose another one with --store.",
            )


def warn_left_out(ids: Sequence[str]) -> None:
    """Say which runs a list lacks: one that cannot be read must not take all others with it."""
    if not ids:
        return
    named = ", ".join(map(str, ids[:_MOST_NAMED])) + (", …" if len(ids) > _MOST_NAMED else "")
    what = f"run {named} cannot be read and is" if len(ids) == 1 else f"runs {named} cannot be read and are"
    warnings.warn(
        f"{what} left out; to delete a run that cannot be read: stresstest runs delete {ids[0]}",
        UnreadableRunWarning,
        stacklevel=2,
    )


def clean_settings(settings: RunSettings) -> RunSettings:
    """Settings fit for the store: no credentials in the addresses."""
    exporter = settings.gpu_exporter and clean_url(settings.gpu_exporter)
    earlier = tuple(map(clean_url, settings.earlier_urls))
    return replace(
        settings, base_url=clean_url(settings.base_url), gpu_exporter=exporter, earlier_urls=earlier
    )


def clean_profile(profile: EndpointProfile) -> EndpointProfile:
    """Profile fit for the store: no credentials in the address."""
    return replace(profile, base_url=clean_url(profile.base_url))


def clean_text(text: str, limit: int | None = None) -> str:
    """Text that every database takes in a column: no NUL, no lone surrogate, at most `limit` long."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")[:limit]


def clean_generation(generation: Generation) -> Generation:
    """Generation fit for the store: a failure's sentence may quote an address with a password."""
    failure = generation.failure
    if failure is None or "://" not in failure.message:
        return generation
    return replace(generation, failure=replace(failure, message=without_userinfo(failure.message)))


def _plain(value: Any, *, free: bool = False) -> Any:
    """Nested dataclasses, mappings and sequences as what JSON knows.

    free: inside a mapping of Any, where no declared type can tell a tuple from a list.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(k): _plain(v, free=True) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        items = [_plain(v, free=free) for v in value]
        return {_TUPLE: items} if free and isinstance(value, tuple) else items
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    item = getattr(value, "item", None)  # a numpy scalar from a detector
    return item() if callable(item) else str(value)


def _untag(document: dict[str, Any]) -> Any:
    return tuple(document[_TUPLE]) if document.keys() == {_TUPLE} else document
