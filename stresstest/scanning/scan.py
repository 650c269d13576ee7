"""`scan`: outputs that already exist to degeneration rates and limits, without sending one request."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import RawIOBase
from pathlib import Path
from typing import Protocol, TypeVar

from stresstest import records
from stresstest.errors import UsageError
from stresstest.model import RIGORS
from stresstest.model.scanned import GroupResult, ScanResult, ScanVerdict
from stresstest.output_file import refuse_inputs, refuse_overwriting
from stresstest.records import Record
from stresstest.records.input_file import label
from stresstest.scanning.detect_chunk import ChunkVerdicts
from stresstest.scanning.interrupts import hold_interrupts
from stresstest.scanning.job import ScanJob
from stresstest.scanning.outcome_keys import outcome_key
from stresstest.scanning.pool import ChunkWork, default_workers, detect_chunks
from stresstest.scanning.position_scale import require_tokenizer
from stresstest.scanning.scan_state import BytesDone, RecordProgress, ScanState
from stresstest.scanning.text_lengths import TextLengths, cut_notes
from stresstest.scanning.verdict_row import VERDICT_COLUMNS, verdict_row
from stresstest.statistics import without_certificate
from stresstest.statistics.certify import rate_interval
from stresstest.table_file import TableEncoder, table_encoder

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ScanSettings:
    """What was asked for. out: a file for every verdict. show: how many of the worst to keep."""

    files: tuple[str, ...]
    job: ScanJob = field(default_factory=ScanJob)
    rigor: str = "standard"
    margin: float = 0.10
    out: str | None = None
    show: int = 0
    strict: bool = False
    workers: int | None = None


class ScanProgress(RecordProgress, Protocol):
    """Who watches a scan, which may write a file."""

    def unwritten(self, why: str) -> None: ...


def scan(settings: ScanSettings, listener: ScanProgress) -> ScanResult:
    """Judge every answer of the files. Ctrl-C keeps what was judged so far, a full disk stops only `out`.

    Raises UsageError for files, options or (with `strict`) lines that cannot be used.
    """
    batches = _detect_files(settings.files, settings.job, settings.workers)
    began = time.monotonic()
    state = ScanState(settings.job.keys, settings.show, strict=settings.strict, listener=listener)
    interrupted = False
    with _open_verdict_file(settings, listener) as out:
        try:
            for batch in batches:
                with hold_interrupts():
                    state.add_batch(batch)
                    if out is not None:
                        out.add(batch)
        except KeyboardInterrupt:
            interrupted = True
    result = conclude(state, settings, interrupted=interrupted, seconds=time.monotonic() - began)
    return replace(result, unwritten=None if out is None else out.unwritten)


def conclude(state: ScanState, settings: ScanSettings, *, interrupted: bool, seconds: float) -> ScanResult:
    """Rates and limits of what was judged. interrupted: it is not everything."""
    by_length = settings.job.by_length
    groups = state.tallies.results(
        RIGORS[settings.rigor], settings.margin, by_length=by_length is not None, damaged=state.damaged
    )
    limits = state.texts.lengths.limits()
    if limits:
        groups = tuple(_with_unseen(group, limits) for group in groups)
    if outcome := outcome_key(settings.job.keys, settings.job.mapped):
        why = f"grouping by {outcome} separates the answers that failed from those that did not"
        groups = tuple(_without_limit(group, why) for group in groups)
    return ScanResult(
        requests=state.tallies.requests,
        damaged=state.damaged,
        groups=tuple(_mark_unfinished(group) for group in groups) if interrupted else groups,
        group_by=settings.job.keys,
        damaged_examples=tuple(str(line) for line in state.named),
        worst=state.tallies.worst,
        text_bytes=state.text_bytes,
        seconds=seconds,
        interrupted=interrupted,
        notes=(
            *cut_notes(limits),
            *_without_lengths(by_length, groups),
            *([] if interrupted else _silent_files(state, settings)),
        ),
        malformed=state.malformed,
        textless=state.textless,
        unread=state.unread,
        read_from=dict(state.texts.places.most_common()),
        not_judged=dict(state.texts.unjudged.most_common()),
        looked_at=state.texts.looked_at,
        left_out=state.texts.left_out,
    )


def _silent_files(state: ScanState, settings: ScanSettings) -> list[str]:
    """That of several files some held nothing, as where a job died before its first answer."""
    shown = ("stdin" if name == "-" else label(name) for name in settings.files)
    silent = [name for name in shown if name not in state.sources]
    if not silent or len(settings.files) == len(silent):
        return []
    more = f" and {len(silent) - 1} more files" if len(silent) > 1 else ""
    return [f"There is no answer at all in {silent[0]}{more}."]


def extract_with_verdicts(
    files: Sequence[str],
    job: ScanJob,
    extract: Callable[[Record, ScanVerdict], _T],
    listener: RecordProgress,
    *,
    strict: bool = False,
    workers: int | None = None,
) -> Iterator[_T]:
    """What `extract` makes of every answer of the files, in order, judged as `scan` judges it.

    extract: a function that can be pickled; it is called in the workers. Damaged lines go to the listener,
    and at the end that the log has cut its texts.
    Raises UsageError for files or options that cannot be used and, with `strict`, for the first damaged line.
    """
    requests = degenerate = 0
    done = BytesDone()
    lengths = TextLengths()
    for batch in _detect_files(files, replace(job, extract=extract), workers):
        for damaged in batch.damaged:
            if strict and not damaged.textless:
                raise UsageError(f"{damaged} (--strict)")
            listener.damaged(damaged)
        requests += len(batch.judged)
        degenerate += sum(verdict.degenerate for verdict in batch.judged)
        lengths.merge(batch.texts.lengths)
        yield from batch.extracted
        listener.advanced(done.after(batch), requests, degenerate)
    for note in cut_notes(lengths.limits()):
        listener.noticed(note)


def _detect_files(files: Sequence[str], job: ScanJob, workers: int | None) -> Iterator[ChunkVerdicts]:
    """The verdicts of all files in order. Raises UsageError at once for what cannot be read."""
    records.check_files(list(files))
    if job.tokenizer:
        require_tokenizer(job.tokenizer)
    return detect_chunks(read_chunks(files, job), job, workers or default_workers())


def _without_lengths(key: str | None, groups: Sequence[GroupResult]) -> tuple[str, ...]:
    if key is None or not groups or any(group.by_length is not None for group in groups):
        return ()
    return (f"--by-length {key}: no group has answers of two requested lengths, so nothing can be compared.",)


def _with_unseen(group: GroupResult, limits: Mapping[int, int]) -> GroupResult:
    """The group, with as many answers that were not seen whole as end where the log cuts, of whatever group:
    that shows only once all lengths are known."""
    more = min(sum(limits.values()), group.requests - group.degenerate - group.in_doubt)
    if not more:
        return group
    group = _without_limit(group, "the log cuts its texts at one length")
    unseen = group.unseen + more
    interval = rate_interval(group.degenerate, unseen, group.requests, group.effective_share)
    return replace(group, unseen=unseen, in_doubt=group.in_doubt + more, rate_ci=interval)


def _mark_unfinished(group: GroupResult) -> GroupResult:
    """The beginning of a file is no fair part of it: rates are reported as far as they go, limits are not."""
    why = "the scan was interrupted, and the part read first is not representative of the files"
    return _without_limit(group, why)


def _without_limit(group: GroupResult, why: str) -> GroupResult:
    threshold = without_certificate(group.threshold, why)
    return replace(group, threshold=threshold, safe_max_tokens=None, healthy_cut=None)


class _VerdictFile:
    """The file of ``--out``. A disk that is full ends the file, not the scan."""

    def __init__(self, name: str, file: RawIOBase, encoder: TableEncoder, listener: ScanProgress) -> None:
        self.unwritten: str | None = None
        self._name = name
        self._file = file
        self._encoder = encoder
        self._listener = listener

    def add(self, batch: ChunkVerdicts) -> None:
        """Write a batch's verdicts, unless writing has failed before."""
        if self.unwritten is None:
            self._write(self._encoder.encode([verdict_row(each) for each in batch.judged]))

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[self._file.write(data) or 0 :]
        except OSError as error:
            self._give_up(error)

    def close(self) -> None:
        if self.unwritten is None:
            self._write(self._encoder.end())
        try:
            self._file.close()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        if self.unwritten is None:
            self.unwritten = _write_error(self._name, error)
            self._listener.unwritten(self.unwritten)


