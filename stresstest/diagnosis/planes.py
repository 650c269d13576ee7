"""The plane of a failure by evidence alone: a suspicion, worded as one, with what would confirm it.

Order matters, because planes mask each other: system first, then decoding, then context.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from stresstest.diagnosis.penalties import penalties
from stresstest.diagnosis.weighing import Weighed, onsets, positions, spread, weigh
from stresstest.model import (
    Basis,
    Decoding,
    EndpointProfile,
    Evidence,
    Generation,
    Plane,
    PlaneVerdict,
    SymptomKind,
)


def plane_verdict(
    generations: Iterable[Generation], decoding: Decoding, profile: EndpointProfile
) -> PlaneVerdict:
    """Where the cause lies, over the failing ones of `generations` (annotated by `annotate`).

    Service failures and onsets with system evidence before them decide for `system` when they are at
    least half of what fails. Otherwise symptom, onset and decoding are weighed. The basis is always
    `observed`; `concluded` puts what a diagnosis has shown in its place. plane and basis are None when
    nothing fails.
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
    weighed = weigh(calm, decoding, profile)
    plane, margin = _decide(weighed)
    return PlaneVerdict(
        plane,
        Basis.OBSERVED,
        _sentence(plane, margin, calm, len(every)),
        (*(e for _, e in weighed), *_system_facts(lost, shaken, calm)),
        _advice(plane, calm, decoding, profile),
    )


def suspect(
    generations: Sequence[Generation], decoding: Decoding, profile: EndpointProfile
) -> list[Generation]:
    """The failing ones without a plane get the one that the failing ones together suggest.

    Decoding and context cannot be told apart on one generation: the spread of onsets decides.
    """
    open_ = [g for g in generations if g.plane is None and not _no_onset(g)]
    if not open_:
        return list(generations)
    weighed = weigh(open_, decoding, profile)
    plane, _ = _decide(weighed)
    keys = {g.key for g in open_}
    shared = tuple(e for _, e in weighed)
    return [
        replace(g, plane=plane, evidence=(*g.evidence, *shared)) if g.key in keys else g for g in generations
    ]


def _no_onset(generation: Generation) -> bool:
    """No degeneration of its own: healthy, or cut by a service failure (a truncation made by the cut)."""
    verdict = generation.verdict
    cut = generation.failure is not None and verdict.symptom is SymptomKind.TRUNCATION
    return verdict.onset is None or cut


def _system_evidence(generation: Generation) -> bool:
    return any(e.plane is Plane.SYSTEM and e.supports for e in generation.evidence)


def _decide(weighed: Sequence[Weighed]) -> tuple[Plane, int]:
    """The plane with more weight, and by how much; a draw is decoding, which is tested first and cheapest."""
    score = {Plane.DECODING: 0, Plane.CONTEXT: 0}
    for weight, evidence in weighed:
        score[evidence.plane] += weight if evidence.supports else -weight
    margin = score[Plane.CONTEXT] - score[Plane.DECODING]
    return (Plane.CONTEXT, margin) if margin > 0 else (Plane.DECODING, -margin)


def _healthy(every: Sequence[Generation]) -> PlaneVerdict:
    if not every:
        return PlaneVerdict(None, None, "Nothing was measured.")
    longest = max(g.verdict.observed for g in every)
    plural = "generation" if len(every) == 1 else "generations"
    return PlaneVerdict(None, None, f"No degeneration seen up to {longest} tokens in {len(every)} {plural}.")


def _counts(kinds: Iterable[str]) -> str:
    return ", ".join(f"{kind} {n}" for kind, n in Counter(kinds).most_common())


