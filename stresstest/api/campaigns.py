"""`measure` and `load_run`: campaigns and what is stored of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, get_type_hints

from stresstest.api.arguments import require_kinds, require_texts
from stresstest.errors import UsageError
from stresstest.model import RunResult

if TYPE_CHECKING:
    from stresstest.campaign.progress import Progress
    from stresstest.campaign.session import CampaignResult
    from stresstest.store.repository import Store

T = TypeVar("T")


class MeasureOptions(TypedDict, total=False):
    """The options of ``stresstest run``, under the names they have in stresstest.toml."""

    task: str
    base_url: str
    rigor: str
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    system_prompt: str
    extra_body: str
    concurrency: int
    horizon: int
    margin: str | float
    prompts: str
    budget_tokens: str | int
    budget_time: str | float
    tighten: bool
    no_abort: bool
    seed: int
    no_seed: bool
    no_logprobs: bool
    stall_timeout: str | float
    gpus: str
    gpu_exporter: str
    store: str
    api_key: str
    display: str


def measure(
    model: str | None = None,
    *,
    language: str | None = None,
    resume: str | None = None,
    **options: Unpack[MeasureOptions],
) -> RunResult:
    """Measure one subject and store the run, as the command `run` does; what is not given comes from
    ``STRESSTEST_*``, from stresstest.toml and from the defaults, as there.

    model: as served; by default the only one that is. language: of the answers; needed unless `prompts` is
    given. resume: continue this stored run, with nothing else given but `base_url`, `store`, `api_key`,
    `display` and budgets. display: "plain" or "rich" shows progress on stderr; by default nothing does.

    Works in a notebook too. What finished is stored at once: after an interruption or an error, `resume` goes
    on. Raises UsageError for options that cannot be used, EndpointError where the endpoint cannot be reached
    or fails in the midst of it, with notes that then name the run, and KeyboardInterrupt when interrupted.
    """
    from stresstest.campaign.conclusion.overruled import beside_others
    from stresstest.options.common import GlobalOptions, progress_for, refuse_options, run_settings
    from stresstest.store import open_store

    require_texts(model=model, language=language, resume=resume)
    require_kinds(options, get_type_hints(MeasureOptions), "model", "language", "resume")
    top = GlobalOptions(options.get("store"), options.get("api_key"), options.get("display"))
    given = {**options, "model": model, "lang": language}
    values = top.resolve(given, base_url=options.get("base_url"))
    refuse_options(
        values["given"] if resume else set(),
        allowed={"base_url", "budget_tokens", "budget_time", "stall_timeout"},
        why="changed when a run is resumed: it continues as it began.",
        hint="Remove it, or start a new run.",
    )

    async def campaign(store: Store, progress: Progress) -> CampaignResult:
        from stresstest.campaign.resume import resume_campaign
        from stresstest.campaign.run import run_campaign

        if resume is None:
            return await run_campaign(run_settings(values), store, progress, api_key=values["api_key"])
        return await resume_campaign(
            resume,
            store,
            progress,
            base_url=options.get("base_url"),
            budget_tokens=values["budget_tokens"],
            budget_seconds=values["budget_time"],
            stall_timeout=values["stall_timeout"],
            api_key=values["api_key"],
        )

    with (
        open_store(values["store"]) as store,
        closing(progress_for(options.get("display") or "none")) as progress,
    ):
        ending = _run_here(lambda: campaign(store, progress))
        result = beside_others(store, ending.result)
    run = ending.result.run.id
    if ending.error is not None:
        ending.error.add_note(f"Run {run} keeps {len(ending.result.generations)} generations: resume={run!r}")
        raise ending.error
    if ending.interrupted:
        raise KeyboardInterrupt(f"run {run} is kept: resume={run!r}")
    return result


def load_run(run: str = "latest", *, store: str | None = None) -> RunResult:
    """A stored run as `measure` returns it.

    run: its id, the beginning of it, or "latest". store: as ``--store``. Raises UsageError where there is
    none.
    """
    from stresstest.campaign.conclusion.conclude import current_result
    from stresstest.options.common import GlobalOptions
    from stresstest.store import open_store

    require_texts(run=run, store=store)
    if not run or not run.strip():
        raise UsageError("load_run needs a run: its id, the beginning of it, or latest.")
    with open_store(GlobalOptions(store).resolve({})["store"]) as opened:
        return current_result(opened, run)


def _run_here(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run to the end, in a thread of its own where an event loop runs here already, as in a notebook."""
    from stresstest.campaign.execution.eventloop import run

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run(main())
    return _run_in_thread(main)


def _run_in_thread(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run in a thread of its own. A Ctrl-C, which Python raises in the main thread only, cancels it there."""
    from stresstest.campaign.execution.eventloop import run
    from stresstest.scanning.interrupts import hold_interrupts, result_of

    interrupted = False
    tasks: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[T]]] = []

    async def cancellable() -> T:
        task = asyncio.ensure_future(main())
        tasks.append((asyncio.get_running_loop(), task))
        if interrupted:
            task.cancel()
        return await task

    with ThreadPoolExecutor(1) as thread:
        with hold_interrupts():
            result = thread.submit(lambda: run(cancellable()))
        try:
            return result_of(result)
        except KeyboardInterrupt:
            interrupted = True
            with suppress(RuntimeError):  # it has just ended
                for loop, task in tasks:
                    loop.call_soon_threadsafe(task.cancel)
            try:
                return result_of(result)
            except asyncio.CancelledError:
                raise KeyboardInterrupt from None
