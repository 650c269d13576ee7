"""Applies a diagnosis to a run's verdict: confirmed planes replace suspected ones. Pure.

The diagnosis belongs to the run itself, or to the run whose diagnosis started this one (its links name the
run with each failure). Service failures remain `observed`, because they need no confirmation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from stresstest.diagnosis.intervention.wording import (
    condition_words,
    describe_decoding,
    failure_name,
    rounded_tokens,
    split_sentence,
)
from stresstest.diagnosis.planes import NOT_TESTED, TO_TEST
from stresstest.model import (
    NEXT_FAILURE_RIGOR,
    RIGORS,
    ArmResult,
    Basis,
    CauseLink,
    Diagnosis,
    Evidence,
    GenerationRecord,
    Plane,
    PlaneVerdict,
    Run,
)
from stresstest.model.percent import percent

_SOURCE = "diagnosis"
_NO_LIMIT = "Its safe max_tokens is not measured yet: a run with it does that."


def covers_run(found: Diagnosis, run_id: str) -> bool:
    """Whether a diagnosis covers this run: as its subject, in a link, or as `safe_run`."""
    return run_id in {found.run_id, found.safe_run} or any(link.run_id == run_id for link in found.chain)


def confirmed_link(found: Diagnosis | None, run_id: str) -> CauseLink | None:
    """The first link of this run if an intervention has confirmed it, else None."""
    if found is None:
        return None
    first = next((link for link in found.chain if link.run_id == run_id), None)
    return first if first is not None and first.conclusive and first.basis is Basis.CONFIRMED else None


def apply_diagnosis(observed: PlaneVerdict, found: Diagnosis | None, run: Run) -> PlaneVerdict:
    """The verdict updated by the diagnosis; `observed` itself if the diagnosis adds nothing.

    Evidence from the arms precedes the observed evidence. Advice on how to test the plane is removed, also
    where arms were run and none cleared.
    """
    if found is None or observed.basis is Basis.CONFIRMED:
        return observed
    link = confirmed_link(found, run.id)
    if link is None:
        tried = _inconclusive_advice(found, run.id)
        kept = [line for line in observed.advice if not (tried and line.startswith(TO_TEST))]
        advice = tuple(dict.fromkeys((*tried, *kept, *remedy_sentences(found, run))))
        sentence = observed.sentence.replace(NOT_TESTED, "(tested, not confirmed)" if tried else NOT_TESTED)
        return replace(observed, sentence=sentence, advice=advice)
    return PlaneVerdict(
        link.plane,
        Basis.CONFIRMED,
        _sentence(link, found, run.id),
        (*_evidence(link), *observed.evidence),
        remedy_sentences(found, run) or _plain_advice(link),
    )


def apply_confirmed_plane(
    generations: Iterable[GenerationRecord], found: Diagnosis | None, run: Run
) -> list[GenerationRecord]:
    """The generations with the confirmed plane instead of the suspected one; the system plane is kept."""
    link = confirmed_link(found, run.id)
    if link is None:
        return list(generations)
    suspected = (Plane.DECODING, Plane.CONTEXT)
    return [replace(g, plane=link.plane) if g.plane in suspected else g for g in generations]


def remedy_sentences(found: Diagnosis, run: Run) -> tuple[str, ...]:
    """Recommendations from the diagnosis for this run's failure and later ones, one sentence each."""
    settings = run.settings
    own = next((i for i, link in enumerate(found.chain) if link.run_id == run.id), len(found.chain))
    changes = []
    if found.concurrency is not None and found.concurrency != settings.concurrency:
        requests = "one request" if found.concurrency == 1 else f"{found.concurrency} requests"
        cleared = _cleared(found.chain[own:], Plane.SYSTEM)
        changes.append(f"keep at most {requests} in flight, which clears {cleared} (more may be possible)")
    if found.recommended is not None and found.recommended != settings.decoding:
        cleared = _cleared(found.chain[own:], Plane.DECODING)
        changes.append(f"use {describe_decoding(found.recommended)}, which clears {cleared}")
    then = f" {_NO_LIMIT}"
    if found.safe_max_tokens is not None:
        limit = f"the safe max_tokens is {found.safe_max_tokens:,} ({_grounds(found, run)})"
        with_them = "With both" if len(changes) > 1 else "With it"
        then = f" {with_them}, {limit}{_next_failure(found)}."
    elif found.safe_run is not None:
        then = f" Run {found.safe_run} measured that, and recommends no cap: `stresstest runs show` says why."
    lines = [f"Better: {', and '.join(changes)}.{then}"] if changes else []
    tried = [link.remedy for link in found.chain[own:] if link.remedy is not None]
    return (*lines, *(f"For longer outputs: {split_sentence(remedy)}." for remedy in tried))


def _cleared(links: Sequence[CauseLink], plane: Plane) -> str:
    """The failure that a change on this plane clears: that of the first link on it."""
    link = next((each for each in links if each.plane is plane), links[0] if links else None)
    return "this failure" if link is None else f"the {failure_name(link)}"