def _system(
    total: int, lost: Sequence[Generation], shaken: Sequence[Generation], calm: Sequence[Generation]
) -> PlaneVerdict:
    parts = []
    if lost:
        kinds = _counts(str(g.failure.kind) for g in lost if g.failure is not None)
        parts.append(f"{len(lost)} of {total} generations were lost to service failures ({kinds}), a fact")
    if shaken:
        parts.append(
            f"{len(shaken)} of {len(shaken) + len(calm)} onsets had preemptions, a full KV cache, "
            f"a growing queue or GPU trouble before them, a suspicion"
        )
    sentence = f"System plane: {'; '.join(parts)}."
    if calm:
        sentence += f" {len(calm)} more degenerated without any such evidence."
    own = [e for g in (*lost, *shaken) for e in g.evidence if e.plane is Plane.SYSTEM and e.supports]
    advice = []
    if lost:
        advice.append("Read the server's log at the times of the failures, and its restarts and limits.")
    if shaken:
        advice.append(
            "To confirm: repeat with --concurrency 1 on an idle server; if the failure goes away alone and "
            "comes back under load, it is the system."
        )
    return PlaneVerdict(
        Plane.SYSTEM,
        Basis.OBSERVED,
        sentence,
        (*_distinct(own), *_system_facts(lost, shaken, calm)),
        tuple(advice),
    )


def _distinct(evidence: Iterable[Evidence]) -> list[Evidence]:
    """The worst of each kind of fact, at most twelve: a verdict is read by a person."""
    return list(_highest(evidence).values())[:12]


def _system_facts(
    lost: Sequence[Generation], shaken: Sequence[Generation], calm: Sequence[Generation]
) -> list[Evidence]:
    """What speaks against the system, or leaves it open, in one line each."""
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
        fact = f"for {blind} of {total} onsets the server's state was not measured: system is not excluded"
        facts.append(Evidence(Plane.SYSTEM, False, "vllm /metrics", fact, value=float(blind)))
    if calm and (lost or shaken):
        fact = (
            f"{len(lost)} service failures and {len(shaken)} onsets with system evidence, "
            f"beside {len(calm)} onsets without"
        )
        facts.append(Evidence(Plane.SYSTEM, True, "stream", fact, value=float(len(lost) + len(shaken))))
    return facts


def _against(evidence: Evidence) -> bool:
    return evidence.plane is Plane.SYSTEM and not evidence.supports and evidence.value is not None


def _worst(measured: Sequence[Generation]) -> str:
    """The highest value of each kind of fact that was measured, in the facts' own words."""
    highest = _highest(e for g in measured for e in g.evidence if _against(e))
    return "; ".join(sorted(e.fact for e in highest.values()))


def _highest(evidence: Iterable[Evidence]) -> dict[tuple[str, str], Evidence]:
    """Of facts that differ in their numbers only, the one with the highest value; in order of appearance."""
    highest: dict[tuple[str, str], Evidence] = {}
    for item in evidence:
        kind = (item.source, "".join(c for c in item.fact if c.isalpha()))
        best = highest.get(kind)
        if best is None or (item.value or 0.0) > (best.value or 0.0):
            highest[kind] = item
    return highest


def _sentence(plane: Plane, margin: int, failing: Sequence[Generation], total: int) -> str:
    kinds = _counts(str(g.verdict.symptom) for g in failing if g.verdict.symptom is not None)
    where = spread(onsets(failing))
    at = f"onset {where}" if where else f"onset at {onsets(failing)[0]:.0f} tokens"
    in_context = spread(positions(failing))
    if plane is Plane.CONTEXT and in_context:
        at = f"counted in the context: {in_context}; {at}"
    strength = "weakly suspected" if margin <= 1 or len(failing) < 3 else "suspected"
    return (
        f"{str(plane).capitalize()} plane {strength} (observed, not confirmed): {len(failing)} of {total} "
        f"generations degenerated ({kinds}), {at}."
    )


def _advice(
    plane: Plane, failing: Sequence[Generation], decoding: Decoding, profile: EndpointProfile
) -> tuple[str, ...]:
    penalty = penalties(decoding, profile).weighed
    if plane is Plane.CONTEXT:
        return (
            "To confirm: stresstest diagnose continues the failing answers from the instruction and the last "
            "few units only, decoding unchanged; if they stay healthy, it is the context.",
            "Cheap cross-check: repeat with a longer --system-prompt; a limit in the context moves the onset "
            "earlier by as many tokens.",
            "Until then cap max_tokens, or produce long outputs in pieces with a short context each.",
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
        f"To confirm: repeat with {change}; if the same prompts stay healthy past their onsets, "
        "it is the decoding.",
        "If every decoding fails at about the same tokens of context, suspect the context instead.",
    )
