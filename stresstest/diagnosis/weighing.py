"""Decoding or context? What symptom, onset and decoding say for and against each, with numbers.

None of this proves a plane: it ranks two suspicions. An intervention (other decoding, shorter context)
is what confirms one. Weights are small integers on purpose: 2 for what one plane predicts and the other
does not, 1 for what one plane makes more likely. Repetition that nothing holds back weighs 3: a loop may well
have its place in the text, and one that some decoding clears is decoding by definition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from stresstest.diagnosis.penalties import Penalties, penalties
from stresstest.model import Decoding, EndpointProfile, Evidence, Generation, Plane, Symptom, SymptomKind

HIGH_PENALTY = 1.15
HOT = 1.3
COOL = 0.5
# Onsets this close together (IQR / median of the position in context) sit at a place, not at a chance.
CONCENTRATED = 0.12
SCATTERED = 0.25
_FEW = 5
NEAR_LIMIT = 0.9
_REPEATS = frozenset({SymptomKind.LOOP, SymptomKind.NEAR_LOOP, SymptomKind.FLOODING})

Weighed = tuple[int, Evidence]


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and interquartile range of token positions; n: how many."""

    n: int
    median: float
    iqr: float

    @property
    def relative(self) -> float:
        return self.iqr / self.median if self.median else 0.0

    def __str__(self) -> str:
        return f"median {self.median:.0f} tokens (IQR {self.iqr:.0f}, n = {self.n})"


def spread(values: Sequence[float]) -> Spread | None:
    """None below two values."""
    if len(values) < 2:
        return None
    low, _, high = quantiles(values, n=4, method="inclusive")
    return Spread(len(values), median(values), high - low)


def weigh(failing: Sequence[Generation], decoding: Decoding, profile: EndpointProfile) -> list[Weighed]:
    """All evidence for and against decoding and context, with weights. `failing`: degenerate ones only."""
    kinds = Counter(_kind(g) for g in failing)
    kind, count = max(kinds.items(), key=lambda item: (item[1], item[0].value))
    case = Case(kind, count, failing, decoding, penalties(decoding, profile))
    found = [w for rule in _RULES.get(kind, ()) for w in rule(case)]
    return [*found, *_position(failing), *_prompt_shift(failing), *_near_limit(failing, profile)]


def _kind(generation: Generation) -> SymptomKind:
    return generation.verdict.symptom or SymptomKind.STRUCTURE_BREAK


def _fact(plane: Plane, supports: bool, source: str, fact: str, value: float | None = None) -> Evidence:
    return Evidence(plane, supports, source, fact, value=value)


@dataclass(frozen=True, slots=True)
class Case:
    """The commonest symptom, in how many of the failing generations, under which decoding."""

    kind: SymptomKind
    count: int
    failing: Sequence[Generation]
    decoding: Decoding
    penalties: Penalties

    @property
    def what(self) -> str:
        return f"{self.kind} in {self.count} of {len(self.failing)} failing generations"

    @property
    def source(self) -> str:
        return f"detector:{self.kind}"

    @property
    def hot(self) -> bool:
        return self.decoding.temperature is not None and self.decoding.temperature >= HOT


Rule = Callable[[Case], list[Weighed]]


def _repetition(case: Case) -> list[Weighed]:
    what, decoding = case.what, case.decoding
    held = case.penalties
    if held.any:
        fact = f"{what} although penalties are in force ({held.words})"
        return [(1, _fact(Plane.DECODING, False, case.source, fact, held.repetition))]
    words = f"{what} with {held.because('nothing in the decoding holds repetition back')}"
    found = [(3, _fact(Plane.DECODING, True, case.source, words, held.repetition))]
    if decoding.temperature is not None and decoding.temperature <= COOL:
        cool = f"temperature {decoding.temperature:g}: near-greedy decoding follows a loop once it is likely"
        found.append((1, _fact(Plane.DECODING, True, "request", cool, decoding.temperature)))
    return found


def _drift(case: Case) -> list[Weighed]:
    what, held = case.what, case.penalties
    if held.weighed >= HIGH_PENALTY:
        fact = f"{what} at {held.words}: it pushes a language's own function words out"
        return [(2, _fact(Plane.DECODING, True, case.source, fact, held.repetition))]
    if held.any:
        fact = f"{what}; penalties are in force but mild ({held.words})"
        return [(1, _fact(Plane.CONTEXT, True, case.source, fact))]
    fact = f"{what} with {held.because('no penalty pushes words out')}"
    return [(1, _fact(Plane.CONTEXT, True, case.source, fact))]


def _heat(case: Case) -> list[Weighed]:
    if not case.hot:
        return []
    fact = f"{case.what} at temperature {case.decoding.temperature:g}: hot sampling"
    return [(2, _fact(Plane.DECODING, True, "request", fact, case.decoding.temperature))]


def _structure(case: Case) -> list[Weighed]:
    what, held = case.what, case.penalties
    if held.weighed >= HIGH_PENALTY:
        fact = f"{what} at {held.words}: it also penalises headings and numbers that must recur"
        return [(1, _fact(Plane.DECODING, True, case.source, fact, held.repetition))]
    return [
        (1, _fact(Plane.CONTEXT, True, case.source, f"{what}: structure fails, whatever token is sampled"))
    ]


