"""The suspected plane of failures, from evidence alone, with advice on how to confirm it.

Planes mask each other, so they are tested in order: system, decoding, context.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from stresstest.detectors.registry import ends_answer, symptom_counts
from stresstest.diagnosis.evidence.weighing import (
    WeightedEvidence,
    context_positions,
    effective_penalties,
    onsets,
    position_spread,
    weigh_evidence,
)
from stresstest.model import (
    Basis,
    Decoding,
    EndpointProfile,
    Evidence,
    GenerationRecord,
    Plane,
    PlaneVerdict,
    SymptomKind,
)


def plane_verdict(
    generations: Iterable[GenerationRecord], decoding: Decoding, profile: EndpointProfile
) -> PlaneVerdict:
    """The suspected plane of the failing `generations`, annotated by `annotate_planes`.

    The plane is `system` if service failures and onsets preceded by system evidence are at least half of the
    failures. Otherwise symptom, onset and decoding are weighed. The basis is always `observed`;
    `apply_diagnosis` updates it. plane and basis are None if nothing fails.
    """
    every = list(generations)
    lost = [g for g in every if g.failure is not None and _no_onset(g)]
    degenerate = [g for g in every if not _no_onset(g)]
    shaken = [g for g in degenerate if _system_evidence(g)]
    calm = [g for g in degenerate if not _system_evidence(g)]
    if not lost and not degenerate:
        return _healthy(every)
    if len(lost) + len(shaken) >= len(calm):
        return _system(len(every), lost, shaken, calm)
    weighed = weigh_evidence(calm, decoding, profile)
    plane, margin = _decide(weighed)
    return PlaneVerdict(
        plane,
        Basis.OBSERVED,
        _sentence(plane, margin, calm, len(every)),
        (*(e for _, e in weighed), *_system_facts(lost, shaken, calm)),
        _advice(plane, calm, decoding, profile),
    )


def assign_suspected_plane(
    generations: Sequence[GenerationRecord], decoding: Decoding, profile: EndpointProfile
) -> list[GenerationRecord]:
    """Assign one plane to all failing generations without one, from their common evidence.

    Decoding and context cannot be distinguished on a single generation: the spread of onsets decides.
    """
    open_ = [g for g in generations if g.plane is None and not _no_onset(g)]
    if not open_:
        return list(generations)
    weighed = weigh_evidence(open_, decoding, profile)
    plane, _ = _decide(weighed)
    keys = {g.key for g in open_}
    shared = tuple(e for _, e in weighed)
    return [
        replace(g, plane=plane, evidence=(*g.evidence, *shared)) if g.key in keys else g for g in generations
    ]


def _no_onset(generation: GenerationRecord) -> bool:
    """Whether it is healthy, or truncated only by a service failure."""
    verdict = generation.verdict
    cut = generation.failure is not None and ends_answer(verdict.symptom)
    return verdict.onset is None or cut


def _system_evidence(generation: GenerationRecord) -> bool:
    return any(e.plane is Plane.SYSTEM and e.supports for e in generation.evidence)


def _decide(weighed: Sequence[WeightedEvidence]) -> tuple[Plane, int]:
    """(plane with more weight, margin). A tie gives decoding, which is tested first at the lowest cost."""
    score = {Plane.DECODING: 0, Plane.CONTEXT: 0}
    for weight, evidence in weighed:
        score[evidence.plane] += weight if evidence.supports else -weight
    margin = score[Plane.CONTEXT] - score[Plane.DECODING]
    return (Plane.CONTEXT, margin) if margin > 0 else (Plane.DECODING, -margin)


def _healthy(every: Sequence[GenerationRecord]) -> PlaneVerdict:
    if not every:
        return PlaneVerdict(None, None, "Nothing was measured.")
    longest = max(g.verdict.observed for g in every)
    plural = "generation" if len(every) == 1 else "generations"
    return PlaneVerdict(
        None, None, f"No degeneration seen up to {longest:,} tokens in {len(every)} {plural}."
    )


def _system(
    total: int,
    lost: Sequence[GenerationRecord],
    shaken: Sequence[GenerationRecord],
    calm: Sequence[GenerationRecord],
) -> PlaneVerdict:
    parts = []
    if lost:
        causes = Counter(str(g.failure.kind) for g in lost if g.failure is not None)
        kinds = ", ".join(f"{kind} {n}" for kind, n in causes.most_common())
        parts.append(f"{len(lost)} of {total} generations were lost to service failures ({kinds})")
    if shaken:
        parts.append(
            f"{len(shaken)} of {len(shaken) + len(calm)} onsets followed preemptions, a full KV cache, "
            f"a growing queue or GPU trouble"
        )
    cause = "Cause: the system" if lost else "Suspected cause: the system (observed, not confirmed)"
    sentence = f"{cause}. {'; '.join(parts)}."
    if calm:
        sentence += f" {len(calm)} more degenerated without any such evidence."
    own = [e for g in (*lost, *shaken) for e in g.evidence if e.plane is Plane.SYSTEM and e.supports]
    advice = []
    if lost:
        advice.append("Read the server's log at the times of the failures; check its restarts and limits.")
    if shaken:
        advice.append(
            "To confirm: repeat with --concurrency 1 on an idle server. If the failure goes away there "
            "and comes "
            "back under load, the system causes it."
        )
    return PlaneVerdict(
        Plane.SYSTEM,
        Basis.OBSERVED,
        sentence,
        # At most twelve kinds of facts, to keep the verdict readable.
        (*list(_highest(own).values())[:12], *_system_facts(lost, shaken, calm)),
        tuple(advice),
    )


def _system_facts(
    lost: Sequence[GenerationRecord], shaken: Sequence[GenerationRecord], calm: Sequence[GenerationRecord]
) -> list[Evidence]:
    """Facts against the system plane, or that leave it open, one line each."""
    facts = []
    total = len(shaken) + len(calm)
    measured = [g for g in calm if any(_against(e) for e in g.evidence)]
    blind = len(calm) - len(measured)
    if measured:
        worst = _worst(measured)
        sources = sorted({e.source for g in measured for e in g.evidence if _against(e)})
        fact = f"{len(measured)} of {total} onsets had no system evidence before them ({worst})"
        facts.append(Evidence(Plane.SYSTEM, False, ", ".join(sources), fact, value=float(len(measured))))
    if blind:
        fact = (
            f"for {blind} of {total} onsets the server's state was not measured, so the system is "
            f"not excluded"
        )
        facts.append(Evidence(Plane.SYSTEM, False, "vllm /metrics", fact, value=float(blind)))
    if calm and (lost or shaken):
        fact = (
            f"{len(lost)} service failures and {len(shaken)} onsets with system evidence, "
            f"against {len(calm)} onsets without"
        )
        facts.append(Evidence(Plane.SYSTEM, True, "stream", fact, value=float(len(lost) + len(shaken))))
    return facts


def _against(evidence: Evidence) -> bool:
    return evidence.plane is Plane.SYSTEM and not evidence.supports and evidence.value is not None


def _worst(measured: Sequence[GenerationRecord]) -> str:
    """The fact with the highest value of each kind, as one sentence."""
    highest = _highest(e for g in measured for e in g.evidence if _against(e))
    return "; ".join(sorted(e.fact for e in highest.values()))


def _highest(evidence: Iterable[Evidence]) -> dict[tuple[str, str], Evidence]:
    """Of facts that differ only in their numbers, the one with the highest value; in order of appearance."""
    highest: dict[tuple[str, str], Evidence] = {}
    for item in evidence:
        kind = (item.source, "".join(c for c in item.fact if c.isalpha()))
        best = highest.get(kind)
        if best is None or (item.value or 0.0) > (best.value or 0.0):
            highest[kind] = item
    return highest


def _sentence(plane: Plane, margin: int, failing: Sequence[GenerationRecord], total: int) -> str:
    symptoms = Counter(str(g.verdict.symptom) for g in failing if g.verdict.symptom is not None)
    kinds = symptom_counts(dict(symptoms.most_common()))
    where = position_spread(onsets(failing))
    at = f"onset {where}" if where else f"onset at {onsets(failing)[0]:,.0f} tokens"
    in_context = position_spread(context_positions(failing))
    if plane is Plane.CONTEXT and in_context:
        at = f"position in the context: {in_context}; {at}"
    strength = "Weakly suspected" if margin <= 1 or len(failing) < 3 else "Suspected"
    name = "the context" if plane is Plane.CONTEXT else str(plane)
    one = "s" if len(failing) == 1 else ""
    which = f"{len(failing)} of the run's {total} answers degenerate{one}"
    if len(failing) == total > 1:
        which = f"All {total} answers of the run degenerate"
    return f"{strength} cause: {name} (observed, not confirmed). {which} sooner or later ({kinds}); {at}."


def _advice(
    plane: Plane, failing: Sequence[GenerationRecord], decoding: Decoding, profile: EndpointProfile
) -> tuple[str, ...]:
    penalty = effective_penalties(decoding, profile).effective_repetition
    if plane is Plane.CONTEXT:
        return (
            "To confirm: run stresstest diagnose. It continues the failing answers from the "
            "instruction and the "
            "last few units only. If they stay healthy, the context causes the failure.",
            "Cheap cross-check: repeat with a longer --system-prompt; a limit in the context moves the onset "
            "earlier by as many tokens.",
            "For longer outputs: generate them in pieces, each with a short context.",
        )
    kind = Counter(g.verdict.symptom for g in failing).most_common(1)[0][0]
    if kind in {SymptomKind.LANGUAGE_DRIFT, SymptomKind.STRUCTURE_BREAK} and penalty > 1.0:
        change = "a lower --repetition-penalty (1.0 included)"
    elif decoding.temperature is not None and decoding.temperature >= 1.0 and kind is SymptomKind.GIBBERISH:
        change = "a lower --temperature or --top-p"
    elif penalty > 1.0:
        change = "another --temperature and --repetition-penalty, 1.0 included"
    else:
        change = "a mild --repetition-penalty (1.05 to 1.1) or a higher --temperature"
    return (
        "To confirm: run stresstest diagnose, which also looks for a setting with a higher cap, or repeat "
        f"with {change}. If the same prompts then stay healthy past their onsets, the decoding is the cause; "
        "if every decoding fails at about the same position in the context, suspect the context.",
    )
