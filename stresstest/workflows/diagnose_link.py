"""One link of the chain: the failing answers of a run, forked, under one declared change after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from stresstest.diagnosis.arms import ALONE, BOTH, CONTEXT, UNCHANGED, declare
from stresstest.diagnosis.chain import (
    REPRODUCED,
    Decision,
    Outcome,
    can_clear,
    candidate,
    decide,
    result,
    two_at_once,
)
from stresstest.diagnosis.effects import side_effects
from stresstest.diagnosis.exact import looks, prompts_needed
from stresstest.diagnosis.forks import Fork, choose_forks, failing
from stresstest.diagnosis.penalties import penalties
from stresstest.diagnosis.wording import link_sentence
from stresstest.model import Arm, ArmResult, Generation, Link, Plane, SymptomKind
from stresstest.workflows.diagnose_bench import Bench
from stresstest.workflows.diagnose_more import missing

_FIRST_ALONE = 4


@dataclass(slots=True)
class Examined:
    """A link, and what the steps after it need: its forks, and how many arms were declared."""

    link: Link
    forks: list[Fork]
    decision: Decision


async def examine(bench: Bench, generations: Sequence[Generation], planes: Sequence[Plane]) -> Examined:
    """Find the plane of what fails in `generations`, the run's own."""
    settings = bench.run.settings
    task = bench.prompts.task
    constraint = task.language(settings.subject.language).language_constraint if task else None
    arms = declare(
        settings.decoding,
        constraint=constraint,
        concurrency=settings.concurrency,
        planes=planes,
        penalty=penalties(settings.decoding, bench.run.profile).repetition,
    )
    declared = len(arms) - 1
    needed = prompts_needed(declared)
    forks = choose_forks(generations, bench.prompts.unit_pattern, needed=needed)
    bench.scratch = not await _continuable(bench, forks)
    if bench.scratch:
        forks = choose_forks(generations, bench.prompts.unit_pattern, needed=needed, scratch=True)
    outcomes: dict[str, Outcome] = {}
    if len(forks) >= needed:
        outcomes = await _Arms(bench, forks, arms).run()
    decision = decide(outcomes, arms=declared, forks=len(forks))
    return Examined(_link(bench, generations, forks, outcomes, decision, declared), forks, decision)


async def _continuable(bench: Bench, forks: Sequence[Fork]) -> bool:
    """Whether answers can be continued: their token ids are stored, and the server names the prompt's."""
    if not forks or not all(fork.has_ids for fork in forks):
        return False
    first = forks[0]
    ids = await bench.ids(bench.prompt(first, bench.run.settings.decoding))
    return ids is not None


class _Arms:
    """The arms in their order, each until it is decided."""

    def __init__(self, bench: Bench, forks: list[Fork], arms: Sequence[Arm]) -> None:
        self.bench = bench
        self.forks = forks
        self.arms = {arm.name: arm for arm in arms}
        self.declared = len(arms) - 1
        self.looks = [forks[:n] for n in looks(len(forks))]
        self.unchanged = Outcome(self.arms[UNCHANGED])
        self.outcomes = {UNCHANGED: self.unchanged}

    async def run(self) -> dict[str, Outcome]:
        """Stops at the first arm that clears; the arms that were run, by name."""
        if await self._system_clears():
            return self.outcomes
        if not self._comes_again():
            await self.bench.answer(self.unchanged, self.forks)
        if not self._comes_again():
            return self.outcomes
        for arm in self.arms.values():
            if arm.plane is Plane.DECODING and await self._clears(arm):
                return self.outcomes
        if CONTEXT in self.arms and not self.bench.scratch and not await self._clears(self.arms[CONTEXT]):
            await self._both()
        return self.outcomes

    def _comes_again(self) -> bool:
        """Whether enough forks fail unchanged for an arm that heals them all to be seen."""
        failed, n = sum(self.unchanged.failures.values()), len(self.unchanged.failures)
        return failed >= max(prompts_needed(self.declared), REPRODUCED * n)

    async def _system_clears(self) -> bool:
        """The unchanged forks under load and, interleaved with them, alone."""
        arm = self.arms.get(ALONE)
        if arm is None:
            await self.bench.answer(self.unchanged, self.looks[0])
            return False
        alone = self.outcomes[ALONE] = Outcome(arm)
        decided = self._decided(alone)
        await self.bench.answer(alone, self.forks[:_FIRST_ALONE], decided=decided)
        for forks in self.looks:
            await self._interleaved(alone, forks, decided)
            if alone.early or self._cleared(alone):
                break
        return self._cleared(alone)

    async def _interleaved(self, alone: Outcome, forks: Sequence[Fork], decided: _Decided) -> None:
        width = self.bench.concurrency
        for end in range(width, len(forks) + width, width):
            load = 0 if alone.early else width
            await self.bench.answer(self.unchanged, forks[:end], load=load)
            if not alone.early:
                await self.bench.answer(alone, forks[:end], decided=decided)

    async def _clears(self, arm: Arm) -> bool:
        outcome = self.outcomes[arm.name] = Outcome(arm)
        decided = self._decided(outcome)
        for forks in self.looks:
            await self.bench.answer(self.unchanged, forks)
            await self.bench.answer(outcome, forks, decided=decided)
            if outcome.early or self._cleared(outcome):
                break
        return self._cleared(outcome)

    def _cleared(self, outcome: Outcome) -> bool:
        return result(outcome, self.unchanged, self.declared).clears

    async def _both(self) -> None:
        """Nothing clears alone: the likeliest decoding together with a short context. What each of them does
        alone must then be known for every fork."""
        chosen = candidate(self.outcomes)
        if chosen is None or BOTH not in self.arms:
            return
        words = f"{chosen.arm.changed}, and the last units only"
        arm = replace(self.arms[BOTH], decoding=chosen.arm.decoding, changed=words)
        outcome = self.outcomes[BOTH] = Outcome(arm)
        decided = self._decided(outcome)
        for forks in self.looks:
            for other in (self.unchanged, outcome, self.outcomes[CONTEXT], chosen):
                await self.bench.answer(other, forks, decided=decided)
                if outcome.early:
                    return
            if two_at_once(self.outcomes, self.declared) is not None:
                return

    def _decided(self, outcome: Outcome) -> _Decided:
        return _Decided(outcome, self.unchanged, self.forks, self.declared)


