"""The steps around every measuring workflow: store, progress display, event loop, interruption, exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

from stresstest.errors import ExitCode, InterruptedEarlyError, StresstestError
from stresstest.options.common import progress_for, show_error
from stresstest.options.interruptions import SIGNALS, Interruptions
from stresstest.options.streams import is_output_closed

if TYPE_CHECKING:
    from stresstest.campaign.progress import Progress
    from stresstest.store.repository import Store

T = TypeVar("T")

_OUTPUT_POLL_S = 0.5
"""Seconds between two checks whether stdout and stderr still have a reader."""
_cancelled = threading.Event()
"""Set by a second Ctrl-C."""


def run_measurement(
    options: Mapping[str, Any],
    workflow: Callable[[Store, Progress, asyncio.Event], Awaitable[T]],
    *,
    empty: Callable[[], dict[str, Any]] | None = None,
) -> T:
    """Run `workflow(store, progress, stop)` with the store and display of the options; both are closed.

    stop: set when the user interrupts. empty: builds the JSON document that is printed when nothing was
    measured before an interruption; None without --json. Raises InterruptedEarlyError in that case.
    """
    from stresstest.campaign.execution.eventloop import run
    from stresstest.render.json_text import dumps
    from stresstest.store import open_store

    interruptions = Interruptions()
    try:
        with open_store(options["store"]) as store, closing(progress_for(options["display"])) as progress:
            interruptions.start()
            try:
                return run(_until_interrupted(lambda stop: workflow(store, progress, stop), interruptions))
            finally:
                interruptions.take_over()
    except InterruptedEarlyError:
        if empty is not None:
            typer.echo(dumps(empty()))
        raise
    finally:
        interruptions.end()


def exit_if_cut_short(error: StresstestError | None, *, interrupted: bool, kept: str = "") -> None:
    """Exit with its code after an error, 130 after an interruption; return otherwise.

    kept: written to stderr before the exit: what is stored and how to resume.
    """
    if error is not None:
        show_error(error)
    if error is not None or interrupted:
        sys.stderr.write(kept)
        raise typer.Exit(ExitCode.INTERRUPTED if error is None else error.exit_code)


def on_signals(handler: Callable[[], object]) -> None:
    """Call `handler` on Ctrl-C and SIGTERM, from the running event loop."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        try:
            loop.add_signal_handler(number, handler)
        except NotImplementedError:  # Windows event loops have no signal handlers
            break


async def _until_interrupted(
    workflow: Callable[[asyncio.Event], Awaitable[T]], interruptions: Interruptions
) -> T:
    """Run `workflow(stop)`. The first Ctrl-C or SIGTERM sets `stop`, the second cancels the workflow.

    `stop` is also set when both output streams have lost their readers (`2>&1 | head -1`). Raises
    InterruptedEarlyError when the workflow is cancelled.
    """
    stop = asyncio.Event()
    running = asyncio.ensure_future(workflow(stop))
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        if stop.is_set():
            _cancelled.set()
            # The loop waits for its threads when it closes, and some wait long themselves, for a name lookup
            # for example: those at work are left behind with their pool.
            loop.set_default_executor(ThreadPoolExecutor())
            running.cancel()
            return
        stop.set()
        sys.stderr.write("\n\nstopping; the results so far are kept. Press Ctrl-C again to stop at once\n")

    interruptions.heard = lambda: loop.call_soon_threadsafe(interrupt)
    interruptions.take_over()
    output_watch = asyncio.ensure_future(_stop_when_output_closed(stop))
    try:
        return await running
    except asyncio.CancelledError:
        raise InterruptedEarlyError(
            "Interrupted at once; the answers that had ended before are kept."
        ) from None
    finally:
        output_watch.cancel()
        interruptions.heard = lambda: None


def exit_process(code: int | str | None) -> NoReturn:
    """`sys.exit`; after a Ctrl-C without what the interpreter does on its way out: it waits for every thread
    and worker and frees all memory, which takes seconds on a busy machine.

    A Ctrl-C that comes only then ends the process as it ends any other: raised inside the interpreter's
    waiting, it would leave threads that never end, and a traceback.
    """
    if callable(signal.getsignal(signal.SIGINT)):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if _cancelled.is_set() or code == ExitCode.INTERRUPTED:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ExitCode.INTERRUPTED if not isinstance(code, int) else code)
    sys.exit(code)


async def _stop_when_output_closed(stop: asyncio.Event) -> None:
    while not is_output_closed():
        await asyncio.sleep(_OUTPUT_POLL_S)
    stop.set()
