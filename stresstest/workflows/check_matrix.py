"""`check` of a project file: every cell is measured, compared with its baseline and held to its budgets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace

from stresstest import clock
from stresstest.errors import EndpointError, InterruptedEarlyError, UsageError
from stresstest.model import Comparison, DocumentKind, Run, RunSettings, RunStatus, Subject
from stresstest.model.gate import BudgetName, CellOutcome, CellPlan, Gate, Outcome, Project
from stresstest.report.check_matrix import gate_document
from stresstest.report.progress import Progress
from stresstest.store.repository import Store
from stresstest.threshold.budgets import Measured, judge_budget
from stresstest.workflows.check import CheckSettings, check
from stresstest.workflows.check_baseline import PREVIOUS, baseline_for, require_known
from stresstest.workflows.check_cells import GOES_ON_FOR, cell_key, unfinished, wanted_for
from stresstest.workflows.check_same import begun
from stresstest.workflows.check_sample import Sample, sample_of_run
from stresstest.workflows.check_sides import under_margin
from stresstest.workflows.go_on import go_on_or_begin
from stresstest.workflows.run import Ending
from stresstest.workflows.setting import load_source


@dataclass(frozen=True, slots=True)
class Checked:
    """How the check of a project ended."""

    gate: Gate
    interrupted: bool = False


async def check_project(
    project: Project,
    settings: RunSettings,
    store: Store,
    progress: Progress,
    *,
    anew: bool = False,
    api_key: str | None = None,
    stop: asyncio.Event | None = None,
) -> Checked:
    """Check every cell, one after the other; what an unfinished check has measured is taken from the store.

    settings: the run options; a cell's own replace them. anew: nothing stored will do. Trouble with an
    endpoint is that cell's outcome, and the next one follows. Raises UsageError before anything is sent when
    a task or prompt file is wrong, or nothing stored is called as the baseline.
    """
    require_known(store, project.baseline)
    matrix = _Matrix(project, settings, store, progress, api_key, stop or asyncio.Event())
    if not anew:
        matrix.go_on()
    return await matrix.play()


def unmeasured(project: Project) -> Gate:
    """What is known before anything is measured."""
    named = ((plan, Subject(plan.model, plan.task, plan.language)) for plan in project.cells)
    return Gate(tuple(CellOutcome(plan, subject) for plan, subject in named))


class _Matrix:
    """One check of a project: its cells in turn."""

    def __init__(
        self,
        project: Project,
        settings: RunSettings,
        store: Store,
        progress: Progress,
        api_key: str | None,
        stop: asyncio.Event,
    ) -> None:
        self.project = project
        self.store = store
        self.progress = progress
        self.api_key = api_key
        self.stop = stop
        self.wanted = [wanted_for(plan, settings) for plan in project.cells]
        self.anew = True
        self.id: str | None = None
        self.earlier: Mapping[str, str] = {}
        self.reuse = 0.0

    def go_on(self) -> None:
        """Let stored runs count: those of an unfinished check, and those that the project lets be reused."""
        keys = {cell_key(wanted) for wanted in self.wanted}
        self.id, self.earlier = unfinished(self.store, keys)
        self.reuse = self.project.reuse
        self.anew = False

    async def play(self) -> Checked:
        for wanted in self.wanted:
            load_source(wanted)
        asked = list(zip(self.project.cells, self.wanted, strict=True))
        cells = [_blank(plan, wanted) for plan, wanted in asked]
        interrupted = False
        for place, (plan, wanted) in enumerate(asked):
            if self.stop.is_set():
                interrupted = True
                break
            self.progress.note(f"cell {place + 1} of {len(cells)}: {plan.name}")
            try:
                cells[place] = await self._cell(plan, wanted)
            except InterruptedEarlyError:
                interrupted = True
                break
            self._keep(cells)
            interrupted = cells[place].outcome is Outcome.MISSING
            if interrupted:
                break
        return Checked(Gate(tuple(cells), self._keep(cells)), interrupted)

    async def _cell(self, plan: CellPlan, wanted: RunSettings) -> CellOutcome:
        reused = self._measured_already(wanted)
        blank = _blank(plan, wanted)
        if reused is not None:
            self.progress.note(f"run {reused.id} is already measured; nothing is sent")
            return await self._judged(blank, wanted, sample_of_run(self.store, reused.id), reused=True)
        try:
            ending = await self._campaign(wanted)
        except EndpointError as error:
            return replace(blank, trouble=str(error))
        result = ending.result
        if ending.error is not None:
            return replace(blank, run_id=result.run.id, trouble=str(ending.error))
        if ending.interrupted:
            return replace(blank, run_id=result.run.id)
        sample = sample_of_run(self.store, result.run.id, measured_now=True)
        return await self._judged(blank, wanted, sample, tokens=result.tokens_spent, seconds=result.seconds)

    async def _campaign(self, wanted: RunSettings) -> Ending:
        """Go on with the cell's interrupted run, or begin one with a seed that no earlier run has had: a
        baseline's own requests, sent again, would be no fresh sample."""
        wanted = replace(wanted, seed=max([wanted.seed, *(seed + 1 for seed in self._seeds(wanted))]))
        earlier = None if self.anew else begun(self.store, wanted, done=False)
        if earlier is not None and clock.now() - earlier.created > GOES_ON_FOR:
            earlier = None
        return await go_on_or_begin(
            wanted, earlier, self.store, self.progress, api_key=self.api_key, stop=self.stop
        )

    def _measured_already(self, wanted: RunSettings) -> Run | None:
        """A finished run of this cell: of this check, begun before, or one that `reuse` lets count."""
        run_id = self.earlier.get(cell_key(wanted))
        if run_id is not None:
            run = self.store.run(run_id)
            return run if run.status is RunStatus.DONE else None
        for seed in self._seeds(wanted) if self.reuse else ():
            found = begun(self.store, replace(wanted, seed=seed), done=True)
            if found is not None and clock.now() - (found.ended or found.created) <= self.reuse:
                return found
        return None

    def _seeds(self, wanted: RunSettings) -> list[int]:
        """Seeds of the cell's finished runs, newest first."""
        subject = wanted.subject if wanted.subject.model else None
        rows = [row for row in self.store.runs(subject) if row.decoding == wanted.decoding]
        return [self.store.run(row.id).settings.seed for row in rows if row.status is RunStatus.DONE]

    async def _judged(
        self,
        blank: CellOutcome,
        wanted: RunSettings,
        sample: Sample,
        *,
        reused: bool = False,
        tokens: int = 0,
        seconds: float = 0.0,
    ) -> CellOutcome:
        run = sample.run
        assert run is not None
        sample = under_margin(sample, wanted.margin)
        named = self.project.baseline
        baseline, untested = baseline_for(self.store, run, named, same_address=self._needs_address(wanted))
        # Only "previous" may find nothing yet; a baseline that was named is missed.
        comparison, refused = None, None if named == PREVIOUS else untested or None
        if baseline is not None:
            comparison, refused = await self._compared(blank.plan, wanted, baseline, run)
        before = None if comparison is None else comparison.baseline.safe_max_tokens
        measured = Measured(
            threshold=sample.threshold,
            safe_max_tokens=sample.safe_max_tokens,
            sample=sample.observations,
            unusable=sample.lacking,
            baseline_safe=before,
            comparison=comparison,
            untested=untested,
            refused=refused,
        )
        return replace(
            blank,
            subject=sample.subject,
            run_id=run.id,
            threshold=sample.threshold,
            safe_max_tokens=sample.safe_max_tokens,
            baseline=None if baseline is None else baseline.id,
            baseline_safe=before,
            budgets=tuple(judge_budget(budget, measured) for budget in blank.plan.budgets),
            comparison=comparison,
            simulated=sample.simulated,
            reused=reused,
            tokens=tokens,
            seconds=seconds,
        )

    async def _compared(
        self, plan: CellPlan, wanted: RunSettings, baseline: Run, candidate: Run
    ) -> tuple[Comparison | None, str | None]:
        """The comparison, or why the two cannot be compared."""
        limits = {budget.name: budget.limit for budget in plan.budgets}
        asked = CheckSettings(
            baseline=(baseline.id,),
            candidate=(candidate.id,),
            max_increase=limits.get(BudgetName.MAX_INCREASE),
            max_drop=limits.get(BudgetName.MAX_DROP, 0.10),
            allow=frozenset(self.project.allow_different),
            limits_margin=wanted.margin,
        )
        try:
            found = await check(asked, self.store, self.progress, api_key=self.api_key, stop=self.stop)
        except UsageError as error:
            return None, str(error)
        if found.comparison.at_tokens is None:
            return found.comparison, found.comparison.lacking
        return found.comparison, None

    def _needs_address(self, wanted: RunSettings) -> bool:
        """Whether another cell is of the same model by name, served elsewhere."""
        same = [e for e in self.wanted if (e.subject, e.decoding) == (wanted.subject, wanted.decoding)]
        return len({each.base_url for each in same}) > 1

    def _keep(self, cells: list[CellOutcome]) -> str:
        """Save what is known; a later check goes on with it while it is not complete."""
        gate = Gate(tuple(cells), self.id)
        done = not any(cell.outcome in (Outcome.MISSING, Outcome.TROUBLE) for cell in cells)
        self.id = self.store.save_document(
            DocumentKind.CHECK,
            gate_document(gate),
            complete=done,
            simulated=gate.simulated,
            runs=[cell.run_id for cell in cells if cell.run_id is not None],
            id=self.id,
        )
        return self.id


def _blank(plan: CellPlan, wanted: RunSettings) -> CellOutcome:
    """A cell of which nothing is known yet."""
    return CellOutcome(plan, wanted.subject, cell_key(wanted))
