"""The suspected plane of failures, from evidence alone, with advice on how to test it.

Planes mask each other, so they are tested in order: system, decoding, context.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from stresstest.detectors.registry import ends_answer, symptom_info
from stresstest.diagnosis.evidence.weighing import (
    WeightedEvidence,
    context_positions,
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
from stresstest.model.percent import percent_at_most
from stresstest.model.result import certifying_sample

NOT_TESTED = "(not tested yet)"
"""What a sentence says of a cause that no intervention has tested."""
METRICS_SOURCE = "vllm /metrics"
TO_TEST = "To test the cause"
"""How the advice on testing the cause begins."""
UNTESTABLE = f"{TO_TEST}, "
"""How it begins where no diagnosis can decide: what is lacking follows, and no command."""


def plane_verdict(
    generations: Iterable[GenerationRecord],
    decoding: Decoding,
    profile: EndpointProfile,
    run_id: str = "latest",
    *,
    untestable: str | None = None,
) -> PlaneVerdict:
    """The suspected plane of the failing `generations`, annotated by `annotate_planes`.

    The plane is `system` if service failures and onsets preceded by system evidence are at least half of the
    failures. Otherwise symptom, onset and decoding are weighed. The basis is always `observed`;
    `apply_diagnosis` updates it. plane and basis are None if nothing fails. The sentence counts the
    certifying sample alone, so that all sentences on a run have one denominator. run_id: for the
    command in the advice; untestable: why no diagnosis can decide, and what to do, in place of the command.
    """
    every = list(generations)
    lost = [g for g in every if g.failure is not None and _no_onset(g)]
    degenerate = [g for g in every if not _no_onset(g)]
    shaken = [g for g in degenerate if _system_evidence(g)]
    calm = [g for g in degenerate if not _system_evidence(g)]
    if not lost and not degenerate:
        return _healthy(every)
    if len(lost) + len(shaken) >= len(calm):
        return _system(len(every), lost, shaken, calm, _test_words(run_id, untestable))
    weighed = weigh_evidence(calm, decoding, profile)
    plane, margin = _decide(weighed)
    return PlaneVerdict(
        plane,
        Basis.OBSERVED,
        _sentence(plane, margin, calm, every),
        (*(e for _, e in weighed), *_system_facts(lost, shaken, calm)),
        _advice(plane, calm, run_id, untestable),
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
    plural = "answer" if len(every) == 1 else "answers"
    return PlaneVerdict(
        None, None, f"No degeneration seen up to {longest:,} tokens in {len(every)} {plural}."
    )


def _system(
    total: int,
    lost: Sequence[GenerationRecord],
    shaken: Sequence[GenerationRecord],
    calm: Sequence[GenerationRecord],
    to_test: str,
) -> PlaneVerdict:
    parts = []
    if lost:
        causes = Counter(str(g.failure.kind) for g in lost if g.failure is not None)
        kinds = ", ".join(f"{kind} {n}" for kind, n in causes.most_common())
        parts.append(f"{len(lost)} of {total} answers were lost to service failures ({kinds})")
    if shaken:
        parts.append(
            f"{len(shaken)} of {len(shaken) + len(calm)} onsets followed preemptions, a full KV cache, "
            f"a growing queue or GPU trouble"
        )
    cause = "Cause: the system" if lost else f"Suspected cause: the system {NOT_TESTED}"
    sentence = f"{cause}. {'; '.join(parts)}."
    if calm:
        sentence += f" {len(calm)} more degenerated without any such evidence."
    own = [e for g in (*lost, *shaken) for e in g.evidence if e.plane is Plane.SYSTEM and e.supports]
    advice = []
    if lost:
        advice.append("Read the server's log at the times of the failures; check its restarts and limits.")
        if shaken:
            advice.append(f"{TO_TEST}: repeat with --concurrency 1 on an idle server.")
    else:
        advice.append(to_test)
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
    blind = sum(not _shows_metrics(g) for g in calm)
    if measured:
        sources = sorted({e.source for g in measured for e in g.evidence if _against(e)})
        fact = _none_before(measured, total)
        facts.append(Evidence(Plane.SYSTEM, False, ", ".join(sources), fact, value=float(len(measured))))
    if blind:
        fact = (
            f"for {blind} of {total} onsets the server's queue and KV cache were not measured, so the system "
            f"is not excluded"
        )
        facts.append(Evidence(Plane.SYSTEM, False, METRICS_SOURCE, fact))
    if calm and (lost or shaken):
        fact = (
            f"{len(lost)} service failures and {len(shaken)} onsets with system evidence, "
            f"against {len(calm)} onsets without"
        )
        facts.append(Evidence(Plane.SYSTEM, True, "stream", fact, value=float(len(lost) + len(shaken))))
    return facts


def _against(evidence: Evidence) -> bool:
    return evidence.plane is Plane.SYSTEM and evidence.stance == "against"


def _shows_metrics(generation: GenerationRecord) -> bool:
    """Whether the server's own metrics were read before its onset, and were calm."""
    return any(_against(e) and e.source == METRICS_SOURCE for e in generation.evidence)


