"""A scenario as plain data: the simulated model, its engine, and the hazards that make it fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stresstest.model import Plane, SymptomKind
from stresstest.simulation.engine.conditions import Condition, Value, all_met
from stresstest.simulation.engine.distribution import Distribution, Fixed, Lognormal

BLOCK = 16
"""Tokens in one block of the paged KV cache, as vLLM's default."""

TEXT_SYMPTOMS = tuple(kind.value for kind in SymptomKind)
SERVICE_SYMPTOMS = ("slow", "http_500", "disconnect", "stall")


@dataclass(frozen=True, slots=True)
class Lengths:
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
    temperature, top_p, repetition_penalty: in force where a request does not send them.
    """

    max_model_len: int = 32_768
    tokens_per_unit: float | None = None
    languages: tuple[str, ...] = ()
    lengths: tuple[Lengths, ...] = ()
    early_end: Distribution | None = None
    early_end_share: float = 1.0
    early_end_correlation: float = 0.0
    answer_tokens: Distribution = field(default_factory=lambda: Lognormal(350.0, 0.4))
    temperature: float = 1.0
    top_p: float = 1.0
    repetition_penalty: float = 1.0


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
        return self.kv_cache_tokens // BLOCK


@dataclass(frozen=True, slots=True)
class Hazard:
    """One way to fail.

    symptom: a SymptomKind's value, or a service failure. plane: the truth that a diagnosis is scored
    against. onset: in output tokens (plane `context`: tokens in context). probability: share of the
    generations that carry it. ends: the degenerate text ends or recovers by itself some time after.
    factor: of the step time, for `slow`. seconds: how long a `stall` lasts.
    """

    symptom: str
    plane: Plane = Plane.DECODING
    onset: Distribution = field(default_factory=lambda: Fixed(1.0))
    probability: float = 1.0
    requires: tuple[Condition, ...] = ()
    ends: bool = False
    factor: float = 3.0
    seconds: float = 600.0

    @property
    def is_text(self) -> bool:
        return self.symptom in TEXT_SYMPTOMS

    @property
    def on_load(self) -> tuple[Condition, ...]:
        return tuple(c for c in self.requires if c.on_load)

    def armed(self, given: Mapping[str, Value | None]) -> bool:
        """Whether its conditions on prompt and decoding are met; those on load are asked at the onset."""
        return all_met(self.requires, given)

    def onset_cdf(self, tokens: float) -> float:
        """P(onset <= tokens) of the generations that carry it."""
        return self.onset.cdf(tokens)

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

    def tokens_per_unit(self, given: Mapping[str, Value | None], asked: float) -> float:
        """Mean tokens of a unit in this situation; `asked` is the task's own guess."""
        for lengths in self.model.lengths:
            if all_met(lengths.requires, given):
                return lengths.tokens_per_unit
        return self.model.tokens_per_unit or asked