@contextlib.contextmanager
def _open_verdict_file(settings: ScanSettings, listener: ScanProgress) -> Iterator[_VerdictFile | None]:
    """Who writes verdicts. Raises UsageError where the file cannot be opened, before anything is judged."""
    if settings.out is None:
        yield None
        return
    if settings.out == "-":
        raise UsageError(
            "--out - would mix the verdicts with the results on stdout.",
            hint="Name a file: --out verdicts.jsonl",
        )
    target = Path(settings.out)
    refuse_inputs([target], [*settings.files, settings.job.tokenizer])
    refuse_overwriting(target)
    encoder = table_encoder(settings.out, VERDICT_COLUMNS)
    try:
        file = target.open("wb", buffering=0)
    except OSError as error:
        raise UsageError(_write_error(settings.out, error)) from None
    with contextlib.closing(_VerdictFile(settings.out, file, encoder, listener)) as out:
        yield out


def _write_error(name: str, error: OSError) -> str:
    return f"--out {name} cannot be written: {error.strerror or error}."


def read_chunks(files: Iterable[str], job: ScanJob) -> Iterator[ChunkWork]:
    """Chunks of all files in order. A group's language is inferred from the first chunk of each file, so that
    it does not depend on how many workers there are."""
    for name in files:
        for n, chunk in enumerate(records.read_chunks(name)):
            yield chunk, n == 0 and job.language is None
