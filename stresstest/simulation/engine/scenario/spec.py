"""A scenario as plain data: the simulated model, its engine, and the hazards that make it fail.

Each hazard has conditions under which it is armed: `requires` of the scenario file.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stresstest.model import AnswerPart, Plane
from stresstest.simulation.engine.scenario.distribution import (
    Distribution,
    FixedDistribution,
    LognormalDistribution,
)

ConditionValue = float | str | bool

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_COMPARISON = re.compile(r"\s*(<=|>=|==|!=|<|>)\s*(\S.*?)\s*")

NUMERIC_CONDITIONS = ("repetition_penalty", "temperature", "top_p")
LOAD_CONDITIONS = ("concurrency", "kv_usage", "preemptions")
"""Known only while the engine runs: asked at the onset, and again at later sentences."""
BOOLEAN_CONDITIONS = ("language_constraint",)
WORD_CONDITIONS = ("structure", "language", "task")
CONDITIONS = (*NUMERIC_CONDITIONS, *BOOLEAN_CONDITIONS, "structure", *LOAD_CONDITIONS, "language", "task")


@dataclass(frozen=True, slots=True)
class Condition:
    """`key` `operator` `value`; operator is one of < <= > >= == !=."""

    key: str
    operator: str
    value: ConditionValue

    @property
    def depends_on_load(self) -> bool:
        return self.key in LOAD_CONDITIONS

    def is_met(self, given: ConditionValue | None) -> bool:
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
    if key in BOOLEAN_CONDITIONS:
        if not isinstance(given, bool):
            raise ValueError("true or false")
        return Condition(key, "==", given)
    if key in WORD_CONDITIONS:
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


def all_met(conditions: tuple[Condition, ...], given: Mapping[str, ConditionValue | None]) -> bool:
    """Whether every condition that can be known at submission is met; those on load are left open."""
    return all(c.depends_on_load or c.is_met(given.get(c.key)) for c in conditions)


KV_BLOCK_TOKENS = 16
"""Tokens in one block of the paged KV cache, as vLLM's default."""

SERVICE_SYMPTOMS = ("slow", "http_500", "disconnect", "stall")


@dataclass(frozen=True, slots=True)
class UnitLengthRule:
    """Under these conditions a unit takes `tokens_per_unit` tokens."""

    requires: tuple[Condition, ...]
    tokens_per_unit: float


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """How the simulated model writes.

    tokens_per_unit: mean tokens of a unit; None: what the task's file says. lengths: the first one whose
    conditions are met goes before it. languages: what it can write (none: all); a prompt in another one is
    answered in English or the first. early_end: tokens after which it ends by itself in good order, whatever
    was asked; None: it writes what was asked. early_end_share: share of answers that do.
    early_end_correlation: of the early end with the first hazard's onset (Gaussian copula, -1 to 1).
    answer_tokens: length of an answer to a prompt that asks for no number of units and is no shipped task.
    temperature, top_p, repetition_penalty: in force where a request does not send them. reasoning_tokens:
    after so many it ends its reasoning, at the next sentence, and answers; None: it does not reason.
    reasoning_parser: the server tells reasoning from answer; without, it stands between tags in the text.
    """

    max_model_len: int = 32_768
    tokens_per_unit: float | None = None
    languages: tuple[str, ...] = ()
    lengths: tuple[UnitLengthRule, ...] = ()
    early_end: Distribution | None = None
    early_end_share: float = 1.0
    early_end_correlation: float = 0.0
    answer_tokens: Distribution = field(default_factory=lambda: LognormalDistribution(350.0, 0.4))
    temperature: float = 1.0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    reasoning_tokens: Distribution | None = None
    reasoning_parser: bool = True


@dataclass(frozen=True, slots=True)
class StepTime:
    """Milliseconds of one engine step: base + per_sequence · n + per_1k_kv_tokens · (KV read / 1000)
    + per_1k_prefill_tokens · (prompt tokens computed / 1000). The defaults are a 12 GB consumer card's."""

    base: float = 11.0
    per_sequence: float = 0.12
    per_1k_kv_tokens: float = 0.12
    per_1k_prefill_tokens: float = 140.0


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """The engine: sizes in tokens and sequences; speed multiplies simulated time (2.0: twice as fast)."""

    kv_cache_tokens: int = 262_144
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2_048
    prefix_caching: bool = True
    step_ms: StepTime = field(default_factory=StepTime)
    speed: float = 1.0

    @property
    def blocks(self) -> int:
        return self.kv_cache_tokens // KV_BLOCK_TOKENS


@dataclass(frozen=True, slots=True)
class Hazard:
    """One way to fail.

    symptom: one that is registered, or a service failure. plane: the truth that a diagnosis is scored
    against. onset: in output tokens (plane `context`: tokens in context). probability: share of the
    generations that carry it. ends: the degenerate text ends or recovers by itself some time after.
    factor: of the step time, for `slow`. seconds: how long a `stall` lasts. part: in which of reasoning and
    answer it strikes; its onset counts from the first token of that part. form: that the symptom takes in an
    answer of records, rows or functions; None: any of its forms.
    """

    symptom: str
    plane: Plane = Plane.DECODING
    onset: Distribution = field(default_factory=lambda: FixedDistribution(1.0))
    probability: float = 1.0
    requires: tuple[Condition, ...] = ()
    ends: bool = False
    factor: float = 3.0
    seconds: float = 600.0
    part: AnswerPart = AnswerPart.ANSWER
    form: str | None = None

    @property
    def is_text_failure(self) -> bool:
        return self.symptom not in SERVICE_SYMPTOMS

    @property
    def depends_on_load(self) -> tuple[Condition, ...]:
        return tuple(c for c in self.requires if c.depends_on_load)

    def is_armed(self, given: Mapping[str, ConditionValue | None]) -> bool:
        """Whether its conditions on prompt and decoding are met; those on load are asked at the onset."""
        return all_met(self.requires, given)

    def quantile(self, share: float) -> float:
        """The onset that `share` of the generations that carry it do not exceed."""
        return self.onset.quantile(share)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A simulated server: what it is, and how it fails."""

    name: str
    summary: str
    model: ModelSpec = field(default_factory=ModelSpec)
    engine: EngineSpec = field(default_factory=EngineSpec)
    hazards: tuple[Hazard, ...] = ()

    def tokens_per_unit(self, given: Mapping[str, ConditionValue | None], asked: float) -> float:
        """Mean tokens of a unit in this situation; `asked` is the task's own guess."""
        for lengths in self.model.lengths:
            if all_met(lengths.requires, given):
                return lengths.tokens_per_unit
        return self.model.tokens_per_unit or asked
