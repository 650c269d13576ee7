"""Converts generations to observations: how long each was observed healthy, and where it failed.

All rules that decide whether a generation counts are here and apply equally to failures and successes:
removing only failures would bias the estimate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from stresstest.detectors.registry import ends_answer
from stresstest.model import GenerationRecord, Observation
from stresstest.model.finish_reason import (
    LENGTH,
    LOST_REASONS,
    STOP,
    is_foreign_reason,
    normalize_finish_reason,
)
from stresstest.model.texts.times_and_ids import NUMBERED_WORD
from stresstest.model.words import REPETITION_REASON

# A loss can interrupt any text in mid-sentence, so a candidate open for fewer tokens than this (about two
# sentences) is ignored; a longer one is left undecided by the loss, and so is any that ends in repetitions:
# Ollama breaks an answer off after 31 equal tokens.
HEALTHY_TAIL_TOKENS = 64
# From this share of answers on that came late, the service may have generated what it never delivered. One
# of several replicas may buffer while the others stream; a slow start or two are no sign of it.
_LATE_SHARE = 0.1
_BLANKS = re.compile(r"\s+")
UNKNOWN_OUTCOME = Observation(None, 0, unresolved=True)
"""An answer of which nobody knows anything: it may have failed at once."""
COPY_TOKENS = 32
"""Tokens from which on two prompts do not get the same answer by chance. A refusal may be shorter."""


@dataclass(frozen=True, slots=True)
class CensoredObservation:
    """An observation after censoring. onset: a failure that counts. reach: last token known healthy.

    doubtful: it may have failed right after `reach`. ended: it ended by itself while healthy.
    """

    onset: int | None
    reach: int
    doubtful: bool
    ended: bool


def observations(generations: Iterable[GenerationRecord]) -> list[Observation]:
    """One observation per generation, in the given order. Positions are 1-based output tokens <= max_tokens.

    A generation lost to a service failure is censored at its loss; a truncation caused by the cut stream is
    no onset. One of which nothing arrived may have failed from its first token: behind a proxy that buffers,
    a loop runs into its time limit. A generation that stopped with an open candidate, by itself, at its cap
    or at its loss, is unresolved, because excluding it would remove failures only: an answer that drifts in
    its last sentences ends before any alarm. At a loss, a candidate counts as open from `HEALTHY_TAIL_TOKENS`
    tokens on, or if it repeats itself there. An answer that came only when asked again stands for the attempt
    that got none, which may have failed from its first token (:func:`redrawn`): its own health says nothing
    of that. `invalid_from` is copied; :func:`censor` applies it, whatever the outcome.
    """
    generations = list(generations)
    again = redrawn(generations) | late_refusals(generations)
    return [
        _without_health(o) if g.key in again else o
        for g, o in zip(generations, map(_observation, generations), strict=True)
    ]


def redrawn(generations: Sequence[GenerationRecord]) -> frozenset[str]:
    """Keys of the answers that were drawn anew after an attempt that may have been generated and withheld.

    A service that streams shows the beginning of a loop, so a request of which nothing came was not at work.
    One that holds answers back until they are complete, or fails them at a time limit, shows nothing of a
    loop: where a tenth of the answers or more began to arrive in the second half of their time, an attempt
    that lasted as long as the quickest answer may have been one. An answer whose first draw is known to have
    failed, and which is another one now, is among them too.
    """
    certain = frozenset(g.key for g in generations if g.redrawn)
    answers = [g for g in generations if g.failure is None and g.first_token is not None]
    late = sum(2 * ((g.first_token or 0.0) - g.started) >= g.ended - g.started for g in answers)
    if late < max(1.0, _LATE_SHARE * len(answers)):
        return certain
    quickest = min(g.ended - g.started for g in answers)
    return certain | {g.key for g in generations if g.unanswered_s and g.unanswered_s >= quickest}


def late_refusals(generations: Sequence[GenerationRecord]) -> frozenset[str]:
    """Keys of the requests that were refused after as long as the quickest answer took, as by a guardrail
    that reads the whole answer."""
    times = [g.ended - g.started for g in generations if g.failure is None and g.verdict.tokens]
    quickest = min(times, default=math.inf)
    refused = [g for g in generations if g.failure is not None and g.failure.kind.is_refusal]
    return frozenset(g.key for g in refused if not g.verdict.tokens and g.ended - g.started >= quickest)


def _without_health(observation: Observation) -> Observation:
    """The same, at no token known to be healthy."""
    return replace(observation, observed=0, ended=False, unresolved=observation.onset is None)


def _observation(generation: GenerationRecord) -> Observation:
    verdict, cap = generation.verdict, generation.job.max_tokens
    lost = generation.failure
    onset, observed = verdict.onset, min(verdict.observed, cap)
    if lost is not None and ends_answer(verdict.symptom):
        onset = None
    if onset is not None:
        onset = max(1, min(onset, cap))
        observed = onset - 1
    unresolved = False
    if lost is not None and onset is None:
        observed = min(observed, lost.at_token)
        tail = max(lost.at_token, verdict.tokens) - observed
        candidate = tail >= HEALTHY_TAIL_TOKENS or (tail > 0 and generation.token_summary.repeats)
        unresolved = (candidate and observed < cap) or is_unseen(generation)
    healthy = onset is None and lost is None
    if healthy and generation.finish_reason is not None:
        unresolved = observed < verdict.tokens or was_cut_by_service(generation)
    return Observation(
        onset=onset,
        observed=observed,
        cluster=generation.prompt_id,
        # Answers without text are no copies of each other: nobody saw what they were.
        digest=None if generation.token_summary.textless else generation.token_summary.digest,
        invalid_from=generation.invalid_from,
        ended=healthy and ended_by_itself(generation),
        unresolved=unresolved,
    )


def count_answerless(generations: Iterable[GenerationRecord]) -> int:
    """How many generations a cap has cut within their reasoning: no answer was seen. One that ended so is
    judged as an answer."""
    return sum(
        g.verdict.answerless and not g.verdict.degenerate and g.finish_reason != STOP for g in generations
    )


def are_mostly_answerless(generations: Sequence[GenerationRecord]) -> bool:
    """Whether that is so of most healthy generations."""
    healthy = sum(g.verdict.tokens > 0 and not g.verdict.degenerate for g in generations)
    return 2 * count_answerless(generations) > healthy


def is_unseen(generation: GenerationRecord) -> bool:
    """Whether the server took the request and nothing of the answer arrived, at any attempt."""
    lost = generation.failure
    if lost is None or generation.verdict.tokens:
        return False
    return not lost.kind.is_refusal or generation.unanswered_s > 0.0


def was_cut_by_service(generation: GenerationRecord) -> bool:
    """Whether the service ended it, for a reason of its own or one that nobody knows: a filter that cuts
    loops ends them before any alarm."""
    reason = generation.finish_reason
    if generation.failure is not None or reason is None:
        return False
    kind = normalize_finish_reason(reason)
    return kind in LOST_REASONS or kind == REPETITION_REASON or is_foreign_reason(reason)


def ended_by_itself(generation: GenerationRecord) -> bool:
    """Whether the model ended the output, in health or not: no cap, no loss, no abort, no filter.

    A finish reason that tells little (`completed`) is no such end where the cap was reached.
    """
    reason = generation.finish_reason
    if generation.failure is not None or reason is None or was_cut_by_service(generation):
        return False
    kind = normalize_finish_reason(reason)
    return kind == STOP or (kind != LENGTH and generation.verdict.tokens < generation.job.max_tokens)


def censor(observation: Observation) -> CensoredObservation:
    """Apply the invalidated window of an observation: keep an onset before it, else censor at its start."""
    onset, reach = observation.onset, observation.observed
    cut = observation.invalid_from
    if onset is not None:
        reach = min(reach, onset - 1)
    if cut is None or (onset is not None and onset < cut):
        return CensoredObservation(onset, reach, observation.unresolved, observation.ended)
    if reach >= cut - 1:
        return CensoredObservation(None, cut - 1, doubtful=False, ended=False)
    return CensoredObservation(None, reach, observation.unresolved, ended=False)


def deduplicate(sample: Sequence[Observation], temperature: float | None) -> list[Observation]:
    """Merge outputs that are not independent; the result does not depend on the order of the sample.

    Identical outputs of one prompt are merged at any temperature, because a server may decode greedily by
    default or ignore the seed; so are those of several prompts from `COPY_TOKENS` tokens on, which are one
    answer out of a cache and no sample. At temperature 0, all outputs of one prompt and shorter identical
    outputs of several are merged as well. Under sampling (or an unknown temperature) other outputs are kept.

    A merged observation is healthy as far as its longest member, or fails at the earliest valid onset. Copies
    of a failing output do not count as healthy before their onset, but remain failures: otherwise the same
    degenerate text in every third answer would count once.
    """
    merged = _merge(sample, lambda o: (o.cluster, o.digest) if o.digest is not None else None, _merge_copies)
    merged = _merge(
        merged, lambda o: o.digest if max(o.observed, o.onset or 0) >= COPY_TOKENS else None, _merge_copies
    )
    if temperature is None or temperature > 0.0:
        return merged
    merged = _merge(merged, lambda o: o.cluster or None, _merge_group)
    return _merge(merged, lambda o: o.digest, _merge_copies)


def count_copies(generations: Iterable[GenerationRecord]) -> int:
    """Long outputs that are word for word an earlier one, of any prompt: `deduplicate` merges them."""
    long = [g for g in generations if g.verdict.tokens >= COPY_TOKENS]
    digests = [g.token_summary.digest for g in long if not g.token_summary.textless]
    return len(digests) - len(set(digests))


def count_distinct_prompts(generations: Iterable[GenerationRecord]) -> int:
    """How many prompts were asked. Those that differ only in blanks and in words with digits (request ids,
    times, numbers) are one: their answers say nothing about prompts with another text."""
    texts = {g.prompt_id: g.prompt_text for g in generations}
    return len(
        {_BLANKS.sub(" ", NUMBERED_WORD.sub("#", text)).strip() or name for name, text in texts.items()}
    )


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


def _merge_copies(group: Sequence[Observation]) -> list[Observation]:
    """The merged observation, and the other failures without their healthy part."""
    (one,) = _merge_group(group)
    onsets = sorted(found.onset for found in map(censor, group) if found.onset is not None)
    return [one, *(Observation(onset, 0, one.cluster) for onset in onsets[1:])]


def _merge_group(group: Sequence[Observation]) -> list[Observation]:
    found = [(censor(o), o) for o in group]
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
