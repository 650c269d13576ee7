"""Weighs evidence for decoding against evidence for context, from symptom, onset and decoding.

The weights rank two suspicions and prove neither; only an intervention (other decoding, shorter context)
confirms a plane. A weight is 2 if one plane predicts the observation and the other does not, and 1 if one
plane makes it more likely. Repetition without any penalty weighs 3: a loop may also have a fixed position in
the text, but one that some decoding clears is decoding by definition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from stresstest.detectors.registry import is_repetition
from stresstest.model import (
    Decoding,
    EndpointProfile,
    Evidence,
    GenerationRecord,
    Phase,
    Plane,
    Symptom,
    SymptomKind,
)
from stresstest.model.percent import percent

_NAME = "repetition_penalty"
_ADDITIVE = ("presence_penalty", "frequency_penalty")


@dataclass(frozen=True, slots=True)
class EffectivePenalties:
    """repetition: the repetition_penalty in force, None if unknown (treated as 1.0).

    additive: the larger of presence and frequency penalty. words: describes the penalties and their source.
    """

    repetition: float | None
    additive: float
    words: str

    @property
    def effective_repetition(self) -> float:
        return self.repetition or 1.0

    @property
    def has_penalty(self) -> bool:
        return self.effective_repetition > 1.0 or self.additive > 0.0

    def because(self, claim: str) -> str:
        """`words`, followed by `claim` if the repetition penalty is known."""
        return self.words if self.repetition is None else f"{self.words}: {claim}"


def effective_penalties(decoding: Decoding, profile: EndpointProfile) -> EffectivePenalties:
    """The penalties that result from a request's decoding and the server's defaults."""
    found, words = _repetition_penalty(decoding, profile)
    additive = {name: _number(getattr(decoding, name), profile, name) for name in _ADDITIVE}
    words += "".join(f", {name} {value:g}" for name, value in additive.items() if value > 0.0)
    return EffectivePenalties(found, max(additive.values()), words)


def _repetition_penalty(decoding: Decoding, profile: EndpointProfile) -> tuple[float | None, str]:
    sent, default = decoding.repetition_penalty, profile.defaults.get(_NAME)
    if sent is not None:
        return sent, f"{_NAME} {sent:g}"
    if isinstance(default, int | float):
        return float(default), f"{_NAME} {default:g} (not sent: the model's generation_config.json)"
    if profile.defaults:
        return 1.0, f"no {_NAME} sent, and none in the model's generation_config.json"
    return None, f"no {_NAME} sent; the server's own default is not known"


def _number(sent: float | None, profile: EndpointProfile, name: str) -> float:
    value = sent if sent is not None else profile.defaults.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


HIGH_PENALTY = 1.15
HOT_TEMPERATURE = 1.3
LOW_TEMPERATURE = 0.5
# Relative spread (IQR / median of the position in context) up to which onsets count as being in one place.
CONCENTRATED_SPREAD = 0.12
SCATTERED_SPREAD = 0.25
_FEW = 5
NEAR_LIMIT = 0.9

WeightedEvidence = tuple[int, Evidence]


@dataclass(frozen=True, slots=True)
class PositionSpread:
    """Median and interquartile range of n token positions."""

    n: int
    median: float
    iqr: float

    @property
    def relative(self) -> float:
        return self.iqr / self.median if self.median else 0.0


def position_spread(values: Sequence[float]) -> PositionSpread | None:
    """The spread of token positions; None with fewer than two."""
    if len(values) < 2:
        return None
    low, _, high = quantiles(values, n=4, method="inclusive")
    return PositionSpread(len(values), median(values), high - low)


def weigh_evidence(
    failing: Sequence[GenerationRecord], decoding: Decoding, profile: EndpointProfile
) -> list[WeightedEvidence]:
    """All weighted evidence for and against decoding and context. failing: degenerate generations only."""
    kinds = Counter(g.verdict.symptom or SymptomKind.STRUCTURE_BREAK for g in failing)
    kind, count = max(kinds.items(), key=lambda item: (item[1], item[0].value))
    case = FailurePattern(kind, count, failing, decoding, effective_penalties(decoding, profile))
    rules = (_repetition,) if is_repetition(kind) else _RULES.get(kind, ())
    found = [w for rule in rules for w in rule(case)]
    return [*found, *_position(failing), *_prompt_shift(failing), *_near_limit(failing, profile)]


def _fact(plane: Plane, supports: bool, source: str, fact: str, value: float | None = None) -> Evidence:
    return Evidence(plane, supports, source, fact, value=value)


@dataclass(frozen=True, slots=True)
class FailurePattern:
    """The most frequent symptom, its count among the failing generations, and their decoding."""

    kind: SymptomKind
    count: int
    failing: Sequence[GenerationRecord]
    decoding: Decoding
    penalties: EffectivePenalties

    @property
    def description(self) -> str:
        climb = sum(1 for g in self.failing if g.job.phase is Phase.CLIMB)
        before = f" ({climb} of them while finding the length)" if climb else ""
        return f"{self.kind} in {self.count} of {len(self.failing)} failing answers{before}"

    @property
    def source(self) -> str:
        return f"detector:{self.kind}"

    @property
    def is_hot(self) -> bool:
        return self.decoding.temperature is not None and self.decoding.temperature >= HOT_TEMPERATURE


WeighingRule = Callable[[FailurePattern], list[WeightedEvidence]]


def _repetition(case: FailurePattern) -> list[WeightedEvidence]:
    what, decoding = case.description, case.decoding
    held = case.penalties
    if held.has_penalty:
        fact = f"{what} although penalties are in force ({held.words})"
        return [(1, _fact(Plane.DECODING, False, case.source, fact, held.repetition))]
    words = f"{what} with {held.because('nothing in the decoding holds repetition back')}"
    found = [(3, _fact(Plane.DECODING, True, case.source, words, held.repetition))]
    if decoding.temperature is not None and decoding.temperature <= LOW_TEMPERATURE:
        cool = f"temperature {decoding.temperature:g}: near-greedy decoding follows a loop once it is likely"
        found.append((1, _fact(Plane.DECODING, True, "request", cool, decoding.temperature)))
    return found


def _drift_evidence(case: FailurePattern) -> list[WeightedEvidence]:
    what, held = case.description, case.penalties
    if held.effective_repetition >= HIGH_PENALTY:
        fact = f"{what} at {held.words}: it pushes a language's own function words out"
        return [(2, _fact(Plane.DECODING, True, case.source, fact, held.repetition))]
    if held.has_penalty:
        fact = f"{what}; penalties are in force but mild ({held.words})"
        return [(1, _fact(Plane.CONTEXT, True, case.source, fact))]
    fact = f"{what} with {held.because('no penalty pushes words out')}"
    return [(1, _fact(Plane.CONTEXT, True, case.source, fact))]


def _temperature_evidence(case: FailurePattern) -> list[WeightedEvidence]:
    if not case.is_hot:
        return []
    fact = f"{case.description} at temperature {case.decoding.temperature:g}: hot sampling"
    return [(2, _fact(Plane.DECODING, True, "request", fact, case.decoding.temperature))]


def _structure(case: FailurePattern) -> list[WeightedEvidence]:
    what, held = case.description, case.penalties
    if held.effective_repetition >= HIGH_PENALTY:
        fact = f"{what} at {held.words}: it also penalises headings and numbers that must recur"
        return [(1, _fact(Plane.DECODING, True, case.source, fact, held.repetition))]
    return [
        (1, _fact(Plane.CONTEXT, True, case.source, f"{what}: structure fails, whatever token is sampled"))
    ]


def _entropy(case: FailurePattern) -> list[WeightedEvidence]:
    """Counts every entropy shift, whether it is the generation's main symptom or an additional one."""
    changes = [c for g in case.failing for s in g.verdict.symptoms if (c := _change(s)) is not None]
    if not changes:
        return []
    middle, up = median(changes), sum(1 for c in changes if c > 0)
    source = "detector:entropy_shift"
    if 2 * up > len(changes):
        fact = f"entropy rises in {up} of {len(changes)} (median {middle:+.2f} nats): incoherence"
        return [(0 if case.is_hot else 1, _fact(Plane.CONTEXT, True, source, fact, middle))]
    fact = f"entropy falls in {len(changes) - up} of {len(changes)} (median {middle:+.2f} nats): collapse"
    return [(1, _fact(Plane.DECODING, not case.penalties.has_penalty, source, fact, middle))]


