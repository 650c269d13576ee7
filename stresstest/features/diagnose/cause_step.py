"""Finds one link of the chain: continues forks of a run's failing answers under each declared change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from stresstest.campaign.execution.eventloop import run_unless_stopped
from stresstest.campaign.provenance.age import pause_clause
from stresstest.detectors.registry import symptom_counts
from stresstest.diagnosis.evidence.weighing import effective_penalties
from stresstest.diagnosis.intervention.arms import ALONE, BOTH, CONTEXT, UNCHANGED, control_arms, declare_arms
from stresstest.diagnosis.intervention.chain import (
    MIN_REPRODUCED_SHARE,
    PlaneDecision,
    clears_only_combined,
    decide_plane,
    likeliest_decoding,
)
from stresstest.diagnosis.intervention.effects import side_effects
from stresstest.diagnosis.intervention.exact import planned_looks, prompts_needed
from stresstest.diagnosis.intervention.forks import Fork, choose_sources, cut_fork, select_failing
from stresstest.diagnosis.intervention.outcome import (
    CONTROL_FORKS,
    ArmOutcome,
    arm_result,
    can_clear,
    choose_control,
    seems_to_clear,
)
from stresstest.diagnosis.intervention.wording import link_sentence
from stresstest.endpoint.parameters import unread_parameters
from stresstest.features.diagnose.intervention_runner import InterventionRunner, StopCondition
from stresstest.features.diagnose.more_prompts import MoreAnswers
from stresstest.model import Arm, ArmResult, CauseLink, Decoding, GenerationRecord, Plane, SymptomKind
from stresstest.render.text import capital

_FIRST_ALONE = 4


@dataclass(slots=True)
class CauseStep:
    """A link and the forks it was found on."""

    link: CauseLink
    forks: list[Fork]


async def examine_cause(
    runner: InterventionRunner,
    generations: Sequence[GenerationRecord],
    planes: Sequence[Plane],
    more: MoreAnswers,
) -> CauseStep:
    """Find the plane of the failures among a run's `generations`; if too few of its prompts fail, among
    those that `more` adds."""
    settings = runner.run.settings
    task = runner.prompts.task
    constraint = task.language(settings.subject.language).language_constraint if task else None
    penalty = effective_penalties(settings.decoding, runner.run.profile).repetition
    arms = declare_arms(
        settings.decoding,
        constraint=constraint,
        concurrency=settings.concurrency,
        planes=planes,
        penalty=penalty,
        units=task.units if task and runner.prompts.unit_pattern else "sentences",
    )
    declared = len(arms) - 1
    needed = prompts_needed(declared)
    generations = await more.gather(generations, needed)
    sources = [runner.load(record) for record in choose_sources(generations, needed=needed)]
    forks = [cut_fork(source, runner.prompts.unit_pattern) for source in sources]
    runner.scratch = not await _can_continue(runner, forks)
    if runner.scratch:
        forks = [cut_fork(source, runner.prompts.unit_pattern, scratch=True) for source in sources]
    outcomes: dict[str, ArmOutcome] = {}
    if len(forks) >= needed:
        runner.progress.note(_announcement(len(forks), scratch=runner.scratch))
        outcomes = await _ArmSequence(runner, forks, arms, penalty).run_until_cleared()
    decision = decide_plane(outcomes, arms=declared, forks=len(forks))
    unread = await _find_unread(runner, outcomes, decision)
    if more.ended is not None and decision.lacking is not None and not outcomes.keys() - {UNCHANGED, ALONE}:
        decision = replace(decision, lacking=f"{decision.lacking}; {more.ended}")
    link = _build_link(runner, generations, forks, outcomes, decision, declared)
    return CauseStep(replace(link, notes=(*link.notes, *unread)), forks)


async def _find_unread(
    runner: InterventionRunner, outcomes: Mapping[str, ArmOutcome], decision: PlaneDecision
) -> list[str]:
    """A note where arms that did not clear send parameters that the server is not known to read."""
    own = runner.run.settings.decoding
    changed = {name for outcome in outcomes.values() for name in _changed(own, outcome.arm.decoding)}
    if decision.arm is not None:
        changed -= _changed(own, decision.arm.decoding)
    asked = unread_parameters(runner.prepared.endpoint, runner.run.profile, sorted(changed))
    unread = await run_unless_stopped(runner.stop, asked)
    notes = []
    if unread.taken:
        notes.append(
            f"the server takes invalid values of {' and '.join(unread.taken)} without complaint, as a "
            f"gateway does that drops the field: the changes that send it may never have reached the model"
        )
    if unread.idle or unread.untold:
        notes.append(
            f"the server's answers show no effect of extreme values of "
            f"{' and '.join((*unread.idle, *unread.untold))}: the changes that send it may never have "
            f"reached the model"
        )
    return notes


def _changed(before: Decoding, after: Decoding) -> set[str]:
    """The sampling parameters that the second sends with another value."""
    own = before.sent()
    return {name for name, value in after.sent().items() if own.get(name) != value}


def _announcement(forks: int, *, scratch: bool) -> str:
    """What the arms do, said once before they start."""
    done = f"up to {forks} failing answers are cut before their onset and continued (forks)"
    if scratch:
        done = f"the prompts of up to {forks} failing answers are sent again (forks)"
    return (
        f"diagnosis: {done}, first unchanged, then with a change. Each line below is one test; it ends "
        f"once it is decided."
    )


async def _can_continue(runner: InterventionRunner, forks: Sequence[Fork]) -> bool:
    """Whether answers can be continued: their token ids are stored and the server returns the prompt's."""
    if not forks or not all(fork.has_ids for fork in forks):
        return False
    for fork in forks:
        if await runner.prompt_token_ids(runner.fork_prompt(fork, runner.run.settings.decoding)) is None:
            return False
    return True


