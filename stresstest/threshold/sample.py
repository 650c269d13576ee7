"""From generations to observations: who was seen healthy for how long, and who failed where.

Everything that decides whether a generation counts stands here, applied alike to failures and
successes: dropping only the failures is the classic way to fool oneself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from stresstest.model import Generation, Observation, SymptomKind

# The cap stopped these, not the model: a candidate that was open then may have been a failure.
_STOPPED = frozenset({"length", "repetition"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """An observation after censoring. onset: a failure that counts. reach: last token known healthy.

    doubtful: it may have failed right after `reach`; nobody knows.
    """

    onset: int | None
    reach: int
    doubtful: bool
    ended: bool


def observations(generations: Iterable[Generation]) -> list[Observation]:
    """One observation a generation, in the order given.

    A generation lost to a service failure is censored at its loss (a truncation seen only because the
    stream was cut is the failure's doing, no onset); `invalid_from` is passed on and applied, whatever
    the outcome, by whoever counts. Positions are 1-based output tokens.
    """
    return [_observation(g) for g in generations]


def _observation(generation: Generation) -> Observation:
    verdict = generation.verdict
    lost = generation.failure
    onset, observed = verdict.onset, verdict.observed
    if lost is not None and verdict.symptom is SymptomKind.TRUNCATION:
        onset = None
    if lost is not None and onset is None:
        observed = min(observed, lost.at_token)
    healthy = onset is None and lost is None
    stopped = generation.finish_reason in _STOPPED
    return Observation(
        onset=onset,
        observed=observed,
        cluster=generation.prompt_id,
        digest=_digest(generation),
        invalid_from=generation.invalid_from,
        ended=healthy and generation.finish_reason is not None and not stopped,
        unresolved=healthy
        and stopped
        and (observed < verdict.tokens or generation.finish_reason != "length"),
    )


def _digest(generation: Generation) -> str:
    hasher = hashlib.blake2b(digest_size=12)
    for token in generation.tokens:
        hasher.update(token.text.encode("utf-8", "surrogatepass"))
    return hasher.hexdigest()


def outcome(observation: Observation) -> Outcome:
    """What is left of an observation after its invalidated window: an onset before it, or health up to it."""
    onset, reach = observation.onset, observation.observed
    cut = observation.invalid_from
    if onset is not None:
        reach = onset - 1
    if cut is None or (onset is not None and onset < cut):
        return Outcome(onset, reach, observation.unresolved, observation.ended)
    if reach >= cut - 1:
        return Outcome(None, cut - 1, doubtful=False, ended=False)
    return Outcome(None, reach, observation.unresolved, ended=False)


def deduplicate(sample: Sequence[Observation], temperature: float | None) -> list[Observation]:
    """At temperature 0 neither identical outputs nor repeats of one prompt are independent: each counts once.

    Identical outputs of a group and outputs of one prompt become one observation: failing at the
    earliest valid onset if any member fails, else healthy as far as its longest member. Under sampling
    (or an unknown temperature) repeats of a prompt are kept; the number of distinct prompts is
    reported beside n instead. The result does not depend on the order of the sample.
    """
    if temperature is None or temperature > 0.0:
        return list(sample)
    merged = _merge(sample, lambda o: o.cluster or None)
    return _merge(merged, lambda o: o.digest)


def _merge(sample: Iterable[Observation], key: Callable[[Observation], str | None]) -> list[Observation]:
    groups: dict[str, list[Observation]] = {}
    alone: list[Observation] = []
    for observation in sample:
        name = key(observation)
        if name is None:
            alone.append(observation)
        else:
            groups.setdefault(name, []).append(observation)
    return [_one(group) for group in groups.values()] + alone


def _one(group: Sequence[Observation]) -> Observation:
    if len(group) == 1:
        return group[0]
    found = [(outcome(o), o) for o in group]
    failing = [(o.onset, source) for o, source in found if o.onset is not None]
    digest = max(o.digest or "" for o in group) or None
    if failing:
        onset, source = min(failing, key=lambda pair: pair[0])
        return Observation(onset, onset - 1, source.cluster, digest)
    best, source = max(found, key=lambda pair: (pair[0].reach, pair[0].doubtful))
    return replace(
        source,
        onset=None,
        observed=best.reach,
        digest=digest,
        invalid_from=None,
        ended=best.ended,
        unresolved=best.doubtful,
    )
