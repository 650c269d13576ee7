"""A run's verdict once a diagnosis has tested it: what was shown takes the place of what was suspected. Pure.

The diagnosis is the run's own, or that of the run whose diagnosis began this one (its links name the run in
which each failure was seen). Service failures found first stay as observed: they are facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from stresstest.diagnosis.wording import decoding_words, split_sentence
from stresstest.model import (
    ArmResult,
    Basis,
    Diagnosis,
    Evidence,
    Generation,
    Link,
    Plane,
    PlaneVerdict,
    Run,
)

_SOURCE = "diagnosis"


def examined(found: Diagnosis, run_id: str) -> bool:
    """Whether a diagnosis says anything of this run: a link of its own, or the limit under what cleared."""
    return run_id in {found.run_id, found.safe_run} or any(link.run_id == run_id for link in found.chain)


def confirmed_link(found: Diagnosis | None, run_id: str) -> Link | None:
    """The first link of this run, where an intervention has confirmed it."""
    if found is None:
        return None
    first = next((link for link in found.chain if link.run_id == run_id), None)
    return first if first is not None and first.conclusive and first.basis is Basis.CONFIRMED else None


def concluded(observed: PlaneVerdict, found: Diagnosis | None, run: Run) -> PlaneVerdict:
    """The verdict with what the diagnosis has shown; `observed` itself where it has shown nothing.

    Evidence of the arms comes first, what was observed stays behind it; advice how to confirm is gone.
    """
    if found is None or observed.basis is Basis.CONFIRMED:
        return observed
    link = confirmed_link(found, run.id)
    if link is None:
        more = tuple(line for line in remedies(found, run) if line not in observed.advice)
        return replace(observed, advice=(*observed.advice, *more)) if more else observed
    return PlaneVerdict(
        link.plane,
        Basis.CONFIRMED,
        _sentence(link, found, run.id),
        (*_evidence(link), *observed.evidence),
        remedies(found, run) or _plain_advice(link),
    )


def settled(generations: Iterable[Generation], found: Diagnosis | None, run: Run) -> list[Generation]:
    """The generations with the confirmed plane in place of the suspected one.

    Those with system evidence of their own keep it.
    """
    link = confirmed_link(found, run.id)
    if link is None:
        return list(generations)
    suspected = (Plane.DECODING, Plane.CONTEXT)
    return [replace(g, plane=link.plane) if g.plane in suspected else g for g in generations]


def remedies(found: Diagnosis, run: Run) -> tuple[str, ...]:
    """What to do by what a diagnosis has shown from this run's failure on, a sentence each."""
    settings = run.settings
    lines = []
    if found.recommended is not None and found.recommended != settings.decoding:
        words = decoding_words(found.recommended)
        which = "the first" if run.id == found.run_id else "this"
        line = f"Decode with {words}, under which {which} failure is gone"
        if found.safe_max_tokens is not None:
            line += f": then max_tokens {found.safe_max_tokens:,} is certified (run {found.safe_run})"
        lines.append(f"{line}.")
    if found.concurrency is not None and found.concurrency != settings.concurrency:
        requests = "one request" if found.concurrency == 1 else f"{found.concurrency} requests"
        lines.append(f"Keep at most {requests} in flight: that was shown to clear the failure.")
    tried = [link.remedy for link in _from(found, run.id) if link.remedy is not None]
    return (*lines, *(f"For longer outputs: {split_sentence(remedy)}." for remedy in tried))


def _from(found: Diagnosis, run_id: str) -> Sequence[Link]:
    """The chain from this run's first link on."""
    own = next((i for i, link in enumerate(found.chain) if link.run_id == run_id), None)
    return () if own is None else found.chain[own:]


def _plain_advice(link: Link) -> tuple[str, ...]:
    """Where neither a limit under what cleared nor a split was measured."""
    if link.plane is Plane.CONTEXT:
        return ("Cap max_tokens, or produce long outputs in pieces with a short context each.",)
    if link.plane is Plane.DECODING and link.cleared_by:
        return (f"Use {link.cleared_by}: with it the same prompts stay healthy past their onsets.",)
    if link.plane is Plane.SYSTEM:
        return ("Lower the load: alone on the server the same prompts stay healthy past their onsets.",)
    return ()


def _sentence(link: Link, found: Diagnosis, run_id: str) -> str:
    words = link.sentence[:1].upper() + link.sentence[1:]
    whose = "this run" if found.run_id == run_id else f"run {found.run_id}"
    arm = _clearing(link)
    if arm is None:
        return f"{words} (diagnosis of {whose})."
    counts = f"{arm.failed} of {arm.n} fail, unchanged {arm.unchanged_failed} of {arm.n}"
    return f"{words}. Under {arm.changed} {counts} (p = {arm.p:.2g}; diagnosis of {whose})."


def _clearing(link: Link) -> ArmResult | None:
    clearing = [arm for arm in link.arms if arm.clears and arm.plane is link.plane]
    named = [arm for arm in clearing if arm.changed == link.cleared_by]
    return next(iter(named or clearing), None)


def _evidence(link: Link) -> list[Evidence]:
    """One fact a plane that was tested: what cleared, else the change that came nearest to it."""
    found = []
    for plane in Plane:
        arms = [arm for arm in link.arms if arm.plane is plane and arm.n]
        if arms:
            clearing = _clearing(link) if plane is link.plane else None
            found.append(_fact(plane, arms, clearing))
    return found


def _fact(plane: Plane, arms: Sequence[ArmResult], clearing: ArmResult | None) -> Evidence:
    # Of those that clear the first is the smallest change.
    best = clearing or next((arm for arm in arms if arm.clears), None)
    arm = best or min(arms, key=lambda each: each.failed / each.n)
    counts = (
        f"{arm.changed}: {arm.failed} of {arm.n} fail, {arm.unchanged_failed} of {arm.n} unchanged "
        f"(p = {arm.p:.2g})"
    )
    if best is not None:
        return Evidence(plane, True, _SOURCE, f"{counts}: it clears", value=arm.p)
    others = f"none of {len(arms)} changes clears, the nearest is " if len(arms) > 1 else ""
    outcome = "" if others else ": it does not clear"
    return Evidence(plane, False, _SOURCE, f"{others}{counts}{outcome}", value=arm.p)
