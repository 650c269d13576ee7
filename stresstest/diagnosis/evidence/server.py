"""System evidence for each generation: the server's state before the onset.

After an onset, preemptions and a full cache are usually caused by the loop itself, so each window ends when
the onset arrives. The lag of the client's event loop is not used as evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from stresstest.detectors.registry import ends_answer
from stresstest.diagnosis.evidence.gpu import first_invalid_moment as gpu_trouble_from
from stresstest.diagnosis.evidence.gpu import gpu_evidence
from stresstest.diagnosis.evidence.gpu_series import GpuSeries
from stresstest.diagnosis.evidence.metrics_series import (
    counter_increase,
    cut_window,
    gauge_peak,
    longest_gap,
)
from stresstest.diagnosis.planes import METRICS_SOURCE, assign_suspected_plane
from stresstest.model import (
    Decoding,
    EndpointProfile,
    Evidence,
    Generation,
    GenerationRecord,
    GpuSample,
    Plane,
    ServerSample,
    ServiceFailure,
)
from stresstest.model.percent import percent

KV_FULL = 0.95
# The queue must grow by this many requests: a burst of the client's own starts briefly queues one or two.
QUEUE_GROWTH = 2.0
# An older reading before the start (e.g. from an earlier session) is not used as the base of a difference.
MAX_SAMPLE_AGE_S = 5.0


def annotate_planes(
    generations: Iterable[Generation],
    samples: Sequence[ServerSample],
    profile: EndpointProfile,
    decoding: Decoding | None = None,
    *,
    gpus: Sequence[GpuSample] | None = None,
) -> list[GenerationRecord]:
    """The generations without their tokens, with `plane`, `evidence` and `invalid_from`, in the given order.

    plane: system for service failures (a fact) and for onsets preceded by system evidence (a suspicion).
    With `decoding`, the other failing generations get the plane suggested by symptom, onset and decoding;
    healthy ones have none. invalid_from: first token after the first preemption or GPU trouble, in failing
    generations before the onset only. gpus: GPU readings; None omits GPU evidence, () means "not measured".
    generations: read one at a time.
    """
    ordered = sorted(samples, key=lambda s: s.at)
    series = None if gpus is None else GpuSeries.of(gpus)
    found = [_annotate(g, ordered, series, profile) for g in generations]
    return found if decoding is None else assign_suspected_plane(found, decoding, profile)


def is_lost(generation: GenerationRecord) -> bool:
    """Whether a service failure ended it before any onset. A truncation by a cut stream is no onset."""
    if generation.failure is None:
        return False
    return generation.verdict.onset is None or ends_answer(generation.verdict.symptom)


def _annotate(
    generation: Generation,
    samples: Sequence[ServerSample],
    gpus: GpuSeries | None,
    profile: EndpointProfile,
) -> GenerationRecord:
    end = _end(generation)
    cut = [
        s
        for s in cut_window(samples, generation.started, end)
        if generation.started - MAX_SAMPLE_AGE_S <= s.at <= end
    ]
    spoilt = [_first_preempted(generation, cut), _first_on_troubled_gpu(generation, gpus, end)]
    invalid_from = min((token for token in spoilt if token is not None), default=None)

    def system(when: str) -> list[Evidence]:
        found = _system_evidence(generation, cut, end, profile, when)
        return found if gpus is None else [*found, *gpu_evidence(gpus, generation.started, end, when)]

    evidence: list[Evidence] = []
    plane: Plane | None = None
    failure = generation.failure
    if failure is not None and is_lost(generation):
        plane = Plane.SYSTEM
        evidence = [_failure_evidence(generation, failure), *system("before the loss")]
    elif generation.verdict.onset is not None:
        evidence = system("before the onset")
        if any(e.supports for e in evidence):
            plane = Plane.SYSTEM
        if failure is not None:
            fact = f"the {failure.kind} failure came after the onset at token {generation.verdict.onset:,}"
            evidence.append(replace(_failure_evidence(generation, failure), supports=False, fact=fact))
    elif invalid_from is not None:
        evidence = [e for e in system("while it ran") if e.supports]
    return replace(generation.to_record(), plane=plane, evidence=tuple(evidence), invalid_from=invalid_from)


def _end(generation: Generation) -> float:
    """Clock seconds up to which the server's state can have caused the outcome: the onset or the end."""
    onset = generation.verdict.onset
    tokens = generation.tokens
    if onset is not None and not is_lost(generation) and 1 <= onset <= len(tokens):
        return tokens[onset - 1].arrived
    return max(generation.ended, tokens[-1].arrived if tokens else generation.ended)