class _ArmSequence:
    """Runs the arms in their order, each until it is decided."""

    def __init__(
        self, runner: InterventionRunner, forks: list[Fork], arms: Sequence[Arm], penalty: float | None
    ) -> None:
        self.runner = runner
        self.forks = forks
        self.arms = {arm.name: arm for arm in arms}
        self.declared = len(arms) - 1
        self.penalty = penalty
        self.looks = [forks[:n] for n in planned_looks(len(forks))]
        self.unchanged = ArmOutcome(self.arms[UNCHANGED])
        self.outcomes = {UNCHANGED: self.unchanged}

    async def run_until_cleared(self) -> dict[str, ArmOutcome]:
        """Stop at the first arm that seems to clear. The outcomes of the arms that ran, by name."""
        if await self._system_clears():
            return self.outcomes
        if not self._is_reproduced():
            await self.runner.run_arm(self.unchanged, self.forks)
        if not self._is_reproduced():
            return self.outcomes
        for arm in self.arms.values():
            if arm.plane is Plane.DECODING and await self._clears(arm):
                return self.outcomes
        if CONTEXT in self.arms and not self.runner.scratch and not await self._clears(self.arms[CONTEXT]):
            await self._run_combined_arm()
        return self.outcomes

    def _is_reproduced(self) -> bool:
        """Whether enough unchanged forks fail again for a clearing arm to reach significance."""
        failed, n = sum(self.unchanged.failures.values()), len(self.unchanged.failures)
        return failed >= max(prompts_needed(self.declared), MIN_REPRODUCED_SHARE * n)

    async def _system_clears(self) -> bool:
        """Run the unchanged forks under load and, interleaved, alone. Whether running alone seems to clear.

        Unchanged forks of an earlier session are not of now: a control follows all the same.
        """
        arm = self.arms.get(ALONE)
        if arm is None:
            await self.runner.run_arm(self.unchanged, self.looks[0])
            return False
        alone = self.outcomes[ALONE] = ArmOutcome(arm)
        decided = self._is_hopeless(alone)
        await self.runner.run_arm(alone, self.forks[:_FIRST_ALONE], decided=decided)
        for forks in self.looks:
            await self._run_interleaved(alone, forks, decided)
            if alone.early:
                break
            if self._seems_to_clear(alone):
                for control in self._new_controls(alone):
                    beside = choose_control(self.forks, self.unchanged)
                    await self.runner.run_arm(control, beside, load=self.runner.concurrency)
                    alone.tokens += control.tokens
                return True
        return False

    async def _run_interleaved(
        self, alone: ArmOutcome, forks: Sequence[Fork], decided: StopCondition
    ) -> None:
        width = self.runner.concurrency
        for end in range(width, len(forks) + width, width):
            load = 0 if alone.early else width
            await self.runner.run_arm(self.unchanged, forks[:end], load=load)
            if not alone.early:
                await self.runner.run_arm(alone, forks[:end], decided=decided)

    async def _clears(self, arm: Arm) -> bool:
        """Run an arm until it is decided. Whether it seems to clear."""
        outcome = self.outcomes[arm.name] = ArmOutcome(arm)
        decided = self._is_hopeless(outcome)
        for forks in self.looks:
            await self.runner.run_arm(self.unchanged, forks)
            await self._run_controlled(outcome, forks, decided)
            if outcome.early or self._seems_to_clear(outcome):
                break
        return self._seems_to_clear(outcome)

    async def _run_controlled(
        self, outcome: ArmOutcome, forks: Sequence[Fork], decided: StopCondition
    ) -> None:
        """Run an arm up to a look: its last forks together with its controls. Most arms are decided
        before."""
        await self.runner.run_arm(outcome, forks[:-CONTROL_FORKS], decided=decided)
        if outcome.early:
            return
        beside = choose_control(self.forks, self.unchanged)
        new = self._new_controls(outcome)
        controls = [[(control, fork) for control in new] for fork in beside]
        await self.runner.run_arm(outcome, forks, decided=decided, controls=controls)

    def _new_controls(self, outcome: ArmOutcome) -> list[ArmOutcome]:
        """The controls of an arm's next look, without answers yet."""
        look = 1 + len({control.arm.name.rpartition("-")[2] for control in outcome.controls})
        arms = control_arms(self.arms[UNCHANGED], outcome.arm, look, self.penalty)
        controls = [ArmOutcome(arm) for arm in arms]
        outcome.controls += controls
        return controls

    def _seems_to_clear(self, outcome: ArmOutcome) -> bool:
        return seems_to_clear(outcome, self.unchanged, self.declared)

    async def _run_combined_arm(self) -> None:
        """Where no single change clears: run the most promising decoding together with a short context.

        Each of the two then also runs alone on every fork, for comparison.
        """
        chosen = likeliest_decoding(self.outcomes)
        if chosen is None or BOTH not in self.arms:
            return
        words = f"{chosen.arm.changed} and {self.arms[CONTEXT].changed}"
        arm = replace(self.arms[BOTH], decoding=chosen.arm.decoding, changed=words)
        outcome = self.outcomes[BOTH] = ArmOutcome(arm)
        decided = self._is_hopeless(outcome)
        for forks in self.looks:
            await self.runner.run_arm(self.unchanged, forks, decided=decided)
            await self._run_controlled(outcome, forks, decided)
            for other in (self.outcomes[CONTEXT], chosen):
                if not outcome.early:
                    await self.runner.run_arm(other, forks, decided=decided)
            if outcome.early:
                return
            if clears_only_combined(self.outcomes, self.declared) is not None:
                return

    def _is_hopeless(self, outcome: ArmOutcome) -> StopCondition:
        """A function that reports whether the arm can no longer clear."""
        return lambda: not can_clear(outcome, self.unchanged, self.forks, self.declared)