@dataclass(frozen=True, slots=True)
class _Decided:
    outcome: Outcome
    unchanged: Outcome
    forks: Sequence[Fork]
    declared: int

    def __call__(self) -> bool:
        return not can_clear(self.outcome, self.unchanged, self.forks, self.declared)


def _link(
    bench: Bench,
    generations: Sequence[Generation],
    forks: Sequence[Fork],
    outcomes: dict[str, Outcome],
    decision: Decision,
    declared: int,
) -> Link:
    every = failing(generations)
    kinds = Counter(str(g.verdict.symptom) for g in every if g.verdict.symptom)
    chosen = Counter(f.source.verdict.symptom for f in forks if f.source.verdict.symptom)
    symptom: SymptomKind | None = chosen.most_common(1)[0][0] if chosen else None
    onsets = [fork.onset for fork in forks]
    places = [f.onset + f.source.prompt_tokens for f in forks if f.source.prompt_tokens is not None]
    link = Link(
        run_id=bench.run.id,
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
        arms=tuple(_row(bench, outcome, outcomes, forks, declared) for outcome in outcomes.values()),
        position=median(places) if places else None,
        from_scratch=bench.scratch,
        notes=_notes(bench, generations, forks, decision, declared),
    )
    return replace(link, sentence=link_sentence(link))


def _row(
    bench: Bench, outcome: Outcome, outcomes: dict[str, Outcome], forks: Sequence[Fork], declared: int
) -> ArmResult:
    row = result(outcome, outcomes[UNCHANGED], declared)
    if not row.clears:
        return row
    if row.plane is not Plane.DECODING:
        return row
    after = {f.key: g for f in forks if (g := bench.answered(f, outcome.arm)) is not None}
    return replace(row, effects=side_effects(forks, after))


def _notes(
    bench: Bench,
    generations: Sequence[Generation],
    forks: Sequence[Fork],
    decision: Decision,
    declared: int,
) -> tuple[str, ...]:
    notes = [] if decision.note is None else [decision.note]
    more = missing(generations, prompts_needed(declared))
    if more and len(forks) < prompts_needed(declared):
        notes.append(
            f"about {more} more answers would give the failing prompts that lack: --more-failing {more}"
        )
    others = len(failing(generations)) - len(forks)
    kinds = Counter(str(g.verdict.symptom) for g in failing(generations))
    families = {str(f.source.verdict.symptom) for f in forks}
    left = {kind: n for kind, n in kinds.items() if kind not in families}
    if others and left:
        words = ", ".join(f"{kind} {n}" for kind, n in left.items())
        notes.append(f"failures of another kind were left for a later link: {words}")
    if bench.scratch:
        notes.append(
            "answers could not be continued (no token ids, or no /tokenize): the prompts were asked anew, "
            "and the context plane could not be tested"
        )
    return tuple(notes)
