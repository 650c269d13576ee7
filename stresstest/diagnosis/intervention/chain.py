"""Decides the plane of a link from the outcomes of its arms: the first plane that clears. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from stresstest.diagnosis.evidence.server import is_lost
from stresstest.diagnosis.intervention.arms import ALONE, ASSUMED_PENALTY, BOTH, CONTEXT, UNCHANGED
from stresstest.diagnosis.intervention.exact import compare_with_unchanged, prompts_needed
from stresstest.diagnosis.intervention.forks import MAX_FORKS, select_failing
from stresstest.diagnosis.intervention.outcome import ArmOutcome, seems_to_clear
from stresstest.diagnosis.intervention.wording import link_sentence
from stresstest.model import Arm, Basis, CauseLink, GenerationRecord, Plane

MIN_REPRODUCED_SHARE = 0.5
"""Minimum share of the forks that must fail again unchanged; with fewer, no arm can be assessed."""

_ASSUMED = (
    "The server does not report its default repetition_penalty. The diagnosis assumed that it is 1, and that "
    "requests with and without this field are answered by the same server. To assume neither, give the run "
    "--repetition-penalty 1."
)


@dataclass(frozen=True, slots=True)
class PlaneDecision:
    """The plane of a link. arm: the one that cleared it. lacking: why no plane was found."""

    plane: Plane | None
    basis: Basis | None
    arm: Arm | None = None
    lacking: str | None = None
    note: str | None = None


def decide_plane(outcomes: Mapping[str, ArmOutcome], *, arms: int, forks: int) -> PlaneDecision:
    """The first plane that clears, of system, decoding and context; otherwise both changes combined, or none.

    outcomes: by name, of the arms that were run. arms: number declared, without the unchanged one. forks:
    number of failing prompts.
    """
    needed = prompts_needed(arms)
    if forks < needed:
        return PlaneDecision(None, None, lacking=f"{needed} failing prompts are needed, {forks} are there")
    unchanged = outcomes[UNCHANGED]
    alone = outcomes.get(ALONE)
    if alone is not None and seems_to_clear(alone, unchanged, arms):
        return _controlled(alone, PlaneDecision(Plane.SYSTEM, Basis.CONFIRMED, alone.arm))
    failed = sum(unchanged.failures.values())
    rate = failed / len(unchanged.failures) if unchanged.failures else 0.0
    if rate < MIN_REPRODUCED_SHARE or failed < needed:
        return PlaneDecision(None, None, lacking=_unreproduced(unchanged, rate, needed))
    for outcome in outcomes.values():
        plane = outcome.arm.plane
        single = plane is Plane.DECODING or outcome.arm.name == CONTEXT
        if single and seems_to_clear(outcome, unchanged, arms):
            return _controlled(outcome, PlaneDecision(plane, Basis.CONFIRMED, outcome.arm))
    return clears_only_combined(outcomes, arms) or PlaneDecision(
        None, None, lacking=_nothing_clears(outcomes, arms, needed, rate)
    )


def _controlled(outcome: ArmOutcome, decision: PlaneDecision) -> PlaneDecision:
    """The decision, unless a control of its arm shows that the failure goes away without the arm."""
    if outcome.is_controlled:
        assumed = ASSUMED_PENALTY in outcome.control_words
        notes = [note for note in (decision.note, _ASSUMED if assumed else None) if note is not None]
        return replace(decision, note=" ".join(notes) or None)
    words, failed, n = outcome.weakest_control
    seen = f"only {failed} of {n} failed again" if failed else f"none of {n} failed again"
    if not n:
        seen = "no answer came back"
    why = (
        "something else has changed since the unchanged forks were tested, such as the load that other "
        "clients put on the server; repeat the run and its diagnosis while that is steady"
    )
    if words != UNCHANGED:
        why = "any other request helps as well, as where a router sends it to another server"
        repeat = "repeat the run and its diagnosis at one server"
        if ASSUMED_PENALTY in words:
            why += ", or this server's own default is another penalty and causes the failure"
            repeat += ", and with the penalty in the run (--repetition-penalty 1)"
        why = f"{why}; {repeat}"
    return PlaneDecision(
        None,
        None,
        lacking=f"the answers stay healthy with {outcome.arm.changed}, but when continued {words}, at the "
        f"same time, {seen}: {why}",
    )


def likeliest_decoding(outcomes: Mapping[str, ArmOutcome]) -> ArmOutcome | None:
    """The decoding for the arm with both changes.

    It is the one with the largest share of answers that are healthy or fail differently from the unchanged
    arm. None if that share is at most half for every decoding.
    """
    usual = outcomes[UNCHANGED].families.most_common(1)
    if not usual:
        return None
    found = []
    for outcome in outcomes.values():
        if outcome.arm.plane is Plane.DECODING and outcome.failures:
            other = sum(n for kind, n in outcome.families.items() if kind != usual[0][0])
            healthy = sum(not failed for failed in outcome.failures.values())
            found.append(((other + healthy) / len(outcome.failures), outcome))
    best = max(found, key=lambda pair: pair[0], default=None)
    return best[1] if best is not None and best[0] > 0.5 else None


def clears_only_combined(outcomes: Mapping[str, ArmOutcome], arms: int) -> PlaneDecision | None:
    """The decision if failures on two planes coincide, so that each change helps only with the other.

    Each plane is confirmed by the same rule with the other change in place: decoding by comparing the context
    arm with both changes, context by comparing the decoding arm with both changes. If both are confirmed, the
    plane whose symptom the unchanged forks show comes first.
    """
    both, context = outcomes.get(BOTH), outcomes.get(CONTEXT)
    if both is None or context is None:
        return None
    decodings = (o for o in outcomes.values() if o.arm.plane is Plane.DECODING)
    decoded = next((o for o in decodings if o.arm.decoding == both.arm.decoding), None)
    if decoded is None:
        return None
    heals_decoding = compare_with_unchanged(context.failures, both.failures, arms=arms).clears
    heals_context = compare_with_unchanged(decoded.failures, both.failures, arms=arms).clears
    if not (heals_decoding or heals_context):
        return None
    usual = outcomes[UNCHANGED].families.most_common(1)[0][0]
    decoding_first = context.families[usual] >= decoded.families[usual]
    note = "Two failures close together: a changed decoding and a short context help only in combination."
    if not (heals_decoding and heals_context):
        note = _beside_note(*((decoded, context) if heals_decoding else (context, decoded)))
    if heals_decoding and (decoding_first or not heals_context):
        return _controlled(both, PlaneDecision(Plane.DECODING, Basis.CONFIRMED, decoded.arm, note=note))
    return _controlled(both, PlaneDecision(Plane.CONTEXT, Basis.CONFIRMED, both.arm, note=note))


def _beside_note(helps: ArmOutcome, beside: ArmOutcome) -> str:
    """That a change was shown to help where another was made as well, and how many fail with it alone."""
    failed, n = sum(helps.failures.values()), len(helps.failures)
    return f"Shown together with {beside.arm.changed}; with {helps.arm.changed} alone, {failed} of {n} fail."


def _unreproduced(unchanged: ArmOutcome, rate: float, needed: int) -> str:
    failed, n = sum(unchanged.failures.values()), len(unchanged.failures)
    if not failed:
        return f"none of {n} failing answers failed again when continued unchanged"
    sentence = f"only {failed} of {n} failing answers failed again when continued unchanged"
    return f"{sentence}; {_prompts_that_decide(ceil(needed / rate))}"


def _nothing_clears(outcomes: Mapping[str, ArmOutcome], arms: int, needed: int, rate: float) -> str:
    tried = [o for o in outcomes.values() if o.arm.plane is not None]
    unchanged = outcomes[UNCHANGED].failures
    compared = [compare_with_unchanged(unchanged, o.failures, arms=arms) for o in tried]
    near = min(compared, key=lambda c: c.p, default=None)
    sentence = f"none of the {len(tried)} changes that were tried keeps these answers healthy"
    if ending := [o for o in tried if 2 * len(o.short) > len(o.answers)]:
        words = " and ".join(o.arm.changed for o in ending)
        sentence += f"; under {words} most answers end before the place of the failure, which proves nothing"
    if near is not None and near.better and near.p < 0.05:
        more = max(ceil(needed / rate), near.n + needed)
        sentence += (
            f"; the closest change clears {near.better} of {near.unchanged_failed} (p = {near.p:.2g}): "
            f"{_prompts_that_decide(more)}"
        )
    return sentence


def _prompts_that_decide(number: int) -> str:
    """How many failing prompts would settle it, and whether a diagnosis ever tests so many."""
    decide = f"about {number} failing prompts would be needed to decide"
    return decide if number <= MAX_FORKS else f"{decide}, but a diagnosis tests at most {MAX_FORKS}"


_MIN_FAILING_SHARE = 0.1
"""Minimum share of failing generations for a further link."""


def service_link(run_id: str, generations: Sequence[GenerationRecord]) -> CauseLink | None:
    """The link of a run in which at least half of the failures are service failures; None otherwise."""
    taken = [g for g in generations if is_lost(g)]
    if not taken or len(taken) < len(select_failing(generations)):
        return None
    kinds = Counter(str(g.failure.kind) for g in taken if g.failure is not None)
    link = CauseLink(
        run_id=run_id,
        plane=Plane.SYSTEM,
        basis=Basis.OBSERVED,
        symptom=None,
        median_onset=None,
        n=len(taken),
        sentence="",
        kinds=dict(kinds),
        notes=(f"{len(taken)} of {len(generations)} answers were lost to service failures, a fact",),
    )
    return replace(link, sentence=link_sentence(link))


def has_enough_failures(generations: Sequence[GenerationRecord]) -> bool:
    """Whether enough generations of a campaign fail to form a link."""
    down = len(select_failing(generations)) + sum(is_lost(g) for g in generations)
    return down >= max(2, _MIN_FAILING_SHARE * len(generations))
