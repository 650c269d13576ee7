"""`check` of a project file: every cell is measured, compared with its baseline and held to its budgets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from stresstest import clock
from stresstest.campaign.progress import Progress
from stresstest.campaign.prompt_source import load_prompt_source
from stresstest.campaign.provenance.age import RESUME_WINDOW_S
from stresstest.campaign.provenance.restart import RESTARTED, was_restarted
from stresstest.campaign.refusals import warned_comparison
from stresstest.campaign.resume import resume_or_start
from stresstest.campaign.served_model import find_replacement
from stresstest.campaign.session import CampaignResult
from stresstest.clock import format_time
from stresstest.errors import EndpointError, InterruptedEarlyError, UsageError
from stresstest.features.check.project.baseline import PREVIOUS, find_cell_baseline, require_known_baseline
from stresstest.features.check.project.cells import (
    cell_key,
    find_unfinished_check,
    settings_for_cell,
)
from stresstest.features.check.project.document import gate_document
from stresstest.features.check.reservations import replayed_objection
from stresstest.features.check.settings import CheckSettings
from stresstest.features.check.sides.campaign_match import find_matching_run
from stresstest.features.check.sides.footing import with_margin
from stresstest.features.check.sides.sample import CheckSample, sample_of_run
from stresstest.features.check.workflow import check
from stresstest.model import (
    RIGORS,
    Comparison,
    DocumentKind,
    Run,
    RunSettings,
    RunStatus,
    Severity,
    Subject,
)
from stresstest.model.comparison import BudgetName, CellOutcome, CellPlan, GateOutcome, Project, ProjectGate
from stresstest.model.percent import percent
from stresstest.statistics import without_certificate
from stresstest.statistics.budgets import CellMeasurement, judge_budget, undecidable
from stresstest.statistics.sample import UNKNOWN_OUTCOME
from stresstest.store.repository import Store


@dataclass(frozen=True, slots=True)
class ProjectCheckResult:
    """How the check of a project ended."""

    gate: ProjectGate
    interrupted: bool = False


async def check_project(
    project: Project,
    settings: RunSettings,
    store: Store,
    progress: Progress,
    *,
    remeasure: bool = False,
    api_key: str | None = None,
    stop: asyncio.Event | None = None,
) -> ProjectCheckResult:
    """Check every cell, one after the other; what an unfinished check has measured is taken from the store.

    settings: the run options; a cell's own replace them. remeasure: nothing stored will do. Trouble with an
    endpoint is that cell's outcome, and the next one follows. Raises UsageError before anything is sent when
    a task or prompt file is wrong, or nothing stored is called as the baseline.
    """
    require_known_baseline(store, project.baseline)
    matrix = _ProjectCheckSession(project, settings, store, progress, api_key, stop or asyncio.Event())
    if not remeasure:
        matrix.load_reusable_runs()
    return await matrix.run()


def _require_decidable(plan: CellPlan, wanted: RunSettings) -> None:
    """Raise UsageError for a budget that no model can meet, before anything is sent for it."""
    for budget in plan.budgets:
        why = undecidable(budget, RIGORS[wanted.rigor], wanted.horizon)
        if why is not None and budget.level is Severity.ERROR and not wanted.tighten:
            raise UsageError(f"{plan.name}: {budget.name} {percent(budget.limit, 1)} cannot be met: {why}.")


def unmeasured_gate(project: Project) -> ProjectGate:
    """What is known before anything is measured."""
    named = ((plan, Subject(plan.model, plan.task, plan.language)) for plan in project.cells)
    return ProjectGate(tuple(CellOutcome(plan, subject) for plan, subject in named))


@dataclass
class _ProjectCheckSession:
    """One check of a project: its cells in turn.

    anew: nothing stored counts. id: of the stored document. earlier: runs of an unfinished check, by cell
    key; begun: those that the document with this id names. reuse: age in seconds up to which a finished run
    counts.
    """

    project: Project
    settings: RunSettings
    store: Store
    progress: Progress
    api_key: str | None
    stop: asyncio.Event
    anew: bool = True
    id: str | None = None
    earlier: Mapping[str, str] = field(default_factory=dict)
    begun: Mapping[str, str] = field(default_factory=dict)
    reuse: float = 0.0

    def __post_init__(self) -> None:
        self.wanted = [settings_for_cell(plan, self.settings) for plan in self.project.cells]

    def load_reusable_runs(self) -> None:
        """Let stored runs count: those of an unfinished check, and those that the project lets be reused."""
        keys = {cell_key(wanted) for wanted in self.wanted}
        self.id, self.earlier = find_unfinished_check(self.store, keys)
        self.begun = self.earlier
        self.reuse = self.project.reuse
        self.anew = False

    async def run(self) -> ProjectCheckResult:
        for wanted in self.wanted:
            load_prompt_source(wanted)
        planned = list(zip(self.project.cells, self.wanted, strict=True))
        for plan, wanted in planned:
            _require_decidable(plan, wanted)
        # What an unfinished check has measured stays in its document, also if this one is interrupted.
        cells = [
            replace(_unmeasured_cell(plan, wanted), run_id=self.earlier.get(cell_key(wanted)))
            for plan, wanted in planned
        ]
        interrupted = False
        for place, (plan, wanted) in enumerate(planned):
            if self.stop.is_set():
                interrupted = True
                break
            self.progress.note(f"cell {place + 1} of {len(cells)}: {plan.name}")
            try:
                cells[place] = await self._check_cell(plan, wanted, partial(self._begin, cells, place))
            except InterruptedEarlyError:
                interrupted = True
                break
            self._save(cells)
            interrupted = cells[place].outcome is GateOutcome.MISSING
            if interrupted:
                break
        return ProjectCheckResult(ProjectGate(tuple(cells), self._save(cells)), interrupted)

    def _begin(self, cells: list[CellOutcome], place: int, run: Run) -> None:
        """Store which run a cell is measured in: killed before its verdict, it is no baseline."""
        cells[place] = replace(cells[place], run_id=run.id)
        self._save(cells)

    async def _check_cell(
        self, plan: CellPlan, wanted: RunSettings, created: Callable[[Run], None]
    ) -> CellOutcome:
        reused, notes = await self._find_measured_run(wanted)
        blank = _unmeasured_cell(plan, wanted)
        if reused is not None:
            self.progress.note(f"run {reused.id} is already measured; no prompt is sent")
            sample = sample_of_run(self.store, reused.id)
            sample = replace(sample, notes=(*sample.notes, *notes))
            return await self._apply_budgets(blank, wanted, sample, reused=True)
        try:
            ending = await self._run_campaign(wanted, created)
        except EndpointError as error:
            return replace(blank, trouble=str(error))
        result = ending.result
        if ending.error is not None:
            return replace(blank, run_id=result.run.id, trouble=str(ending.error))
        if ending.interrupted:
            return replace(blank, run_id=result.run.id)
        sample = sample_of_run(self.store, result.run.id, measured_now=True)
        return await self._apply_budgets(
            blank, wanted, sample, tokens=result.tokens_spent, seconds=result.seconds
        )

    async def _run_campaign(self, wanted: RunSettings, created: Callable[[Run], None]) -> CampaignResult:
        """Resume the cell's interrupted run, or begin one with a seed that no earlier run has had: a
        baseline's own requests, sent again, would be no fresh sample."""
        wanted = replace(wanted, seed=max([wanted.seed, *(seed + 1 for seed in self._used_seeds(wanted))]))
        earlier = None if self.anew else find_matching_run(self.store, wanted, done=False)
        return await resume_or_start(
            wanted,
            earlier,
            self.store,
            self.progress,
            api_key=self.api_key,
            stop=self.stop,
            created=created,
        )

    async def _find_measured_run(self, wanted: RunSettings) -> tuple[Run | None, tuple[str, ...]]:
        """A finished run of this cell that counts, unless its server is another by now or was restarted; and
        a note where nobody knows."""
        found = self._find_finished_run(wanted)
        if found is None:
            return None, ()
        changed = await find_replacement(found, wanted.base_url, api_key=self.api_key)
        why = None if changed is None else f"the server was replaced: {changed}"
        restarted = None
        if why is None:
            restarted = await was_restarted(self.store, found, wanted.base_url, api_key=self.api_key)
            why = RESTARTED if restarted else None
        if why is not None:
            self.progress.note(f"run {found.id} does not count, because {why}")
            return None, ()
        ended = "" if found.ended is None else f" at {format_time(found.ended)} UTC"
        if restarted is not None:
            how = (
                "The model is an adapter, which vLLM can reload under its name without a restart"
                if found.profile.is_adapter
                else "The server was not restarted since; whether it has loaded other weights in place, as "
                "vLLM does for reinforcement learning, nobody can see"
            )
            return found, (f"Run {found.id} was measured before{ended}. {how}. --measure asks it.",)
        return found, (
            f"Run {found.id} was measured before{ended}. The server does not tell whether it was restarted "
            f"since, or does not answer, and may serve other weights now. --measure asks it.",
        )

    def _find_finished_run(self, wanted: RunSettings) -> Run | None:
        """A finished run of this cell: of this check, begun before, or one that `reuse` lets count."""
        if not wanted.subject.model:
            return None  # the server may serve another one by now, and nobody asks it here
        run_id = self.earlier.get(cell_key(wanted))
        if run_id is not None:
            run = self.store.run(run_id)
            return run if run.status is RunStatus.DONE and _ended_within(run, RESUME_WINDOW_S) else None
        for seed in self._used_seeds(wanted) if self.reuse else ():
            found = find_matching_run(self.store, replace(wanted, seed=seed), done=True)
            if found is not None and _ended_within(found, self.reuse):
                return found
        return None

    def _used_seeds(self, wanted: RunSettings) -> list[int]:
        """Seeds of the cell's finished runs, newest first."""
        subject = wanted.subject if wanted.subject.model else None
        rows = [row for row in self.store.runs(subject) if row.decoding == wanted.decoding]
        return [self.store.run(row.id).settings.seed for row in rows if row.status is RunStatus.DONE]

    async def _apply_budgets(
        self,
        blank: CellOutcome,
        wanted: RunSettings,
        sample: CheckSample,
        *,
        reused: bool = False,
        tokens: int = 0,
        seconds: float = 0.0,
    ) -> CellOutcome:
        run = sample.run
        assert run is not None
        sample = with_margin(sample, wanted.margin)
        named = self.project.baseline
        baseline, untested = find_cell_baseline(
            self.store, run, named, same_address=self._needs_address(wanted)
        )
        # Only "previous" may find nothing yet; a baseline that was named is missed.
        comparison, refused = None, None if named == PREVIOUS else untested or None
        if baseline is not None:
            sample = _without_replays(sample, sample_of_run(self.store, baseline.id))
            comparison, refused = await self._compare_with_baseline(blank.plan, wanted, baseline, run)
        before = None if comparison is None else comparison.baseline.safe_max_tokens
        measured = CellMeasurement(
            threshold=sample.threshold,
            safe_max_tokens=sample.safe_max_tokens,
            # An empty answer, and a prompt that was refused, keep no budget; nor do they break one.
            sample=(*sample.observations, *[UNKNOWN_OUTCOME] * len((*sample.empty, *sample.refused))),
            unusable=sample.lacking,
            baseline_safe=before,
            comparison=comparison,
            untested=untested,
            refused=refused,
            limit_without_cap=sample.limit_without_cap,
        )
        return replace(
            blank,
            subject=sample.subject,
            run_id=run.id,
            threshold=sample.threshold,
            safe_max_tokens=sample.safe_max_tokens,
            generations=sample.generations,
            degenerate=sample.onsets,
            baseline=None if baseline is None else baseline.id,
            baseline_safe=before,
            budgets=tuple(judge_budget(budget, measured) for budget in blank.plan.budgets),
            comparison=comparison,
            uncompared=refused,
            notes=sample.notes,
            simulated=sample.simulated,
            reused=reused,
            tokens=tokens,
            seconds=seconds,
        )

    async def _compare_with_baseline(
        self, plan: CellPlan, wanted: RunSettings, baseline: Run, candidate: Run
    ) -> tuple[Comparison | None, str | None]:
        """The comparison, or why the two cannot be compared."""
        limits = {budget.name: budget.limit for budget in plan.budgets}
        settings = CheckSettings(
            baseline=(baseline.id,),
            candidate=(candidate.id,),
            max_increase=limits.get(BudgetName.MAX_INCREASE),
            max_drop=limits.get(BudgetName.MAX_DROP, 0.10),
            allow=frozenset(self.project.allow_different),
            limits_margin=wanted.margin,
        )
        try:
            found = await check(settings, self.store, self.progress, api_key=self.api_key, stop=self.stop)
        except UsageError as error:
            return None, str(error)
        comparison, warned = found.comparison, warned_comparison(self.store, baseline.id)
        if warned is not None:
            note = f"the baseline was worse than its own, and that check only warned: {warned}"
            comparison = replace(comparison, notes=(*comparison.notes, note))
        return comparison, comparison.lacking if comparison.at_tokens is None else None

    def _needs_address(self, wanted: RunSettings) -> bool:
        """Whether another cell is of the same model by name, served elsewhere."""
        same = [e for e in self.wanted if (e.subject, e.decoding) == (wanted.subject, wanted.decoding)]
        return len({each.base_url for each in same}) > 1

    def _save(self, cells: list[CellOutcome]) -> str:
        """Save what is known; a later check continues it while it is not complete.

        Where a cell's run is not the one that an unfinished check has begun, that check's document stays: it
        alone keeps the run that was left behind from being a baseline, should somebody finish it.
        """
        if any(self.begun.get(cell.key, cell.run_id) != cell.run_id for cell in cells):
            self.id, self.begun = None, {}
        gate = ProjectGate(tuple(cells), self.id)
        done = not any(cell.outcome in (GateOutcome.MISSING, GateOutcome.TROUBLE) for cell in cells)
        self.id = self.store.save_document(
            DocumentKind.CHECK,
            gate_document(gate),
            complete=done,
            simulated=gate.simulated,
            runs=[cell.run_id for cell in cells if cell.run_id is not None],
            id=self.id,
        )
        return self.id


def _without_replays(sample: CheckSample, baseline: CheckSample) -> CheckSample:
    """The sample, which certifies nothing if it holds answers of the baseline's."""
    why = replayed_objection(baseline, sample)
    if why is None:
        return sample
    threshold = without_certificate(sample.threshold, why)
    return replace(
        sample,
        lacking=sample.lacking or why,
        threshold=threshold,
        safe_max_tokens=None,
        limit_without_cap=None,
    )


def _ended_within(run: Run, seconds: float) -> bool:
    return clock.is_within(run.ended or run.created, seconds)


def _unmeasured_cell(plan: CellPlan, wanted: RunSettings) -> CellOutcome:
    """A cell of which nothing is known yet."""
    return CellOutcome(plan, wanted.subject, cell_key(wanted))