def _none_before(measured: Sequence[GenerationRecord], total: int) -> str:
    """What was looked for before the onsets and not found, as one sentence. total: of all onsets."""
    highest = list(_highest(e for g in measured for e in g.evidence if _against(e)).values())
    absent = [words for words in map(_absent, highest) if words is not None]
    other = [e.fact for e in highest if _absent(e) is None]
    seen = sum(map(_shows_metrics, measured))
    of = f" (of {total})" if seen < total else ""
    which = f"any of the {seen} onsets{of}" if total > 1 else "the onset"
    found = [f"{', '.join(sorted(absent, reverse=True))} before {which}"] if absent else []
    return "; ".join([*found, *sorted(other)])


def _absent(evidence: Evidence) -> str | None:
    """How calm a fact of the server's metrics says it was; None for another fact."""
    value = evidence.value or 0.0
    if evidence.fact.startswith("KV cache"):
        return f"KV cache at most {percent_at_most(value)} full"
    if "preemptions" in evidence.fact:
        return "no preemption"
    if "requests waiting" in evidence.fact:
        return f"at most {value:.0f} requests waiting" if value else "no waiting request"
    return None


def _highest(evidence: Iterable[Evidence]) -> dict[tuple[str, str], Evidence]:
    """Of facts that differ only in their numbers, the one with the highest value; in order of appearance."""
    highest: dict[tuple[str, str], Evidence] = {}
    for item in evidence:
        kind = (item.source, "".join(c for c in item.fact if c.isalpha()))
        best = highest.get(kind)
        if best is None or (item.value or 0.0) > (best.value or 0.0):
            highest[kind] = item
    return highest


def _sentence(
    plane: Plane, margin: int, calm: Sequence[GenerationRecord], every: Sequence[GenerationRecord]
) -> str:
    strength = "Weakly suspected" if margin <= 1 or len(calm) < 3 else "Suspected"
    name = "the context" if plane is Plane.CONTEXT else str(plane)
    return f"{strength} cause: {name} {NOT_TESTED}. {_failing_words(plane, every)}."


def _failing_words(plane: Plane, every: Sequence[GenerationRecord]) -> str:
    """How many answers fail, how, and from where on: of the certifying sample, where any of it does."""
    whose = "sample"
    answers: Sequence[GenerationRecord] = certifying_sample(every)
    failing = [g for g in answers if not _no_onset(g)]
    if not failing:
        whose, answers, failing = "run", every, [g for g in every if not _no_onset(g)]
    total, number = len(answers), len(failing)
    which = (
        f"All {total} answers of the {whose}"
        if number == total > 1
        else f"{number} of the {whose}'s {total} answers"
    )
    own = "its" if number == 1 else "their"
    where = [_place(onsets(failing), f"{own} {{}} is at token")]
    if plane is Plane.CONTEXT and (positions := context_positions(failing)):
        where.append(_place(positions, f"with the prompt, {own} {{}} is at position"))
    return f"{which} {_symptom_words(failing)}; {'; '.join(where)}"


def _symptom_words(failing: Sequence[GenerationRecord]) -> str:
    """``loop``, ``degenerate (language drift)`` or ``degenerate (28 loop, 4 near-loop)``."""
    ending = "s" if len(failing) == 1 else ""
    symptoms = Counter(g.verdict.symptom for g in failing if g.verdict.symptom is not None)
    if set(symptoms) == {SymptomKind.LOOP}:
        return f"loop{ending}"
    counted = [f"{n} {symptom_info(kind).label}" for kind, n in symptoms.most_common()]
    kinds = symptom_info(next(iter(symptoms))).label if len(symptoms) == 1 else ", ".join(counted)
    return f"degenerate{ending} ({kinds})"


def _place(values: Sequence[float], words: str) -> str:
    """Where the onsets are. words: with a place for "onset" or "median onset"."""
    spread = position_spread(values)
    if spread is None:
        return f"{words.format('onset')} {values[0]:,.0f}"
    median = f"{words.format('median onset')} {spread.median:,.0f}"
    return f"{median} (interquartile range {spread.iqr:,.0f} tokens)"


def _test_words(run_id: str, untestable: str | None) -> str:
    return f"{UNTESTABLE}{untestable}." if untestable else f"{TO_TEST}: stresstest diagnose {run_id}"


def _advice(
    plane: Plane, failing: Sequence[GenerationRecord], run_id: str, untestable: str | None
) -> tuple[str, ...]:
    to_test = _test_words(run_id, untestable)
    (symptom, _), *_ = Counter(g.verdict.symptom for g in failing).most_common(1)
    if symptom is not None and (remedy := symptom_info(symptom).remedy):
        return (remedy,)
    if plane is Plane.CONTEXT:
        return (
            to_test,
            "For longer outputs: generate them in pieces, each with a short context.",
        )
    if untestable:
        return (to_test,)
    return (f"{TO_TEST} and look for a setting that allows a higher cap: stresstest diagnose {run_id}",)
