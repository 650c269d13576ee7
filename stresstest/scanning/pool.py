"""Chunks to verdicts on all cores, in input order, with a bounded number of chunks in memory.

Slow input, such as a pipe, is judged as it arrives. With several workers the parent only reads and counts,
and loads no language models.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import itertools
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from itertools import islice
from types import ModuleType
from typing import Any, TypeVar

from stresstest.detectors.entry import DetectorEntry
from stresstest.detectors.registry import added_entries, register
from stresstest.errors import StresstestError
from stresstest.own_process import safe_path
from stresstest.records import RecordChunk
from stresstest.scanning.answer.languages import infer_languages
from stresstest.scanning.detect_chunk import ChunkVerdicts, ParsedChunk, detect_chunk, parse_chunk
from stresstest.scanning.interrupts import hold_interrupts, is_done, result_of
from stresstest.scanning.job import GroupKey, GroupLanguages, ScanJob

MAX_SERIAL_CHUNKS = 1
"""Inputs of at most this number of chunks are judged here: starting processes would take longer."""
MAX_BYTES_IN_FLIGHT = 32 << 20
"""Bytes of JSON at the workers beyond which nothing is submitted before some are done: lines with many
logprobs make chunks of tens of megabytes, which take ten times as much in memory."""

MIN_SHARED_WORKERS = 3
"""Workers from which on a process that holds the models for all of them is worth its own memory."""
_PRELOAD = "stresstest.scanning.preload"
_TRIM_INTERVAL = 8
"""Chunks after which a worker returns freed memory, in a millisecond or two."""
_HEAVY = 4 << 20
"""Bytes of a chunk after which it does so at once."""
_chunk_counter = itertools.count(1)
_IDLE_S = 0.5
"""Seconds without a chunk after which the input counts as slow, and chunks read ahead are no longer held."""

_LAST_S = 1.0
"""Seconds that ended workers are waited for."""

T = TypeVar("T")
ChunkWork = tuple[RecordChunk, bool]
"""A chunk, and whether its groups' languages are to be inferred from it."""
_Running = deque[tuple[int, Future[ChunkVerdicts]]]
"""Submitted work in order, each with its weight in bytes."""


@dataclass(frozen=True, slots=True)
class _PackedChunk:
    """A pickled `ParsedChunk` from the worker that parsed it, for the one that judges it. size: bytes of its
    lines, about."""

    pickled: bytes
    size: int


_Readable = RecordChunk | ParsedChunk | _PackedChunk
_LanguageResolver = Callable[
    [RecordChunk, Collection[GroupKey]], Callable[[], tuple[GroupLanguages, _Readable]]
]
"""Infers the languages of a chunk's groups and returns them with the chunk, parsed."""


def default_workers() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def detect_chunks(work: Iterable[ChunkWork], job: ScanJob, workers: int) -> Iterator[ChunkVerdicts]:
    """The verdicts in order. Raises StresstestError when a worker dies (out of memory, killed).

    Ctrl-C is raised again after the verdicts that were complete by then.
    """
    running: _Running = deque()
    ahead = _next_work_or_idle(iter(work), running) if workers > 1 else iter(work)
    # A file that is slow to open is not slow to read: what counts is a wait after the first chunk.
    begun = itertools.dropwhile(lambda found: found is None, ahead)
    first = deque(islice(begun, MAX_SERIAL_CHUNKS + 1))
    if workers > 1 and len(first) > MAX_SERIAL_CHUNKS:
        yield from _parallel(_merge_iterators(first, ahead), running, job, workers)
        return
    for told in _with_languages(
        _merge_iterators(first, ahead), lambda chunk, known: partial(_parse_and_infer, chunk, job, known), 0
    ):
        if told is not None:
            yield _detect(told[0], job, told[1])


def _parse_and_infer(
    chunk: RecordChunk, job: ScanJob, known: Collection[GroupKey]
) -> tuple[GroupLanguages, ParsedChunk]:
    parsed = parse_chunk(chunk, job)
    return infer_languages(parsed.records, job, known), parsed


def _detect(chunk: _Readable, job: ScanJob, languages: Mapping[GroupKey, str]) -> ChunkVerdicts:
    return detect_chunk(
        pickle.loads(chunk.pickled) if isinstance(chunk, _PackedChunk) else chunk, job, languages
    )


def _parallel(
    work: Iterator[ChunkWork | None], running: _Running, job: ScanJob, workers: int
) -> Iterator[ChunkVerdicts]:
    with safe_path():
        pool = ProcessPoolExecutor(
            workers, mp_context=_context(workers), initializer=_init_worker, initargs=(added_entries(),)
        )
    weight = 0
    at_work: list[tuple[int, Future[Any]]] = []

    def submit(size: int, work: Callable[..., T], *given: object) -> Future[T]:
        at_work[:] = [each for each in at_work if not each[1].done()]
        while at_work and size + sum(each for each, _ in at_work) > MAX_BYTES_IN_FLIGHT:
            result_of(at_work.pop(0)[1])
        with _signals_blocked(), safe_path():
            future = pool.submit(work, *given)
        at_work.append((size, future))
        return future

    def tell(
        chunk: RecordChunk, known: Collection[GroupKey]
    ) -> Callable[[], tuple[GroupLanguages, _Readable]]:
        return partial(result_of, submit(chunk.size, _worker_infer, chunk, job, frozenset(known)))

    try:
        for told in _with_languages(work, tell, workers - 1):
            if told is not None:
                size = told[0].size
                weight += size
                running.append((size, submit(size, _worker_detect, *told, job)))
            del told
            while running and (
                len(running) >= 2 * workers or weight > MAX_BYTES_IN_FLIGHT or is_done(running[0][1])
            ):
                batch = result_of(running[0][1])
                weight -= running.popleft()[0]
                yield batch
        while running:
            batch = result_of(running[0][1])
            running.popleft()
            yield batch
        pool.shutdown()  # and their memory with them, before the groups' samples are unpacked
    except KeyboardInterrupt:
        while running and is_done(running[0][1]):
            yield result_of(running.popleft()[1])
        raise
    except BrokenProcessPool:
        raise StresstestError(
            "A worker process was killed, perhaps for lack of memory.",
            hint="Try again with fewer: --workers 1",
        ) from None
    finally:
        _stop_workers(pool)


