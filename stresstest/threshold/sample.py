"""From generations to observations: who was seen healthy for how long, and who failed where.

Everything that decides whether a generation counts stands here, applied alike to failures and
successes: dropping only the failures is the classic way to fool oneself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from stresstest.model import Generation, Observation, SymptomKind

# The cap stopped these, not the model: they did not end by themselves.
_STOPPED = frozenset({"length", "repetition"})
# A loss finds any text in the middle of a sentence. What is open no longer than this (about two sentences)
# says nothing about the text; beyond it, it is a candidate that the loss left undecided.
ORDINARY_TAIL = 64


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
    stream was cut is the failure's doing, no onset). With a candidate open where it stopped, whether by
    itself, at its cap or at its loss, it is unresolved, because leaving it out would drop failures only:
    an answer that drifts in its last sentences ends before any alarm. What a loss leaves open is a candidate
    from `ORDINARY_TAIL` tokens on: losses strike healthy and failing text alike, and every text is in the
    middle of some sentence. No position lies beyond the max_tokens sent.
    `invalid_from` is passed on and applied, whatever the outcome, by whoever counts. Positions are 1-based
    output tokens.
    """
    return [_observation(g) for g in generations]


def _observation(generation: Generation) -> Observation:
    verdict, cap = generation.verdict, generation.job.max_tokens
    lost = generation.failure
    onset, observed = verdict.onset, min(verdict.observed, cap)
    if lost is not None and verdict.symptom is SymptomKind.TRUNCATION:
        onset = None
    if onset is not None:
        onset = max(1, min(onset, cap))
        observed = onset - 1
    unresolved = False
    if lost is not None and onset is None:
        observed = min(observed, lost.at_token)
        unresolved = max(lost.at_token, verdict.tokens) - observed >= ORDINARY_TAIL and observed < cap
    healthy = onset is None and lost is None
    stopped = generation.finish_reason in _STOPPED
    if healthy and generation.finish_reason is not None:
        unresolved = observed < verdict.tokens or generation.finish_reason == "repetition"
    return Observation(
        onset=onset,
        observed=observed,
        cluster=generation.prompt_id,
        digest=_digest(generation),
        invalid_from=generation.invalid_from,
        ended=healthy and generation.finish_reason is not None and not stopped,
        unresolved=unresolved,
    )


def _digest(generation: Generation) -> str | None:
    """None for an output without tokens: it says nothing, so there is nothing that it could repeat."""
    if not generation.tokens:
        return None
    hasher = hashlib.blake2b(digest_size=12)
    for token in generation.tokens:
        hasher.update(token.text.encode("utf-8", "surrogatepass"))
    return hasher.hexdigest()


def outcome(observation: Observation) -> Outcome:
    """What is left of an observation after its invalidated window: an onset before it, or health up to it."""
    onset, reach = observation.onset, observation.observed
    cut = observation.invalid_from
    if onset is not None:
        reach = min(reach, onset - 1)
    if cut is None or (onset is not None and onset < cut):
        return Outcome(onset, reach, observation.unresolved, observation.ended)
    if reach >= cut - 1:
        return Outcome(None, cut - 1, doubtful=False, ended=False)
    return Outcome(None, reach, observation.unresolved, ended=False)


def deduplicate(sample: Sequence[Observation], temperature: float | None) -> list[Observation]:
    """Identical outputs of one prompt are one output, whatever the temperature: a server may be greedy by
    its own default, or ignore the seed. At temperature 0 repeats of one prompt and identical outputs of
    several prompts are one as well.

    What is merged is healthy as far as its longest member, or fails at the earliest valid onset. Copies of
    a failing output are no further witnesses of the health before its onset, but they stay failures:
    otherwise the same rubbish in every third answer would count once. Under sampling (or an unknown
    temperature) other repeats of a prompt are kept; the number of distinct prompts is reported beside n
    instead. The result does not depend on the order of the sample.
    """
    merged = _merge(sample, lambda o: (o.cluster, o.digest) if o.digest is not None else None, _copies)
    if temperature is None or temperature > 0.0:
        return merged
    merged = _merge(merged, lambda o: o.cluster or None, _one)
    return _merge(merged, lambda o: o.digest, _copies)


_Key = tuple[str, str] | str | None
_Join = Callable[[Sequence[Observation]], list[Observation]]


def _merge(
    sample: Iterable[Observation], key: Callable[[Observation], _Key], join: _Join
) -> list[Observation]:
    groups: dict[_Key, list[Observation]] = {}
    alone: list[Observation] = []
    for observation in sample:
        name = key(observation)
        if name is None:
            alone.append(observation)
        else:
            groups.setdefault(name, []).append(observation)
    return [o for group in groups.values() for o in (join(group) if len(group) > 1 else group)] + alone


def _copies(group: Sequence[Observation]) -> list[Observation]:
    """One of them, and the other failures as failures only: never at risk before their onset."""
    (one,) = _one(group)
    onsets = sorted(found.onset for found in map(outcome, group) if found.onset is not None)
    return [one, *(Observation(onset, 0, one.cluster) for onset in onsets[1:])]


def _one(group: Sequence[Observation]) -> list[Observation]:
    found = [(outcome(o), o) for o in group]
    failing = [(o.onset, o.reach, source) for o, source in found if o.onset is not None]
    digest = max(o.digest or "" for o in group) or None
    if failing:
        onset, _, source = min(failing, key=lambda triple: triple[0])
        reach = min(onset - 1, max(reach for _, reach, _ in failing))
        return [Observation(onset, reach, source.cluster, digest)]
    best, source = max(found, key=lambda pair: (pair[0].reach, pair[0].doubtful))
    return [
        replace(
            source,
            onset=None,
            observed=best.reach,
            digest=digest,
            invalid_from=None,
            ended=best.ended,
            unresolved=best.doubtful,
        )
    ]