def _surprisal(case: FailurePattern) -> list[WeightedEvidence]:
    """Sustained surprisal under a high penalty, which leaves only unlikely tokens."""
    levels = [
        level for g in case.failing for s in g.verdict.symptoms if (level := _mean_surprisal(s)) is not None
    ]
    if not levels or case.penalties.effective_repetition < HIGH_PENALTY:
        return []
    fact = (
        f"unlikely tokens one after another in {len(levels)} of {len(case.failing)} (median surprisal "
        f"{median(levels):.2f} nats) at {case.penalties.words}: it pushes the likely ones out"
    )
    return [(2, _fact(Plane.DECODING, True, "detector:entropy_shift", fact, median(levels)))]


def _mean_surprisal(symptom: Symptom) -> float | None:
    found = symptom.detail.get("mean_surprisal")
    return float(found) if isinstance(found, int | float) else None


def _change(symptom: Symptom) -> float | None:
    before, after = symptom.detail.get("mean_before"), symptom.detail.get("mean_after")
    if symptom.kind is not SymptomKind.ENTROPY_SHIFT:
        return None
    if not isinstance(before, int | float) or not isinstance(after, int | float):
        return None
    return float(after) - float(before)


def _cut_short(case: FailurePattern) -> list[WeightedEvidence]:
    if case.is_hot or case.penalties.effective_repetition >= HIGH_PENALTY:
        return []
    fact = f"{case.description} without hot sampling or a high penalty"
    return [(1, _fact(Plane.CONTEXT, True, case.source, fact))]


