"""`diagnose`: finds the plane of a failure by changing one thing at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stresstest.campaign.campaign_setup import ContinuedRun, prepare_campaign
from stresstest.campaign.conclusion.conclude import conclude, find_run, update_conclusion
from stresstest.campaign.conclusion.overruled import beside_others, diagnosis_beside_others
from stresstest.campaign.progress import Progress
from stresstest.campaign.resume import resume_campaign
from stresstest.campaign.run import run_campaign
from stresstest.campaign.session import CampaignResult
from stresstest.diagnosis.intervention.chain import has_enough_failures, service_link
from stresstest.diagnosis.intervention.enough import failing_prompts_needed
from stresstest.diagnosis.intervention.exact import prompts_needed
from stresstest.diagnosis.intervention.forks import MAX_FORKS, select_failing
from stresstest.diagnosis.intervention.wording import cleared_alone
from stresstest.errors import EndpointError, InconclusiveError, InterruptedEarlyError
from stresstest.features.diagnose.cause_step import examine_cause
from stresstest.features.diagnose.explanations import explain_link
from stresstest.features.diagnose.intervention_runner import InterventionRunner
from stresstest.features.diagnose.more_prompts import MoreAnswers
from stresstest.model import (
    NEXT_FAILURE_RIGOR,
    Basis,
    CauseLink,
    Decoding,
    Diagnosis,
    GenerationRecord,
    Plane,
    Run,
    RunResult,
    RunSettings,
    RunStatus,
)
from stresstest.render.text import load_words
from stresstest.store.repository import Store

MAX_LINKS = 3


@dataclass(frozen=True, slots=True)
class DiagnoseOptions:
    """The steps of a diagnosis.

    planes: those whose arms are tested. unmask: continue the ladder under the change that cleared. why: run
    ablations and try the remedy. more_answers: limit of the output tokens of further answers, which are
    requested if too few prompts fail for the tests, as a multiple of the run's; all links share it.
    budget_tokens: output tokens, including earlier sessions, after which no further step is started.
    stall_timeout: in place of the run's. send_seed: False sends none even where the run did.
    """

    planes: tuple[Plane, ...] = tuple(Plane)
    unmask: bool = True
    why: bool = True
    more_answers: float = 3.0
    budget_tokens: int | None = None
    stall_timeout: float | None = None
    send_seed: bool = True

    def conditions(self, settings: RunSettings) -> RunSettings:
        """The settings of a run under which requests are sent now."""
        return replace(
            settings,
            stall_timeout=self.stall_timeout or settings.stall_timeout,
            send_seed=self.send_seed and settings.send_seed,
        )


@dataclass(frozen=True, slots=True)
class DiagnosisResult:
    """The diagnosis so far, the result of its run, and why it ended early, if it did."""

    diagnosis: Diagnosis
    result: RunResult
    interrupted: bool = False
    over_budget: bool = False
    error: EndpointError | None = None


async def diagnose(
    reference: str,
    store: Store,
    progress: Progress,
    *,
    options: DiagnoseOptions | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    stop: asyncio.Event | None = None,
) -> DiagnosisResult:
    """Diagnose a stored run. Requests answered in an earlier session are not sent again.

    A complete diagnosis sends nothing, unless steps are asked for that it left out. base_url: the server's
    address, if it has changed. Raises UsageError for an unknown run, changed prompts or another model,
    StoreError while another process measures it. An error of the endpoint is returned beside the result.
    """
    done = await _diagnose(reference, store, progress, options or DiagnoseOptions(), base_url, api_key, stop)
    found = diagnosis_beside_others(store, done.diagnosis, done.result.run.settings.subject)
    result = beside_others(store, done.result)
    added = result.notes[: len(result.notes) - len(done.result.notes)]
    return replace(done, diagnosis=replace(found, notes=(*found.notes, *added)), result=result)


async def _diagnose(
    reference: str,
    store: Store,
    progress: Progress,
    chosen: DiagnoseOptions,
    base_url: str | None,
    api_key: str | None,
    stop: asyncio.Event | None,
) -> DiagnosisResult:
    run_id = find_run(store, reference).id
    with store.claim(run_id):
        known = store.diagnosis(run_id)
        result = conclude(store, run_id)
        if known is None:
            _require_failures_of_unfinished(result, chosen.planes)
        if known is not None and known.complete:
            chosen = _with_earlier_steps(chosen, known)
            if not _can_continue(known, chosen):
                progress.note(f"run {run_id} is already diagnosed; nothing is sent")
                return DiagnosisResult(known, _apply_diagnosis(store, known))
        session = _DiagnosisSession(
            result, store, progress, chosen, base_url, api_key, stop or asyncio.Event(), known
        )
        try:
            await session.run_chain()
        except EndpointError as error:
            return session.finish(error=error)
        except InconclusiveError:
            return session.finish(over_budget=True)
        except (InterruptedEarlyError, asyncio.CancelledError):
            return session.finish(interrupted=True)
        return session.finish(complete=True)


def _require_failures_of_unfinished(result: RunResult, planes: Sequence[Plane]) -> None:
    """Raise InconclusiveError for a run that is not finished and has too few failing answers so far: what is
    missing of it would be taken for health, and its own prompts are the first to ask for more."""
    run, failing = result.run, len({g.prompt_id for g in select_failing(result.generations)})
    needed = failing_prompts_needed(run.settings, run.profile, planes)
    if run.status is RunStatus.DONE or failing >= needed:
        return
    if service_link(run.id, result.generations) is not None:
        return  # what the service lost is a fact, however little was measured
    raise InconclusiveError(
        f"Run {run.id} is not complete ({run.status}): {failing} of its {len(result.generations)} answers so "
        f"far degenerate, and a diagnosis needs {needed} failing prompts.",
        hint=f"Measure the rest first: stresstest run --resume {run.id}",
    )


def _with_earlier_steps(options: DiagnoseOptions, known: Diagnosis) -> DiagnoseOptions:
    """The steps that are asked for now, and those of the stored diagnosis."""
    return replace(
        options,
        planes=tuple(plane for plane in Plane if plane in (*options.planes, *known.planes)),
        unmask=options.unmask or known.unmasked,
        why=options.why or known.explained,
    )


def _can_continue(known: Diagnosis, options: DiagnoseOptions) -> bool:
    """Whether steps are asked for that a complete diagnosis left out."""
    more_planes = known.lacking and options.planes != known.planes
    further = (options.unmask and not known.unmasked) or (options.why and not known.explained)
    return more_planes or (further and known.conclusive) or _can_add_answers(known, options)


def _can_add_answers(known: Diagnosis, options: DiagnoseOptions) -> bool:
    """Whether the last link lacks failing prompts, and the budget for more answers was raised."""
    raised = _answers_budget(options, known.run_tokens) > known.added_budget
    return raised and known.lacking and known.chain[-1].n < MAX_FORKS


def _answers_budget(options: DiagnoseOptions, run_tokens: int) -> int:
    return round(options.more_answers * run_tokens)


def _apply_diagnosis(store: Store, found: Diagnosis) -> RunResult:
    """Update the stored verdict of every run in the chain; returns the result of the diagnosed run.

    Campaigns of later links may have been deleted since.
    """
    others = {link.run_id for link in found.chain} - {found.run_id}
    for row in store.runs() if others else ():
        if row.id in others:
            update_conclusion(store, row.id)
    return update_conclusion(store, found.run_id)


@dataclass
class _DiagnosisSession:
    """Finds the chain link by link and stores the diagnosis, once it is as far as `known`, the stored one."""

    measured: RunResult
    store: Store
    progress: Progress
    options: DiagnoseOptions
    base_url: str | None
    api_key: str | None
    stop: asyncio.Event
    known: Diagnosis | None = None

    def __post_init__(self) -> None:
        self.run = self.measured.run
        tokens = self.measured.tokens_spent
        budget = _answers_budget(self.options, tokens)
        self.diagnosis = Diagnosis(
            self.run.id,
            (),
            run_tokens=tokens,
            added_budget=budget,
            planes=self.options.planes,
            unmasked=self.options.unmask,
            explained=self.options.why,
        )

    async def run_chain(self) -> None:
        """Find link after link, each in the run that shows it, until there is nothing left to unmask."""
        current, measured = self.run, self.measured
        for _ in range(MAX_LINKS):
            links = await self._examine_run(current, measured.generations)
            self.diagnosis = replace(self.diagnosis, chain=(*self.diagnosis.chain, *links))
            self.save()
            following = self._next_campaign(current.settings, links)
            if following is None:
                break
            self.progress.note(
                f"{links[-1].sentence}. Next: a new run with that change, to find the new limit. If answers "
                f"now stay healthy for longer, it takes longer than the first run, up to about 15 times "
                f"as long. Ctrl-C ends it and keeps the diagnosis; --no-unmask skips it."
            )
            ending = await self._unmask(following)
            current, measured = ending.result.run, ending.result
            self.diagnosis = _with_unmasked_limit(
                self.diagnosis, current.settings, ending.result, self.run.settings
            )
            if not has_enough_failures(measured.generations):
                break

    def _remaining_budget(self) -> int | None:
        """Output tokens left of the budget; None without a budget."""
        if self.options.budget_tokens is None:
            return None
        return max(0, self.options.budget_tokens - self.diagnosis.spent_tokens)

    def save(self, *, complete: bool = False) -> Diagnosis:
        """Store the diagnosis so far, unless the stored one is as far; returns the one that is stored."""
        self.diagnosis = replace(self.diagnosis, complete=complete)
        known = self.known
        if known is not None and not complete:
            further = len(self.diagnosis.chain) - len(known.chain)
            if further < 0 or (known.complete and not further):
                return known
        self.store.save_diagnosis(self.diagnosis)
        return self.diagnosis

    def finish(self, *, complete: bool = False, **how: Any) -> DiagnosisResult:
        """Store the diagnosis and the verdicts that its runs get from it. how: fields of DiagnosisResult."""
        found = self.save(complete=complete)
        return DiagnosisResult(found, _apply_diagnosis(self.store, found), **how)

    async def _examine_run(self, run: Run, generations: Sequence[GenerationRecord]) -> list[CauseLink]:
        """The links of one run: service failures as observed, then degeneration by intervention."""
        links = [link for link in (service_link(run.id, generations),) if link is not None]
        degenerate = select_failing(generations)
        if not degenerate or (links and len(degenerate) < prompts_needed(1)):
            return links
        settings = replace(
            self.options.conditions(run.settings), base_url=self.base_url or run.settings.base_url
        )
        continued = ContinuedRun(
            run,
            consequence="its failures cannot be repeated",
            hint="Restore the task or prompts file, or diagnose a new run.",
        )
        async with prepare_campaign(settings, continued=continued, api_key=self.api_key) as prepared:
            budget = self._remaining_budget()
            runner = InterventionRunner(run, prepared, self.store, self.progress, self.stop, budget)
            before = self.diagnosis.added_tokens
            left = max(0, self.diagnosis.added_budget - before)
            more = MoreAnswers(runner, left, self.diagnosis.run_tokens, before)
            try:
                examined = await examine_cause(runner, generations, self.options.planes, more)
                link = examined.link
                if self.options.why and link.conclusive:
                    link = await explain_link(runner, examined, generations)
            finally:
                self.diagnosis = replace(
                    self.diagnosis,
                    arm_tokens=self.diagnosis.arm_tokens + runner.spent - more.tokens,
                    added_answers=self.diagnosis.added_answers + more.answers,
                    added_tokens=before + more.tokens,
                )
        return [*links, link]

    def _next_campaign(self, settings: RunSettings, links: Sequence[CauseLink]) -> RunSettings | None:
        """Settings of the campaign that shows what the last link masked; None if there is none to run."""
        last = links[-1] if links else None
        if last is None or not self.options.unmask or last.basis is not Basis.CONFIRMED:
            return None
        if last.plane is Plane.SYSTEM and cleared_alone(last):
            return self._child_settings(settings, settings.decoding, 1)
        if last.plane is Plane.DECODING and last.cleared_decoding is not None:
            return self._child_settings(settings, last.cleared_decoding, settings.in_flight)
        return None

    def _child_settings(self, settings: RunSettings, decoding: Decoding, concurrency: int) -> RunSettings:
        own = self.run.settings
        return replace(
            self.options.conditions(settings),
            decoding=decoding,
            concurrency=concurrency,
            base_url=self.base_url or settings.base_url,
            rigor=NEXT_FAILURE_RIGOR,
            tighten=False,
            parent=self.run.id,
            holds_up_to=concurrency if concurrency < own.in_flight else own.holds_up_to,
        )

    async def _unmask(self, settings: RunSettings) -> CampaignResult:
        """Run a campaign under the change that cleared, or resume the one of an earlier session."""
        if self._remaining_budget() == 0:
            raise InconclusiveError("The token budget is spent; the results so far are kept.")
        earlier = _find_child_run(self.store, settings)
        self.progress.note(
            f"looking for the next failure: a new climb with {_describe_conditions(settings)}"
            if earlier is None
            else f"looking for the next failure: continuing run {earlier.id}"
        )
        if earlier is None:
            ending = await run_campaign(
                settings, self.store, self.progress, api_key=self.api_key, stop=self.stop
            )
        else:
            ending = await resume_campaign(
                earlier.id,
                self.store,
                self.progress,
                base_url=settings.base_url,
                api_key=self.api_key,
                stop=self.stop,
            )
        spent = self.diagnosis.child_tokens + ending.result.tokens_spent
        self.diagnosis = replace(self.diagnosis, child_tokens=spent)
        if ending.error is not None:
            raise ending.error
        if ending.interrupted:
            raise InterruptedEarlyError("The diagnosis was interrupted; the results so far are kept.")
        return ending


def _find_child_run(store: Store, settings: RunSettings) -> Run | None:
    """The campaign of an earlier session with the same parent, decoding and concurrency."""
    for row in store.runs(settings.subject):
        if row.decoding != settings.decoding or row.status is RunStatus.FAILED:
            continue
        found = store.run(row.id)
        if found.settings.parent == settings.parent and found.settings.concurrency == settings.concurrency:
            return found
    return None


def _with_unmasked_limit(
    found: Diagnosis, settings: RunSettings, result: RunResult, first: RunSettings
) -> Diagnosis:
    """The diagnosis with the limit certified by the unmasking campaign."""
    return replace(
        found,
        recommended=settings.decoding if settings.decoding != first.decoding else found.recommended,
        concurrency=settings.concurrency if settings.concurrency != first.in_flight else found.concurrency,
        safe_max_tokens=result.safe_max_tokens,
        safe_run=result.run.id,
        safe_n=result.threshold.n,
        safe_threshold=result.threshold,
    )


def _describe_conditions(settings: RunSettings) -> str:
    words = [f"{k} {v:g}" for k, v in settings.decoding.sent().items()] + settings.decoding.extra_words()
    sent = ", ".join(words) or "the same decoding"
    system = ", a system prompt" if settings.decoding.system_prompt else ""
    return f"{sent}{system}, {load_words(settings.in_flight)}"
