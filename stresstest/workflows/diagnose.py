"""`diagnose`: which plane a failure lies on, by changing one thing at a time. A short story told in calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stresstest.diagnosis.exact import prompts_needed
from stresstest.diagnosis.forks import MOST_FORKS, failing
from stresstest.diagnosis.service import fails_enough, service_link
from stresstest.diagnosis.wording import alone
from stresstest.endpoint.client import Endpoint
from stresstest.errors import EndpointError, InconclusiveError, InterruptedEarlyError
from stresstest.model import (
    Basis,
    Decoding,
    Diagnosis,
    Generation,
    Link,
    Plane,
    Run,
    RunResult,
    RunSettings,
    RunStatus,
)
from stresstest.report.progress import Progress
from stresstest.store.repository import Store
from stresstest.workflows.conclude import conclude, conclude_again, find_run
from stresstest.workflows.diagnose_bench import Bench
from stresstest.workflows.diagnose_link import examine
from stresstest.workflows.diagnose_more import more_failing
from stresstest.workflows.diagnose_why import explain
from stresstest.workflows.run import (
    Ending,
    refuse_another_model,
    refuse_changed_prompts,
    resume_campaign,
    run_campaign,
)
from stresstest.workflows.setting import ask_endpoint, load_source

MOST_LINKS = 3
ALL_PLANES = tuple(Plane)


@dataclass(frozen=True, slots=True)
class Options:
    """planes: whose arms are declared. unmask: climb on under what cleared. why: ablations and remedy.

    more_failing: answers to ask for beyond the run's, at most, where too few prompts fail for the tests.
    budget_tokens: output tokens, earlier sessions' included, after which no further step is begun.
    """

    planes: tuple[Plane, ...] = ALL_PLANES
    unmask: bool = True
    why: bool = True
    more_failing: int = 0
    budget_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """How a diagnosis ended: what is known, the run it began from, and what cut it short, if anything."""

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
    options: Options | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    stop: asyncio.Event | None = None,
) -> Diagnosed:
    """Diagnose a stored run. What an earlier session answered is not sent again.

    A finished diagnosis sends nothing. base_url: where the server is now, when it has moved. Raises
    UsageError for an unknown run, changed prompts or another model. Trouble with the endpoint is returned
    beside what was found.
    """
    run = find_run(store, reference)
    known = store.diagnosis(run.id)
    result = conclude(store, run.id)
    chosen = options or Options()
    if known is not None and known.complete and not (chosen.more_failing and known.lacking):
        progress.note(f"run {run.id} is already diagnosed; nothing is sent")
        return Diagnosed(known, _told(store, known))
    story = _Story(result, store, progress, chosen, base_url, api_key, stop or asyncio.Event())
    try:
        await story.tell()
    except EndpointError as error:
        return story.end(error=error)
    except InconclusiveError:
        return story.end(over_budget=True)
    except (InterruptedEarlyError, asyncio.CancelledError):
        return story.end(interrupted=True)
    return story.end(complete=True)


def _told(store: Store, found: Diagnosis) -> RunResult:
    """The run's result as the diagnosis leaves it; saved for it and for every run that has a link.

    A campaign that unmasked may have been deleted since.
    """
    others = {link.run_id for link in found.chain} - {found.run_id}
    for row in store.runs() if others else ():
        if row.id in others:
            conclude_again(store, row.id)
    return conclude_again(store, found.run_id)


class _Story:
    """The chain as it is found, link by link."""

    def __init__(
        self,
        measured: RunResult,
        store: Store,
        progress: Progress,
        options: Options,
        base_url: str | None,
        api_key: str | None,
        stop: asyncio.Event,
    ) -> None:
        self.measured = measured
        self.run = measured.run
        self.store = store
        self.progress = progress
        self.options = options
        self.base_url = base_url
        self.api_key = api_key
        self.stop = stop
        self.found = Diagnosis(self.run.id, (), run_tokens=measured.tokens_spent)

    async def tell(self) -> None:
        """Link after link, each in the run that showed it, until nothing is left to unmask."""
        current, measured = self.run, self.measured
        for _ in range(MOST_LINKS):
            links = await self._links(current, measured.generations)
            self.found = replace(self.found, chain=(*self.found.chain, *links))
            self.save()
            following = self._following(current.settings, links)
            if following is None:
                break
            ending = await self._unmask(following)
            current, measured = ending.result.run, ending.result
            self.found = _under(self.found, current.settings, ending.result, self.run.settings)
            if not fails_enough(measured.generations):
                break

    def _left(self) -> int | None:
        """What the budget leaves; None without one."""
        if self.options.budget_tokens is None:
            return None
        return max(0, self.options.budget_tokens - self.found.arm_tokens - self.found.child_tokens)

    def save(self, *, complete: bool = False) -> Diagnosis:
        """Store what is known so far."""
        self.found = replace(self.found, complete=complete)
        self.store.save_diagnosis(self.found)
        return self.found

    def end(self, *, complete: bool = False, **how: Any) -> Diagnosed:
        """Store the diagnosis, and what the verdicts of its runs are by it."""
        found = self.save(complete=complete)
        return Diagnosed(found, _told(self.store, found), **how)

    async def _links(self, run: Run, generations: Sequence[Generation]) -> list[Link]:
        """The links that one run shows: service failures by fact, then what degenerates by intervention."""
        links = [link for link in (service_link(run.id, generations),) if link is not None]
        degenerate = failing(generations)
        if not degenerate or (links and len(degenerate) < prompts_needed(1)):
            return links
        settings = run.settings
        url = self.base_url or settings.base_url
        prompts = load_source(settings)
        hint = "Restore the task or prompts file, or diagnose a new run."
        refuse_changed_prompts(run, prompts, "its failures cannot be repeated", hint=hint)
        async with Endpoint(url, api_key=self.api_key, model=settings.subject.model) as endpoint:
            profile, _ = await ask_endpoint(endpoint, settings)
            refuse_another_model(run, profile)
            bench = Bench(run, endpoint, prompts, self.store, self.progress, self.stop, self._left())
            try:
                if self.options.more_failing and len(degenerate) < MOST_FORKS:
                    generations = await more_failing(bench, generations, self.options.more_failing)
                examined = await examine(bench, generations, self.options.planes)
                link = examined.link
                if self.options.why and examined.link.conclusive:
                    link = await explain(bench, examined, generations)
            finally:
                self.found = replace(self.found, arm_tokens=self.found.arm_tokens + bench.spent)
        return [*links, link]

    def _following(self, settings: RunSettings, links: Sequence[Link]) -> RunSettings | None:
        """The campaign that shows what the last link has masked; None where there is none to begin."""
        last = links[-1] if links else None
        if last is None or not self.options.unmask or last.basis is not Basis.CONFIRMED:
            return None
        if last.plane is Plane.SYSTEM and alone(last):
            return self._child(settings, settings.decoding, 1)
        if last.plane is Plane.DECODING and last.cleared_decoding is not None:
            return self._child(settings, last.cleared_decoding, settings.concurrency)
        return None

    def _child(self, settings: RunSettings, decoding: Decoding, concurrency: int) -> RunSettings:
        return replace(
            settings,
            decoding=decoding,
            concurrency=concurrency,
            base_url=self.base_url or settings.base_url,
            rigor="quick",
            tighten=False,
            parent=self.run.id,
        )

    async def _unmask(self, settings: RunSettings) -> Ending:
        """Climb and certify under what cleared, or go on with what an earlier session began."""
        if self._left() == 0:
            raise InconclusiveError("The token budget is spent; what was measured is kept.")
        begun = _begun(self.store, settings)
        self.progress.note(
            f"unmasking: climbing on from scratch with {_words(settings)}"
            + (f" (run {begun.id} goes on)" if begun is not None else "")
        )
        if begun is None:
            ending = await run_campaign(
                settings, self.store, self.progress, api_key=self.api_key, stop=self.stop
            )
        else:
            ending = await resume_campaign(
                begun.id,
                self.store,
                self.progress,
                base_url=settings.base_url,
                api_key=self.api_key,
                stop=self.stop,
            )
        spent = self.found.child_tokens + ending.result.tokens_spent
        self.found = replace(self.found, child_tokens=spent)
        if ending.error is not None:
            raise ending.error
        if ending.interrupted:
            raise InterruptedEarlyError("The diagnosis was interrupted; what was measured is kept.")
        return ending


def _begun(store: Store, settings: RunSettings) -> Run | None:
    """The campaign of an earlier session with the same parent, decoding and concurrency."""
    for row in store.runs(settings.subject):
        if row.decoding != settings.decoding or row.status is RunStatus.FAILED:
            continue
        found = store.run(row.id)
        if found.settings.parent == settings.parent and found.settings.concurrency == settings.concurrency:
            return found
    return None


def _under(found: Diagnosis, settings: RunSettings, result: RunResult, first: RunSettings) -> Diagnosis:
    """The diagnosis with what the unmasking campaign certified."""
    return replace(
        found,
        recommended=settings.decoding if settings.decoding != first.decoding else found.recommended,
        concurrency=settings.concurrency if settings.concurrency != first.concurrency else found.concurrency,
        safe_max_tokens=result.safe_max_tokens,
        safe_run=result.run.id,
    )


def _words(settings: RunSettings) -> str:
    sent = ", ".join(f"{k} {v:g}" for k, v in settings.decoding.sent().items()) or "the same decoding"
    system = ", a system prompt" if settings.decoding.system_prompt else ""
    return f"{sent}{system}, {settings.concurrency} at once"