def _not_stopped(case: FailurePattern) -> list[WeightedEvidence]:
    fact = (
        f"{case.description}: the server does not stop where the model ends its turn. Its chat template, or "
        f"the stop tokens in generation_config.json, are not the model's"
    )
    return [(2, _fact(Plane.DECODING, True, case.source, fact))]


_RULES: dict[SymptomKind, tuple[WeighingRule, ...]] = {
    SymptomKind.LANGUAGE_DRIFT: (_drift_evidence, _temperature_evidence),
    SymptomKind.GIBBERISH: (_drift_evidence, _temperature_evidence, _surprisal),
    SymptomKind.STRUCTURE_BREAK: (_structure, _temperature_evidence, _entropy),
    SymptomKind.ENTROPY_SHIFT: (_entropy, _temperature_evidence, _surprisal),
    SymptomKind.TRUNCATION: (_cut_short, _temperature_evidence),
    SymptomKind.EXTRA_TURNS: (_not_stopped,),
}


def context_positions(failing: Sequence[GenerationRecord]) -> list[float]:
    """Onsets as positions in the context (prompt tokens + onset), where the prompt's length is known."""
    return [
        float(g.prompt_tokens + g.verdict.onset)
        for g in failing
        if g.prompt_tokens is not None and g.verdict.onset is not None
    ]


def onsets(failing: Sequence[GenerationRecord]) -> list[float]:
    return [float(g.verdict.onset) for g in failing if g.verdict.onset is not None]


def _position(failing: Sequence[GenerationRecord]) -> list[WeightedEvidence]:
    known = context_positions(failing)
    where = " (prompt + answer)" if len(known) >= _FEW else ""
    found = position_spread(known if len(known) >= _FEW else onsets(failing))
    if found is None or found.n < _FEW:
        return []
    spans = (
        f"median {found.median:,.0f} tokens{where}, interquartile range of the {found.n} answers "
        f"{found.iqr:,.0f} tokens, {percent(found.relative)} of the median"
    )
    bound = percent(CONCENTRATED_SPREAD)
    if found.relative <= CONCENTRATED_SPREAD:
        fact = (
            f"the failures lie close together, as they would at a limit in the context: {spans} (up to "
            f"{bound} is close)"
        )
        return [(2, _fact(Plane.CONTEXT, True, "onsets", fact, found.relative))]
    if found.relative >= SCATTERED_SPREAD:
        fact = (
            f"the failures are spread out: {spans}. A limit in the context would make the answers fail at "
            f"nearly the same length (a span of at most {bound})"
        )
        return [(1, _fact(Plane.CONTEXT, False, "onsets", fact, found.relative))]
    return []  # neither at one place nor scattered


def _prompt_shift(failing: Sequence[GenerationRecord]) -> list[WeightedEvidence]:
    """Earlier onsets after longer prompts are the clearest sign of a limit in the context."""
    both = [g for g in failing if g.prompt_tokens is not None and g.verdict.onset is not None]
    lengths = {g.prompt_tokens for g in both}
    in_context, in_answer = position_spread(context_positions(both)), position_spread(onsets(both))
    if len(both) < 2 * _FEW or len(lengths) < 2 or in_context is None or in_answer is None:
        return []
    if in_context.iqr <= 0.6 * in_answer.iqr:
        fact = (
            f"prompts differ in length, and onsets agree better counted from the prompt's start "
            f"(interquartile range {in_context.iqr:,.0f} tokens) than from the answer's "
            f"({in_answer.iqr:,.0f})"
        )
        return [(2, _fact(Plane.CONTEXT, True, "onsets", fact))]
    if in_answer.iqr <= 0.6 * in_context.iqr:
        fact = (
            f"prompts differ in length, and onsets agree better counted from the answer's start "
            f"(interquartile range {in_answer.iqr:,.0f} tokens) than from the prompt's "
            f"({in_context.iqr:,.0f})"
        )
        return [(1, _fact(Plane.CONTEXT, False, "onsets", fact))]
    return []


def _near_limit(failing: Sequence[GenerationRecord], profile: EndpointProfile) -> list[WeightedEvidence]:
    known = context_positions(failing)
    if not known or profile.max_model_len is None:
        return []
    share = median(known) / profile.max_model_len
    which = "median onset" if len(known) > 1 else "onset"
    fact = f"{which} at {percent(share)} of the context window ({profile.max_model_len:,} tokens)"
    if share >= NEAR_LIMIT:
        return [(2, _fact(Plane.CONTEXT, True, "onsets", fact, share))]
    return [(0, _fact(Plane.CONTEXT, False, "onsets", f"{fact}: the window was nearly empty", share))]