def _stop_workers(pool: ProcessPoolExecutor) -> None:
    """End what workers there still are at once. They ignore Ctrl-C, and a process that exits waits for what
    they are at. The pool's thread gives its semaphores back; Python warns of those that nobody did."""
    processes = list((pool._processes or {}).values())
    thread: Any = pool._executor_manager_thread
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
    if thread is not None:
        thread.join(_LAST_S)


def _next_work_or_idle(work: Iterator[ChunkWork], running: _Running) -> Iterator[ChunkWork | None]:
    """The work, and None while none arrives: whenever the oldest of `running` is done, at least.

    A pipe may be silent for hours, so it is read in a thread, never further ahead than needed.
    """
    while True:
        reading: Future[ChunkWork | None] = Future()
        threading.Thread(target=_read_ahead, args=(work, reading), daemon=True).start()
        while not reading.done():
            is_done(reading, *(batch for _, batch in islice(running, 1)), within_s=_IDLE_S)
            if not reading.done():
                yield None
        if reading.result() is None:
            return
        found = [reading.result()]
        del reading
        yield found.pop()  # not held here while the next is read


def _read_ahead(work: Iterator[ChunkWork], reading: Future[ChunkWork | None]) -> None:
    try:
        found = next(work, None)
    except BaseException as error:  # noqa: BLE001  whatever it is, it is raised where it is waited for
        reading.set_exception(error)
    else:
        reading.set_result(found)


def _with_languages(
    work: Iterator[ChunkWork | None], tell: _LanguageResolver, look: int
) -> Iterator[tuple[_Readable, Mapping[GroupKey, str]] | None]:
    """Chunks, each with the languages of its groups known by then.

    look: chunks read ahead, so that inference causes no wait. None while none arrives: held chunks are then
    passed on.
    """
    known: GroupLanguages = {}
    waiting: deque[tuple[_Readable, Callable[[], tuple[GroupLanguages, _Readable]] | None]] = deque()
    for found in itertools.chain(work, (None,)):
        if found is not None:
            waiting.append((found[0], tell(found[0], known) if found[1] else None))
        while waiting and (found is None or len(waiting) > look):
            chunk, telling = waiting.popleft()
            if telling is not None:
                found_here, chunk = telling()
                known = {**found_here, **known}
            yield chunk, known
        if found is None:
            yield None


def _merge_iterators(
    first: deque[ChunkWork | None], ahead: Iterator[ChunkWork | None]
) -> Iterator[ChunkWork | None]:
    """Both in order, releasing each item as soon as possible."""
    while first:
        yield first.popleft()
    yield from ahead


def _context(workers: int) -> multiprocessing.context.BaseContext:
    """Workers are spawned or come from a clean fork server: forking this process would copy its threads'
    locks."""
    if workers < MIN_SHARED_WORKERS or "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_PRELOAD])
    return context


def release_memory() -> None:
    """Return freed memory to the system, where the C library supports it."""
    with contextlib.suppress(OSError, TypeError):
        give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if give_back is not None:
            give_back(0)


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Around whatever may start processes. The terminal sends Ctrl-C to every process, and only this one
    handles it: children inherit the blocked signal, and this process receives it a moment later, even if
    another of its threads was sent it. The main module, which is the whole command line, is not loaded again
    in every worker."""
    before = None
    if hasattr(signal, "pthread_sigmask"):
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        with hold_interrupts():
            yield
    finally:
        sys.modules["__main__"] = main
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _worker_infer(
    chunk: RecordChunk, job: ScanJob, known: Collection[GroupKey]
) -> tuple[GroupLanguages, _PackedChunk]:
    languages, parsed = _parse_and_infer(chunk, job, known)
    packed = _PackedChunk(pickle.dumps(parsed, pickle.HIGHEST_PROTOCOL), chunk.size)
    del parsed
    _trim_after(chunk.size)
    return languages, packed


def _worker_detect(chunk: _Readable, languages: Mapping[GroupKey, str], job: ScanJob) -> ChunkVerdicts:
    batch = _detect(chunk, job, languages)
    _trim_after(chunk.size)
    return batch


def _trim_after(size: int) -> None:
    if size > _HEAVY or next(_chunk_counter) % _TRIM_INTERVAL == 0:
        release_memory()


def _init_worker(detectors: Sequence[DetectorEntry]) -> None:
    """Prepare a worker: ignore Ctrl-C where blocking is not inherited, and load the models.

    detectors: those that the parent has registered beside the shipped ones.
    """
    for entry in detectors:
        register(entry)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    importlib.import_module(_PRELOAD)


def _exit_with_parent() -> None:
    """End with a killed parent; a worker would otherwise wait for work, with its models, for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
