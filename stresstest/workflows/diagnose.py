"""`diagnose`: which plane a failure lies on, by changing one thing at a time. A short story told in calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from stresstest.diagnosis.evidence import lost
from stresstest.diagnosis.exact import prompts_needed
from stresstest.diagnosis.forks import failing
from stresstest.diagnosis.wording import alone, link_sentence
from stresstest.endpoint.client import Endpoint
from stresstest.errors import EndpointError, InterruptedEarlyError, UsageError
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
from stresstest.workflows.conclude import conclude, find_run
from stresstest.workflows.diagnose_bench import Bench
from stresstest.workflows.diagnose_link import examine
from stresstest.workflows.diagnose_why import explain
from stresstest.workflows.run import Ending, refuse_another_model, resume_campaign, run_campaign
from stresstest.workflows.setting import ask_endpoint, load_source

MOST_LINKS = 3
_FEW = 0.1
"""A campaign of which a smaller share fails has no further link: what is left is rare."""
ALL_PLANES = tuple(Plane)


@dataclass(frozen=True, slots=True)
class Options:
    """planes: whose arms are declared. unmask: climb on under what cleared. why: ablations and remedy."""

    planes: tuple[Plane, ...] = ALL_PLANES
    unmask: bool = True
    why: bool = True


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """How a diagnosis ended: what is known, the run it began from, and what cut it short, if anything."""

    diagnosis: Diagnosis
    result: RunResult
    interrupted: bool = False
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
    if known is not None and known.complete:
        progress.note(f"run {run.id} is already diagnosed; nothing is sent")
        return Diagnosed(known, result)
    story = _Story(run, store, progress, options or Options(), base_url, api_key, stop or asyncio.Event())
    try:
        await story.tell()
    except EndpointError as error:
        return Diagnosed(story.save(), result, error=error)
    except (InterruptedEarlyError, asyncio.CancelledError):
        return Diagnosed(story.save(), result, interrupted=True)
    return Diagnosed(story.save(complete=True), result)


class _Story:
    """The chain as it is found, link by link."""

    def __init__(
        self,
        run: Run,
        store: Store,
        progress: Progress,
        options: Options,
        base_url: str | None,
        api_key: str | None,
        stop: asyncio.Event,
    ) -> None:
        self.run = run
        self.store = store
        self.progress = progress
        self.options = options
        self.base_url = base_url
        self.api_key = api_key
        self.stop = stop
        self.found = Diagnosis(run.id, ())

    async def tell(self) -> None:
        """Link after link, each in the run that showed it, until nothing is left to unmask."""
        current = self.run
        measured = conclude(self.store, current.id)
        self.found = replace(self.found, run_tokens=measured.tokens_spent)
        for _ in range(MOST_LINKS):
            links = await self._links(current, measured.generations)
            explained = self.found.explained_tokens + (measured.tokens_spent if links else 0)
            chain = (*self.found.chain, *links)
            self.found = replace(self.found, chain=chain, explained_tokens=explained)
            self.save()
            following = self._following(current.settings, links)
            if following is None:
                break
            ending = await self._unmask(following)
            current, measured = ending.result.run, ending.result
            self.found = _under(self.found, current.settings, ending.result, self.run.settings)
            if not _fails(measured.generations):
                break

    def save(self, *, complete: bool = False) -> Diagnosis:
        """Store what is known so far."""
        self.found = replace(self.found, complete=complete)
        self.store.save_diagnosis(self.found)
        return self.found

    async def _links(self, run: Run, generations: Sequence[Generation]) -> list[Link]:
        """The links that one run shows: service failures by fact, then what degenerates by intervention."""
        links = [link for link in (_service(run, generations),) if link is not None]
        degenerate = failing(generations)
        if not degenerate or (links and len(degenerate) < prompts_needed(1)):
            return links
        settings = run.settings
        url = self.base_url or settings.base_url
        prompts = load_source(settings)
        if prompts.digest() != run.prompts_digest:
            raise UsageError(
                f"The prompts of run {run.id} have changed since it began: its failures cannot be repeated.",
                hint="Restore the task or prompts file, or diagnose a new run.",
            )
        async with Endpoint(url, api_key=self.api_key, model=settings.subject.model) as endpoint:
            profile, _ = await ask_endpoint(endpoint, settings)
            refuse_another_model(run, profile)
            bench = Bench(run, endpoint, prompts, self.store, self.progress, self.stop)
            try:
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


def _fails(generations: Sequence[Generation]) -> bool:
    """Whether enough fails to be a link of its own."""
    down = len(failing(generations)) + sum(lost(g) for g in generations)
    return down >= max(2, _FEW * len(generations))


def _service(run: Run, generations: Sequence[Generation]) -> Link | None:
    """Service failures, where they are at least half of what fails: the system plane, by fact."""
    taken = [g for g in generations if lost(g)]
    if not taken or len(taken) < len(failing(generations)):
        return None
    kinds: dict[str, int] = {}
    for generation in taken:
        if generation.failure is not None:
            kinds[str(generation.failure.kind)] = kinds.get(str(generation.failure.kind), 0) + 1
    link = Link(
        run_id=run.id,
        plane=Plane.SYSTEM,
        basis=Basis.OBSERVED,
        symptom=None,
        median_onset=None,
        n=len(taken),
        sentence="",
        kinds=kinds,
        notes=(f"{len(taken)} of {len(generations)} generations were lost to service failures, a fact",),
    )
    return replace(link, sentence=link_sentence(link))


def _words(settings: RunSettings) -> str:
    sent = ", ".join(f"{k} {v:g}" for k, v in settings.decoding.sent().items()) or "the same decoding"
    system = ", a system prompt" if settings.decoding.system_prompt else ""
    return f"{sent}{system}, {settings.concurrency} at once"