def _first_preempted(generation: Generation, cut: Sequence[ServerSample]) -> int | None:
    """The first token that may have arrived after a preemption: after the last sample without one."""
    for before, after in pairwise(s for s in cut if s.preemptions is not None):
        if counter_increase((before, after), "preemptions"):
            later = (i for i, t in enumerate(generation.tokens, 1) if t.arrived > before.at)
            return next(later, None)
    return None


def _first_on_troubled_gpu(generation: Generation, gpus: GpuSeries | None, end: float) -> int | None:
    """The first token that may have been generated by a slowed, failing or lost GPU."""
    since = None if gpus is None else gpu_trouble_from(gpus, generation.started, end)
    if since is None:
        return None
    return next((i for i, t in enumerate(generation.tokens, 1) if t.arrived > since), None)


def _failure_evidence(generation: GenerationRecord, failure: ServiceFailure) -> Evidence:
    status = f" (HTTP {failure.status})" if failure.status is not None else ""
    fact = f"service failure after {failure.at_token} tokens: {failure.message}{status}"
    at = max(0.0, generation.ended - generation.started)
    return Evidence(Plane.SYSTEM, True, "stream", fact, at=at, token=failure.at_token)


def _system_evidence(
    generation: GenerationRecord,
    cut: Sequence[ServerSample],
    end: float,
    profile: EndpointProfile,
    when: str,
) -> list[Evidence]:
    """Evidence from preemptions, KV cache and queue in the window: for, against, or not measured.

    Where readings are missing, as when a busy server does not answer /metrics, calm ones prove nothing.
    """
    found: list[Evidence] = []
    missing: list[str] = []
    unread = longest_gap([generation.started, *(s.at for s in cut), end])
    blind = unread > MAX_SAMPLE_AGE_S
    preempted = counter_increase(cut, "preemptions")
    if preempted is None or (blind and not preempted):
        missing.append("preemptions")
    else:
        fact = f"{preempted:.0f} preemptions {when}"
        at = next((s.at for s in cut if (s.preemptions or 0.0) > (cut[0].preemptions or 0.0)), None)
        found.append(_measured(generation, preempted > 0, fact, preempted, at if preempted > 0 else None))
    usage = gauge_peak(cut, "kv_usage")
    if usage is None or (blind and usage < KV_FULL):
        missing.append("KV cache usage")
    else:
        full = usage >= KV_FULL
        at = next((s.at for s in cut if (s.kv_usage or 0.0) >= KV_FULL), None)
        fact = f"KV cache {'reached' if full else '≤'} {percent(usage)} {when}"
        found.append(_measured(generation, full, fact, usage, at))
    queue = [s for s in cut if s.waiting is not None]
    waiting = _queue_evidence(generation, queue, when) if queue else None
    if waiting is None or (blind and not waiting.supports):
        missing.append("the waiting queue")
    else:
        found.append(waiting)
    if missing:
        where = f" (no reading of /metrics for {unread:.1f} s)" if blind and cut else ""
        if not profile.metrics:
            where = " (the endpoint shows no metrics)"
        fact = f"not measured {when}: {', '.join(missing)}{where}; the system plane is not excluded by them"
        found.append(Evidence(Plane.SYSTEM, False, METRICS_SOURCE, fact))
    return found


def _queue_evidence(generation: GenerationRecord, queue: Sequence[ServerSample], when: str) -> Evidence:
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


def _measured(
    generation: GenerationRecord, supports: bool, fact: str, value: float, at: float | None
) -> Evidence:
    since = None if at is None else max(0.0, at - generation.started)
    return Evidence(Plane.SYSTEM, supports, METRICS_SOURCE, fact, value=value, at=since)