def _entropy(case: Case) -> list[Weighed]:
    """Counted wherever a shift was seen, as the symptom or beside it."""
    changes = [c for g in case.failing for s in g.verdict.symptoms if (c := _change(s)) is not None]
    if not changes:
        return []
    middle, up = median(changes), sum(1 for c in changes if c > 0)
    source = "detector:entropy_shift"
    if 2 * up > len(changes):
        fact = f"entropy rises in {up} of {len(changes)} (median {middle:+.2f} nats): incoherence"
        return [(0 if case.hot else 1, _fact(Plane.CONTEXT, True, source, fact, middle))]
    fact = f"entropy falls in {len(changes) - up} of {len(changes)} (median {middle:+.2f} nats): collapse"
    return [(1, _fact(Plane.DECODING, not case.penalties.any, source, fact, middle))]


def _change(symptom: Symptom) -> float | None:
    before, after = symptom.detail.get("mean_before"), symptom.detail.get("mean_after")
    if symptom.kind is not SymptomKind.ENTROPY_SHIFT:
        return None
    if not isinstance(before, int | float) or not isinstance(after, int | float):
        return None
    return float(after) - float(before)


def _cut_short(case: Case) -> list[Weighed]:
    if case.hot or case.penalties.weighed >= HIGH_PENALTY:
        return []
    fact = f"{case.what} without hot sampling or a high penalty"
    return [(1, _fact(Plane.CONTEXT, True, case.source, fact))]


_RULES: dict[SymptomKind, tuple[Rule, ...]] = {
    **dict.fromkeys(_REPEATS, (_repetition,)),
    SymptomKind.LANGUAGE_DRIFT: (_drift, _heat),
    SymptomKind.GIBBERISH: (_drift, _heat),
    SymptomKind.STRUCTURE_BREAK: (_structure, _heat, _entropy),
    SymptomKind.ENTROPY_SHIFT: (_entropy, _heat),
    SymptomKind.TRUNCATION: (_cut_short, _heat),
}


def positions(failing: Sequence[Generation]) -> list[float]:
    """Onset counted in the context: prompt tokens + onset, where the prompt's tokens are known."""
    return [
        float(g.prompt_tokens + g.verdict.onset)
        for g in failing
        if g.prompt_tokens is not None and g.verdict.onset is not None
    ]


def onsets(failing: Sequence[Generation]) -> list[float]:
    return [float(g.verdict.onset) for g in failing if g.verdict.onset is not None]


def _position(failing: Sequence[Generation]) -> list[Weighed]:
    known = positions(failing)
    where = "in the context (prompt + onset)" if len(known) >= _FEW else "in the answer"
    found = spread(known if len(known) >= _FEW else onsets(failing))
    if found is None or found.n < _FEW:
        return []
    share = f"{found.relative:.0%} of the median"
    if found.relative <= CONCENTRATED:
        fact = f"onsets sit at one place {where}: {found}, a spread of {share}"
        return [(2, _fact(Plane.CONTEXT, True, "onsets", fact, found.relative))]
    if found.relative >= SCATTERED:
        fact = f"onsets are scattered {where}: {found}, a spread of {share}"
        return [(1, _fact(Plane.CONTEXT, False, "onsets", fact, found.relative))]
    fact = f"onsets are neither at one place nor scattered: {found}, a spread of {share}"
    return [(0, _fact(Plane.CONTEXT, False, "onsets", fact, found.relative))]


def _prompt_shift(failing: Sequence[Generation]) -> list[Weighed]:
    """Longer prompts, earlier onsets: the clearest sign of a limit in the context."""
    both = [g for g in failing if g.prompt_tokens is not None and g.verdict.onset is not None]
    lengths = {g.prompt_tokens for g in both}
    in_context, in_answer = spread(positions(both)), spread(onsets(both))
    if len(both) < 2 * _FEW or len(lengths) < 2 or in_context is None or in_answer is None:
        return []
    if in_context.iqr <= 0.6 * in_answer.iqr:
        fact = (
            f"prompts differ in length, and onsets agree better counted from the prompt's start "
            f"(IQR {in_context.iqr:.0f} tokens) than from the answer's (IQR {in_answer.iqr:.0f})"
        )
        return [(2, _fact(Plane.CONTEXT, True, "onsets", fact))]
    if in_answer.iqr <= 0.6 * in_context.iqr:
        fact = (
            f"prompts differ in length, and onsets agree better counted from the answer's start "
            f"(IQR {in_answer.iqr:.0f} tokens) than from the prompt's (IQR {in_context.iqr:.0f})"
        )
        return [(1, _fact(Plane.CONTEXT, False, "onsets", fact))]
    return []


def _near_limit(failing: Sequence[Generation], profile: EndpointProfile) -> list[Weighed]:
    known = positions(failing)
    if not known or profile.max_model_len is None:
        return []
    share = median(known) / profile.max_model_len
    fact = f"median onset at {share:.0%} of the context window ({profile.max_model_len} tokens)"
    if share >= NEAR_LIMIT:
        return [(2, _fact(Plane.CONTEXT, True, "onsets", fact, share))]
    return [(0, _fact(Plane.CONTEXT, False, "onsets", f"{fact}: far below it", share))]
