"""`scan`: outputs that already exist to degeneration rates and limits, without sending one request."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import RawIOBase
from pathlib import Path
from typing import Protocol

from stresstest import records
from stresstest.errors import UsageError
from stresstest.model import RIGORS
from stresstest.model.scanned import GroupResult, Judged, ScanResult
from stresstest.records import Damaged
from stresstest.threshold import withdrawn
from stresstest.workflows.scan_judge import Batch, Job
from stresstest.workflows.scan_pool import Work, judged, workers_by_default
from stresstest.workflows.scan_scale import require_tokenizer
from stresstest.workflows.scan_tally import Tallies

NAMED = 5
"""Damaged lines that are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class ScanSettings:
    """What was asked for. out: a file for every verdict. show: how many of the worst to keep."""

    files: tuple[str, ...]
    job: Job = field(default_factory=Job)
    rigor: str = "standard"
    margin: float = 0.10
    out: str | None = None
    show: int = 0
    strict: bool = False
    workers: int | None = None


class Listener(Protocol):
    """Who watches. done: bytes of all files judged so far, as stored."""

    def advanced(self, done: int, requests: int, degenerate: int) -> None: ...

    def damaged(self, damaged: Damaged) -> None: ...


class ScanListener(Listener, Protocol):
    """Who watches a scan, which may write a file."""

    def unwritten(self, why: str) -> None: ...


def scan(settings: ScanSettings, listener: ScanListener) -> ScanResult:
    """Judge every answer of the files. Ctrl-C keeps what was judged so far, a full disk stops only `out`.

    Raises UsageError for files, options or (with `strict`) lines that cannot be used.
    """
    records.check(list(settings.files))
    if settings.job.tokenizer:
        require_tokenizer(settings.job.tokenizer)
    began = time.monotonic()
    state = _State(Tallies(settings.job.keys, settings.show), settings.strict, listener)
    workers = settings.workers or workers_by_default()
    interrupted = False
    with _verdicts(settings, listener) as out:
        batches = judged(work(settings.files, settings.job), settings.job, workers)
        try:
            for batch in batches:
                state.take(batch, out)
        except KeyboardInterrupt:
            interrupted = True
    by_length = settings.job.by_length is not None
    groups = state.tallies.results(RIGORS[settings.rigor], settings.margin, by_length=by_length)
    return ScanResult(
        requests=state.tallies.requests,
        damaged=state.damaged,
        groups=tuple(_unfinished(group) for group in groups) if interrupted else groups,
        group_by=settings.job.keys,
        damaged_examples=tuple(state.named),
        worst=state.tallies.worst,
        text_bytes=state.text_bytes,
        seconds=time.monotonic() - began,
        interrupted=interrupted,
        notes=_without_lengths(settings.job.by_length, groups),
        unwritten=None if out is None else out.unwritten,
        textless=state.textless,
    )


def _without_lengths(key: str | None, groups: Sequence[GroupResult]) -> tuple[str, ...]:
    if key is None or not groups or any(group.by_length is not None for group in groups):
        return ()
    return (f"--by-length {key}: no group has answers of two requested lengths, so nothing can be compared.",)


def _unfinished(group: GroupResult) -> GroupResult:
    """The beginning of a file is no fair part of it: rates are told as far as they go, limits are not."""
    why = "the scan was interrupted, and what was read first is no random part of the files"
    threshold = withdrawn(group.threshold, why)
    return replace(group, threshold=threshold, safe_max_tokens=None, healthy_cut=None)


class _State:
    """What the batches add up to."""

    def __init__(self, tallies: Tallies, strict: bool, listener: Listener) -> None:
        self.tallies = tallies
        self.damaged = 0
        self.textless = 0
        self.named: list[str] = []
        self.text_bytes = 0
        self._degenerate = 0
        self._strict = strict
        self._listener = listener
        self._finished = 0
        self._source = ""
        self._done = 0

    def take(self, batch: Batch, out: _Verdicts | None) -> None:
        for damaged in batch.damaged:
            self._lose(damaged)
        for each in batch.judged:
            self.tallies.add(each)
            self._degenerate += each.degenerate
        if out is not None and out.unwritten is None:
            out.write(b"".join(verdict_line(each) for each in batch.judged))
        self.text_bytes += batch.text_bytes
        if batch.source != self._source:
            self._finished, self._source = self._finished + self._done, batch.source
        self._done = batch.done
        self._listener.advanced(self._finished + self._done, self.tallies.requests, self._degenerate)

    def _lose(self, damaged: Damaged) -> None:
        if damaged.textless:
            self.textless += 1
            return
        if self._strict:
            raise UsageError(f"{damaged} (--strict)")
        self.damaged += 1
        if len(self.named) < NAMED:
            self.named.append(str(damaged))
            self._listener.damaged(damaged)


def verdict_line(judged: Judged) -> bytes:
    """A line of ``--out``: the contract's keys in its order."""
    import msgspec

    onset = judged.tokens.onset if judged.tokens is not None else None
    document = {
        "id": judged.id,
        "degenerate": judged.degenerate,
        "symptom": judged.symptom,
        "onset_char": judged.onset_char,
        "onset_token": onset,
        "alarm_char": judged.alarm_char,
        "loops_to_end": judged.loops_to_end,
        "recovered": judged.recovered,
        "score": judged.score,
    }
    return msgspec.json.encode(document) + b"\n"


class _Verdicts:
    """The file of ``--out``. A disk that is full ends the file, not the scan."""

    def __init__(self, name: str, file: RawIOBase, listener: ScanListener) -> None:
        self.unwritten: str | None = None
        self._name = name
        self._file = file
        self._listener = listener

    def write(self, lines: bytes) -> None:
        try:
            while lines:
                lines = lines[self._file.write(lines) or 0 :]
        except OSError as error:
            self._lose(error)

    def close(self) -> None:
        try:
            self._file.close()
        except OSError as error:
            self._lose(error)

    def _lose(self, error: OSError) -> None:
        if self.unwritten is None:
            self.unwritten = _cannot(self._name, error)
            self._listener.unwritten(self.unwritten)


@contextlib.contextmanager
def _verdicts(settings: ScanSettings, listener: ScanListener) -> Iterator[_Verdicts | None]:
    """Who writes verdicts. Raises UsageError where the file cannot be opened, before anything is judged."""
    if settings.out is None:
        yield None
        return
    if settings.out == "-":
        raise UsageError(
            "--out - would mix the verdicts with what is told on stdout.",
            hint="Name a file: --out verdicts.jsonl",
        )
    target = Path(settings.out)
    if any(name != "-" and target.exists() and target.samefile(name) for name in settings.files):
        raise UsageError(f"--out {settings.out} is one of the files to scan.")
    try:
        file = target.open("wb", buffering=0)
    except OSError as error:
        raise UsageError(_cannot(settings.out, error)) from None
    with contextlib.closing(_Verdicts(settings.out, file, listener)) as out:
        yield out


def _cannot(name: str, error: OSError) -> str:
    return f"--out {name} cannot be written: {error.strerror or error}."


def work(files: Iterable[str], job: Job) -> Iterator[Work]:
    """Chunks of all files in order. A group's language is told from the first chunk of each file, so that it
    does not depend on how many workers there are."""
    for name in files:
        for n, chunk in enumerate(records.chunks(name)):
            yield chunk, n == 0 and job.language is None