def _build_link(
    runner: InterventionRunner,
    generations: Sequence[GenerationRecord],
    forks: Sequence[Fork],
    outcomes: dict[str, ArmOutcome],
    decision: PlaneDecision,
    declared: int,
) -> CauseLink:
    kinds = Counter(str(g.verdict.symptom) for g in select_failing(generations) if g.verdict.symptom)
    forked = Counter(f.source.verdict.symptom for f in forks if f.source.verdict.symptom)
    symptom: SymptomKind | None = forked.most_common(1)[0][0] if forked else None
    onsets = [fork.onset for fork in forks]
    positions = [f.onset + f.source.prompt_tokens for f in forks if f.source.prompt_tokens is not None]
    link = CauseLink(
        run_id=runner.run.id,
        plane=decision.plane,
        basis=decision.basis,
        symptom=symptom,
        median_onset=median(onsets) if onsets else None,
        n=len(forks),
        sentence="",
        cleared_by=decision.arm.changed if decision.arm else None,
        cleared_decoding=decision.arm.decoding if decision.arm else None,
        lacking=decision.lacking,
        kinds=dict(kinds.most_common()),
        arms=tuple(_arm_result(runner, outcome, outcomes, forks, declared) for outcome in outcomes.values()),
        position=median(positions) if positions else None,
        from_scratch=runner.scratch,
        notes=_notes(runner, generations, forks, decision),
    )
    return replace(link, sentence=link_sentence(link))


def _arm_result(
    runner: InterventionRunner,
    outcome: ArmOutcome,
    outcomes: dict[str, ArmOutcome],
    forks: Sequence[Fork],
    declared: int,
) -> ArmResult:
    row = arm_result(outcome, outcomes[UNCHANGED], declared)
    if not row.clears or row.plane is not Plane.DECODING:
        return row
    after = {f.key: runner.load(g) for f in forks if (g := runner.stored_answer(f, outcome.arm)) is not None}
    return replace(row, effects=side_effects(forks, after))


def _notes(
    runner: InterventionRunner,
    generations: Sequence[GenerationRecord],
    forks: Sequence[Fork],
    decision: PlaneDecision,
) -> tuple[str, ...]:
    notes = [] if decision.note is None else [decision.note]
    failing = select_failing(generations)
    kinds = Counter(str(g.verdict.symptom) for g in failing)
    forked = {str(fork.source.verdict.symptom) for fork in forks}
    left = {kind: n for kind, n in kinds.items() if kind not in forked}
    if left and len(failing) != len(forks):
        notes.append(f"Failures of another kind were left for a later step: {symptom_counts(left)}.")
    if runner.scratch:
        notes.append(
            "Answers could not be continued (no token ids, or no /tokenize); the prompts were sent "
            "again instead, and the context plane could not be tested."
        )
    pause = pause_clause([*(fork.source for fork in forks), *runner.stored.values()])
    return (*notes, *([] if pause is None else [f"{capital(pause)}."]))
