"""Chunks to batches on all cores, in the order of the input, with a bounded number of chunks in memory.

What comes slowly, through a pipe, is judged as it comes. This process reads and counts, and never judges
where there are others to do it: it holds no language models.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import itertools
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from types import ModuleType
from typing import Any

from stresstest.errors import StresstestError
from stresstest.records import Chunk
from stresstest.workflows.scan_judge import Batch, Group, Job, Languages, judge_chunk, languages_of

ALONE = 1
"""So many chunks in all are judged here: starting processes would take longer."""
HEAVY = 32 << 20
"""Bytes of JSON with the workers at which nothing is handed out before something has come back: lines with
many logprobs make chunks of tens of megabytes."""

SHARING = 3
"""From so many workers on, a process that only holds the models for all of them is worth its own memory."""
_PRELOAD = "stresstest.workflows.scan_preload"
_TRIMMED = 8
"""Chunks after which a worker gives freed memory back: a millisecond or two."""
_judged = itertools.count(1)
_IDLE_S = 0.5
"""After so long without a chunk the input is slow: what was read ahead waits no longer."""

Work = tuple[Chunk, bool]
"""A chunk, and whether its groups' languages are to be told from it."""
_Running = deque[tuple[int, Future[Batch]]]
"""What was handed out, in order, each with its weight."""
_Tell = Callable[[Chunk, Collection[Group]], Callable[[], Languages]]


def workers_by_default() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def judged(work: Iterable[Work], job: Job, workers: int) -> Iterator[Batch]:
    """The batches in order. Raises StresstestError when a worker dies (out of memory, killed).

    Ctrl-C is raised again once the batches that were done by then are out.
    """
    running: _Running = deque()
    ahead = _as_it_comes(iter(work), running) if workers > 1 else iter(work)
    # A file that is slow to open is not slow to read: what counts is a wait after the first chunk.
    begun = itertools.dropwhile(lambda found: found is None, ahead)
    first = deque(islice(begun, ALONE + 1))
    if workers > 1 and len(first) > ALONE:
        yield from _parallel(_chained(first, ahead), running, job, workers)
        return

    def tell(chunk: Chunk, known: Collection[Group]) -> Callable[[], Languages]:
        return lambda: languages_of(chunk, job, known)

    for told in _told(_chained(first, ahead), tell, 0):
        if told is not None:
            yield judge_chunk(told[0], job, told[1])


def _parallel(work: Iterator[Work | None], running: _Running, job: Job, workers: int) -> Iterator[Batch]:
    pool = ProcessPoolExecutor(workers, mp_context=_context(workers), initializer=_ready)
    weight = 0

    def tell(chunk: Chunk, known: Collection[Group]) -> Callable[[], Languages]:
        with _starting():
            return pool.submit(languages_of, chunk, job, frozenset(known)).result

    try:
        for told in _told(work, tell, workers - 1):
            if told is not None:
                size = told[0].size
                weight += size
                with _starting():
                    running.append((size, pool.submit(_judge, told[0], job, told[1])))
            del told
            while running and (len(running) >= 2 * workers or weight > HEAVY or running[0][1].done()):
                batch = running[0][1].result()
                weight -= running.popleft()[0]
                yield batch
        while running:
            batch = running[0][1].result()
            running.popleft()
            yield batch
        pool.shutdown()  # and their memory with them, before the groups' samples are unpacked
    except KeyboardInterrupt:
        while running and running[0][1].done():
            yield running.popleft()[1].result()
        raise
    except BrokenProcessPool:
        raise StresstestError(
            "A worker process was killed, perhaps for lack of memory.",
            hint="Try again with fewer: --workers 1",
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _as_it_comes(work: Iterator[Work], running: _Running) -> Iterator[Work | None]:
    """The work, and None now and then while none comes: whenever the oldest of `running` is done, at least.

    A pipe may say nothing for hours, so it is read in a thread; never further ahead than is asked for.
    """
    while True:
        reading: Future[Work | None] = Future()
        threading.Thread(target=_read, args=(work, reading), daemon=True).start()
        while not reading.done():
            awaited: list[Future[Any]] = [reading, *(batch for _, batch in islice(running, 1))]
            wait(awaited, _IDLE_S, FIRST_COMPLETED)
            if not reading.done():
                yield None
        if reading.result() is None:
            return
        found = [reading.result()]
        del reading
        yield found.pop()  # not held here while the next is read


def _read(work: Iterator[Work], reading: Future[Work | None]) -> None:
    try:
        found = next(work, None)
    except BaseException as error:  # noqa: BLE001  whatever it is, it is raised where it is waited for
        reading.set_exception(error)
    else:
        reading.set_result(found)


def _told(
    work: Iterator[Work | None], tell: _Tell, look: int
) -> Iterator[tuple[Chunk, Mapping[Group, str]] | None]:
    """Chunks, each with what is known of its groups' languages by then, whoever tells it and when.

    look: chunks that are read ahead, so that nobody has to wait for a language. None where none comes: then
    nothing waits, and None is handed on.
    """
    known: Languages = {}
    waiting: deque[tuple[Chunk, Callable[[], Languages] | None]] = deque()
    for found in itertools.chain(work, (None,)):
        if found is not None:
            waiting.append((found[0], tell(found[0], known) if found[1] else None))
        while waiting and (found is None or len(waiting) > look):
            chunk, telling = waiting.popleft()
            if telling is not None:
                known = {**telling(), **known}
            yield chunk, known
        if found is None:
            yield None


def _chained(first: deque[Work | None], ahead: Iterator[Work | None]) -> Iterator[Work | None]:
    """All of them, none held longer than it must be."""
    while first:
        yield first.popleft()
    yield from ahead


def _context(workers: int) -> multiprocessing.context.BaseContext:
    """Workers come from a clean process: forking this one would copy its threads' locks."""
    if workers < SHARING or "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_PRELOAD])
    return context


def trim() -> None:
    """Give freed memory back to the system, where the C library can."""
    with contextlib.suppress(OSError, TypeError):
        give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if give_back is not None:
            give_back(0)


@contextlib.contextmanager
def _starting() -> Iterator[None]:
    """Around whatever may start processes. Ctrl-C goes to every process of the terminal, and only this one
    answers it: what is started here inherits that it does not hear it, and this one hears it a moment later.
    The main module, which is the whole command line, is not loaded again in every worker.
    """
    before = None
    if hasattr(signal, "pthread_sigmask"):
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _judge(chunk: Chunk, job: Job, languages: Mapping[Group, str]) -> Batch:
    """In a worker: what judging needed for a moment does not stay with it."""
    batch = judge_chunk(chunk, job, languages)
    if next(_judged) % _TRIMMED == 0:
        trim()
    return batch


def _ready() -> None:
    """Where nothing is inherited, Ctrl-C is left to the parent here. Models are loaded now."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_the_parent, daemon=True).start()
    importlib.import_module(_PRELOAD)


def _leave_with_the_parent() -> None:
    """A parent that is killed ends no worker: each would wait for work, with its models, for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
