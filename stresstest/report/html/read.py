"""Stored documents, perhaps an older version's: what is missing or of another type is not measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stresstest.report.text import NOT_MEASURED, count, duration, percent

_NOTES = 12


def notes(body: Mapping[str, Any]) -> list[str]:
    """What a check found in words, then its notes."""
    sentences = [found.get("sentence") for found in mappings(body.get("findings"))]
    return [str(said) for said in (*sentences, *listed(body.get("notes"))) if said][:_NOTES]


def mapping(value: Any) -> Mapping[str, Any]:
    """An object, or an empty one."""
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> Sequence[Any]:
    """A list, or an empty one."""
    return value if isinstance(value, list | tuple) else ()


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list."""
    return [entry for entry in listed(value) if isinstance(entry, Mapping)]


def number(body: Mapping[str, Any], key: str) -> float | None:
    """A number, or None."""
    value = body.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def counted(body: Mapping[str, Any], key: str) -> str:
    """A count in words, – where it is missing."""
    return count(number(body, key))


def share(body: Mapping[str, Any], key: str, digits: int = 0) -> str:
    """A share in percent, – where it is missing."""
    return percent(number(body, key), digits)


def interval(value: Any) -> str:
    """Two shares in brackets, or nothing."""
    ends = [v for v in listed(value) if isinstance(v, int | float)]
    return f" ({percent(ends[0], 1)} to {percent(ends[1], 1)})" if len(ends) == 2 else ""


def ratio(value: Any) -> str:
    """A ratio with its interval."""
    found = mapping(value)
    ratio = number(found, "ratio")
    if ratio is None:
        return NOT_MEASURED
    ends = [v for v in listed(found.get("ci")) if isinstance(v, int | float)]
    return f"× {ratio:.2f}" + (f" (95 % interval {ends[0]:.2f} to {ends[1]:.2f})" if len(ends) == 2 else "")


def durations(body: Mapping[str, Any], one: str, other: str) -> str:
    """Two durations."""
    return f"{duration(number(body, one))} / {duration(number(body, other))}"


def money(value: Any) -> str:
    """An amount, or several by name."""
    if isinstance(value, Mapping):
        return (
            ", ".join(f"{str(k).replace('_', ' ')} {v}" for k, v in value.items() if v is not None)
            or NOT_MEASURED
        )
    return f"{value:,.2f}" if isinstance(value, int | float) else NOT_MEASURED


def name(value: Any) -> str:
    """What one side of a comparison is called."""
    if isinstance(value, Mapping):
        return str(value.get("label") or value.get("run_id") or value.get("name") or NOT_MEASURED)
    return NOT_MEASURED if value is None else str(value)
