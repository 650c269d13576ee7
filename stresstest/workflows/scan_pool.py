"""Chunks to batches on all cores, in the order of the input, with a bounded number of chunks in flight."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from stresstest.errors import StresstestError
from stresstest.records import Chunk
from stresstest.workflows.scan_judge import Batch, Group, Job, judge_chunk

ALONE = 1
"""So many chunks in all are judged here: starting processes would take longer."""

Work = tuple[Chunk, Mapping[Group, str]]


def workers_by_default() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def judged(work: Iterable[Work], job: Job, workers: int) -> Iterator[Batch]:
    """The batches in order. Raises StresstestError when a worker dies (out of memory, killed)."""
    ahead = iter(work)
    first = [each for _, each in zip(range(ALONE + 1), ahead, strict=False)]
    if workers <= 1 or len(first) <= ALONE:
        for chunk, languages in first:
            yield judge_chunk(chunk, job, languages)
        for chunk, languages in ahead:
            yield judge_chunk(chunk, job, languages)
        return
    yield from _parallel(first, ahead, job, workers)


def _parallel(first: list[Work], ahead: Iterator[Work], job: Job, workers: int) -> Iterator[Batch]:
    pool = ProcessPoolExecutor(workers, mp_context=_context(), initializer=_quietly)
    running: deque[Future[Batch]] = deque()
    try:
        for chunk, languages in _chained(first, ahead):
            running.append(pool.submit(judge_chunk, chunk, job, languages))
            if len(running) > 2 * workers:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    except BrokenProcessPool:
        raise StresstestError(
            "A worker process was killed, perhaps for lack of memory.",
            hint="Try again with fewer: --workers 1",
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _chained(first: list[Work], ahead: Iterator[Work]) -> Iterator[Work]:
    while first:
        yield first.pop(0)
    yield from ahead


def _context() -> multiprocessing.context.BaseContext:
    """Workers come from a clean server process: forking this one would copy its threads' locks."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["stresstest.workflows.scan_preload"])
    return context


def _quietly() -> None:
    """Ctrl-C goes to every process of the terminal; only the parent answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