def _next_failure(found: Diagnosis) -> str:
    """The end of the sentence about the limit under the remedy: what fails in its own run, and where."""
    own = (link for link in found.chain if link.run_id == found.safe_run)
    following = next((link for link in own if link.median_onset is not None), None)
    if following is None or following.median_onset is None:
        return ""
    onset = rounded_tokens(following.median_onset)
    return f"; the next failure is {failure_name(following)}, at about token {onset:,}"


def _grounds(found: Diagnosis, run: Run) -> str:
    """What the limit under the remedy stands on; its rigor is named where the run itself has another."""
    rigor = RIGORS[NEXT_FAILURE_RIGOR]
    only = "" if run.settings.rigor == rigor.name else f"only at rigor {rigor.name}: "
    n, reach = "" if found.safe_n is None else f", n = {found.safe_n}", ""
    if (threshold := found.safe_threshold) is not None and threshold.tokens is not None:
        reach = f"T {'≥' if threshold.censored_at else '='} {threshold.tokens:,}; "
        n += f", of which {threshold.onsets or 'none'} degenerated"
    load = run.settings.holds_up_to
    held = "" if load is None else f", with at most {load} request{'' if load == 1 else 's'} in flight"
    risk = f"at most {percent(rigor.alpha)} degenerate by T{held}, {percent(rigor.confidence)} confidence{n}"
    return f"{reach}{only}{risk}; run {found.safe_run}"


def _inconclusive_advice(found: Diagnosis, run_id: str) -> tuple[str, ...]:
    """What the diagnosis says in place of advice to test the cause: it has, and nothing cleared."""
    own = next((link for link in found.chain if link.run_id == run_id and link.arms), None)
    if own is None or own.lacking is None:
        return ()
    return (f"The diagnosis is inconclusive: {own.lacking}.",)


def _plain_advice(link: CauseLink) -> tuple[str, ...]:
    """Advice if neither a threshold under the remedy nor a split was measured."""
    if link.plane is Plane.CONTEXT:
        return ("For longer outputs: generate them in pieces, each with a short context.",)
    if link.plane is Plane.DECODING and link.cleared_by:
        return (
            f"Better: use {link.cleared_by}. Failing answers, continued with it, stay healthy past the token "
            f"where they had failed. {_NO_LIMIT}",
        )
    if link.plane is Plane.SYSTEM:
        return (
            "Better: lower the load. Failing answers, sent again alone, stay healthy past the token where "
            "they had failed.",
        )
    return ()


def _sentence(link: CauseLink, found: Diagnosis, run_id: str) -> str:
    words = link.sentence[:1].upper() + link.sentence[1:]
    source = [] if found.run_id == run_id else [f"diagnosis of run {found.run_id}"]
    arm = _clearing(link)
    if arm is None:
        return f"{words} ({source[0]})." if source else f"{words}."
    how = f"{arm.n} failing answers were cut before the failure and continued"
    if link.from_scratch:
        how = f"The prompts of {arm.n} failing answers were sent again"
    again = f"all {arm.n}" if arm.unchanged_failed == arm.n > 1 else arm.unchanged_failed or "none"
    counts = f"with nothing changed, {again} fail again; {condition_words(arm)}, {arm.failed or 'none'} do"
    return f"{words}. {how}: {counts} ({'; '.join([f'p = {arm.p:.2g}', *source])})."


def _clearing(link: CauseLink) -> ArmResult | None:
    clearing = [arm for arm in link.arms if arm.clears and arm.plane is link.plane]
    named = [arm for arm in clearing if arm.changed == link.cleared_by]
    return next(iter(named or clearing), None)


def _evidence(link: CauseLink) -> list[Evidence]:
    """One fact per tested plane: the arm that cleared, or the one that came closest."""
    found = []
    for plane in Plane:
        arms = [arm for arm in link.arms if arm.plane is plane and arm.n]
        if arms:
            clearing = _clearing(link) if plane is link.plane else None
            found.append(_plane_fact(plane, arms, clearing))
    return found


def _plane_fact(plane: Plane, arms: Sequence[ArmResult], clearing: ArmResult | None) -> Evidence:
    # Arms are in order of the size of the change, so the first that clears is the smallest.
    best = clearing or next((arm for arm in arms if arm.clears), None)
    arm = best or min(arms, key=lambda each: each.failed / each.n)
    counts = (
        f"{arm.changed}: {arm.failed} of {arm.n} fail; of the same {arm.n} unchanged, "
        f"{arm.unchanged_failed} fail (p = {arm.p:.2g})"
    )
    if best is not None:
        control = (
            f"; control: of {arm.control_n} continued {arm.control} meanwhile, {arm.control_failed} fail"
        )
        fact = f"{counts}: this clears the failure{control if arm.control_n else ''}"
        return Evidence(plane, True, _SOURCE, fact, value=arm.p)
    others = f"none of {len(arms)} changes clears the failure; the closest is " if len(arms) > 1 else ""
    outcome = "" if others else "; this does not clear the failure"
    return Evidence(plane, False, _SOURCE, f"{others}{counts}{outcome}", value=arm.p)
