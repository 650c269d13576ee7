"""System evidence, joined to each generation in time: what the server did before the onset.

After an onset, preemptions and a full cache are usually the loop's own doing, so every window is cut
at the onset's arrival. Our own event-loop lag spoils timings and never decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from stresstest.diagnosis.gpu import gpu_evidence
from stresstest.diagnosis.gpu import invalid_from as gpu_trouble_from
from stresstest.diagnosis.gpu_series import GpuSeries
from stresstest.diagnosis.planes import suspect
from stresstest.model import (
    Decoding,
    EndpointProfile,
    Evidence,
    Generation,
    GpuSample,
    Plane,
    ServerSample,
    ServiceFailure,
    SymptomKind,
)
from stresstest.series import increase, peak, window

METRICS = "vllm /metrics"
KV_FULL = 0.95
# The queue must grow by this many requests: a burst of our own starts queues one or two for a moment.
QUEUE_GROWTH = 2.0
# A reading this many seconds before the start (an earlier session's, say) is no base for a difference.
STALE = 5.0


def annotate(
    generations: Iterable[Generation],
    samples: Sequence[ServerSample],
    profile: EndpointProfile,
    decoding: Decoding | None = None,
    *,
    gpus: Sequence[GpuSample] | None = None,
) -> list[Generation]:
    """The generations with `plane`, `evidence` and `invalid_from` filled in, in the order given.

    plane: system for service failures (by fact) and for onsets with system evidence before them (a
    suspicion); with `decoding` given, the other failing ones get the plane that symptom, onset and
    decoding suggest. Healthy ones have none. invalid_from: first token that arrived after the first
    preemption or GPU trouble, for failing and healthy ones alike (the one before an onset; later ones
    change nothing). gpus: readings of GPUs; None leaves them out of the question, () is "not measured".
    """
    ordered = sorted(samples, key=lambda s: s.at)
    series = None if gpus is None else GpuSeries.of(gpus)
    found = [_annotate(g, ordered, series, profile) for g in generations]
    return found if decoding is None else suspect(found, decoding, profile)


def lost(generation: Generation) -> bool:
    """A service failure took it before any onset. A truncation made by a cut stream is no onset."""
    if generation.failure is None:
        return False
    return generation.verdict.onset is None or generation.verdict.symptom is SymptomKind.TRUNCATION


def _annotate(
    generation: Generation,
    samples: Sequence[ServerSample],
    gpus: GpuSeries | None,
    profile: EndpointProfile,
) -> Generation:
    end = _end(generation)
    cut = [s for s in window(samples, generation.started, end) if generation.started - STALE <= s.at <= end]
    spoilt = [_first_preempted(generation, cut), _first_on_troubled_gpu(generation, gpus, end)]
    invalid_from = min((token for token in spoilt if token is not None), default=None)

    def system(when: str) -> list[Evidence]:
        found = _system(generation, cut, profile, when)
        return found if gpus is None else [*found, *gpu_evidence(gpus, generation.started, end, when)]

    evidence: list[Evidence] = []
    plane: Plane | None = None
    failure = generation.failure
    if failure is not None and lost(generation):
        plane = Plane.SYSTEM
        evidence = [_failure(generation, failure), *system("before the loss")]
    elif generation.verdict.onset is not None:
        evidence = system("before the onset")
        if any(e.supports for e in evidence):
            plane = Plane.SYSTEM
        if failure is not None:
            fact = f"the {failure.kind} failure came after the onset at token {generation.verdict.onset}"
            evidence.append(replace(_failure(generation, failure), supports=False, fact=fact))
    elif invalid_from is not None:
        evidence = [e for e in system("while it ran") if e.supports]
    return replace(generation, plane=plane, evidence=tuple(evidence), invalid_from=invalid_from)


def _end(generation: Generation) -> float:
    """Clock seconds up to which the server's state can have caused what was seen."""
    onset = generation.verdict.onset
    tokens = generation.tokens
    if onset is not None and not lost(generation) and 1 <= onset <= len(tokens):
        return tokens[onset - 1].arrived
    return max(generation.ended, tokens[-1].arrived if tokens else generation.ended)


def _first_preempted(generation: Generation, cut: Sequence[ServerSample]) -> int | None:
    """First token that can have arrived after a preemption: after the last sample that knew of none."""
    for before, after in pairwise(s for s in cut if s.preemptions is not None):
        if increase((before, after), "preemptions"):
            later = (i for i, t in enumerate(generation.tokens, 1) if t.arrived > before.at)
            return next(later, None)
    return None


def _first_on_troubled_gpu(generation: Generation, gpus: GpuSeries | None, end: float) -> int | None:
    """First token that can have been written by a slowed, failing or lost GPU."""
    since = None if gpus is None else gpu_trouble_from(gpus, generation.started, end)
    if since is None:
        return None
    return next((i for i, t in enumerate(generation.tokens, 1) if t.arrived > since), None)


def _failure(generation: Generation, failure: ServiceFailure) -> Evidence:
    status = f" (HTTP {failure.status})" if failure.status is not None else ""
    fact = f"service failure after {failure.at_token} tokens: {failure.message}{status}"
    at = max(0.0, generation.ended - generation.started)
    return Evidence(Plane.SYSTEM, True, "stream", fact, at=at, token=failure.at_token)


def _system(
    generation: Generation, cut: Sequence[ServerSample], profile: EndpointProfile, when: str
) -> list[Evidence]:
    """Preemptions, KV cache and queue in the window: for or against the system, or not measured."""
    found: list[Evidence] = []
    missing: list[str] = []
    preempted = increase(cut, "preemptions")
    if preempted is None:
        missing.append("preemptions")
    else:
        fact = f"{preempted:.0f} preemptions {when}"
        at = next((s.at for s in cut if (s.preemptions or 0.0) > (cut[0].preemptions or 0.0)), None)
        found.append(_measured(generation, preempted > 0, fact, preempted, at if preempted > 0 else None))
    usage = peak(cut, "kv_usage")
    if usage is None:
        missing.append("KV cache usage")
    else:
        full = usage >= KV_FULL
        at = next((s.at for s in cut if (s.kv_usage or 0.0) >= KV_FULL), None)
        fact = f"KV cache {'reached' if full else '≤'} {usage:.0%} {when}"
        found.append(_measured(generation, full, fact, usage, at))
    queue = [s for s in cut if s.waiting is not None]
    if not queue:
        missing.append("the waiting queue")
    else:
        found.append(_queue(generation, queue, when))
    if missing:
        where = "" if profile.metrics else " (the endpoint shows no metrics)"
        fact = f"not measured {when}: {', '.join(missing)}{where}; the system plane is not excluded by them"
        found.append(Evidence(Plane.SYSTEM, False, METRICS, fact))
    return found


def _queue(generation: Generation, queue: Sequence[ServerSample], when: str) -> Evidence:
    first = queue[0].waiting or 0.0
    top = max(queue, key=lambda s: s.waiting or 0.0)
    highest = top.waiting or 0.0
    grew = highest - first >= QUEUE_GROWTH
    fact = (
        f"the waiting queue grew from {first:.0f} to {highest:.0f} {when}"
        if grew
        else f"at most {highest:.0f} requests waiting {when}, {first:.0f} at the start"
    )
    return _measured(generation, grew, fact, highest, top.at if grew else None)


def _measured(generation: Generation, supports: bool, fact: str, value: float, at: float | None) -> Evidence:
    since = None if at is None else max(0.0, at - generation.started)
    return Evidence(Plane.SYSTEM, supports, METRICS, fact, value=value, at=since)
