"""The conditions under which a hazard is armed: `requires` of a scenario file, parsed and asked."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Value = float | str | bool

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_COMPARISON = re.compile(r"\s*(<=|>=|==|!=|<|>)\s*(\S.*?)\s*")

NUMBERS = ("repetition_penalty", "temperature", "top_p")
LOAD = ("concurrency", "kv_usage")
"""Known only while the engine runs: asked at the onset, and again at later sentences."""
BOOLEANS = ("language_constraint",)
WORDS = ("structure", "language", "task")
CONDITIONS = (*NUMBERS, *BOOLEANS, "structure", *LOAD, "language", "task")


@dataclass(frozen=True, slots=True)
class Condition:
    """`key` `operator` `value`; operator is one of < <= > >= == !=."""

    key: str
    operator: str
    value: Value

    @property
    def on_load(self) -> bool:
        return self.key in LOAD

    def met(self, given: Value | None) -> bool:
        """Whether a situation's value satisfies it; None (no such thing, e.g. no task) only satisfies !=."""
        if self.operator == "==":
            return given == self.value
        if self.operator == "!=":
            return given != self.value
        if isinstance(given, str) or isinstance(self.value, str) or given is None:
            return False
        return _OPERATORS[self.operator](given, self.value)

    def __str__(self) -> str:
        return f"{self.key} {self.operator} {self.value}"


def parse_condition(key: str, given: object) -> Condition:
    """A condition from a scenario file. ValueError says in words what is allowed."""
    if key in BOOLEANS:
        if not isinstance(given, bool):
            raise ValueError("true or false")
        return Condition(key, "==", given)
    if key in WORDS:
        return _parse_word(key, given)
    if isinstance(given, int | float) and not isinstance(given, bool):
        return Condition(key, "==", float(given))
    match = _COMPARISON.fullmatch(given) if isinstance(given, str) else None
    try:
        if match is not None:
            return Condition(key, match[1], float(match[2]))
    except ValueError:
        pass
    raise ValueError('a number or a comparison such as "<1.15", ">=0.9", "==0" or "!=1"')


def _parse_word(key: str, given: object) -> Condition:
    allowed = (
        '"rigid" or "open"'
        if key == "structure"
        else "a name such as " + ('"it"' if key == "language" else '"narrative"')
    )
    if not isinstance(given, str) or not given.strip():
        raise ValueError(f'{allowed} (or with "!=" before it)')
    match = _COMPARISON.fullmatch(given)
    if match is not None and match[1] not in ("==", "!="):
        raise ValueError(f'{allowed} (or with "!=" before it)')
    comparison, word = (match[1], match[2]) if match is not None else ("==", given.strip())
    if key == "structure" and word not in ("rigid", "open"):
        raise ValueError(f'{allowed} (or with "!=" before it)')
    return Condition(key, comparison, word)


def all_met(conditions: tuple[Condition, ...], given: Mapping[str, Value | None]) -> bool:
    """Whether every condition that can be known at submission is met; those on load are left open."""
    return all(c.on_load or c.met(given.get(c.key)) for c in conditions)
