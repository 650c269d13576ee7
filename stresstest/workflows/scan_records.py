"""Recorded answers with the verdicts on them, side by side: what reads a log for more than its rates."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from stresstest import records
from stresstest.errors import UsageError
from stresstest.model.scanned import Judged
from stresstest.records import Chunk, Record
from stresstest.workflows.scan import Listener, work
from stresstest.workflows.scan_judge import Job, readable
from stresstest.workflows.scan_pool import Work, judged, workers_by_default
from stresstest.workflows.scan_scale import require_tokenizer


def judged_records(
    files: Sequence[str], job: Job, listener: Listener, *, strict: bool = False, workers: int | None = None
) -> Iterator[tuple[Record, Judged]]:
    """Every answer of the files in order, judged as `scan` judges it. Damaged lines go to the listener.

    Raises UsageError for files or options that cannot be used and, with `strict`, for the first damaged line.
    """
    records.check(list(files))
    if job.tokenizer:
        require_tokenizer(job.tokenizer)
    kept: deque[Chunk] = deque()
    requests = degenerate = finished = done = 0
    source = ""
    for batch in judged(_keeping(files, job, kept), job, workers or workers_by_default()):
        for damaged in batch.damaged:
            if strict and not damaged.textless:
                raise UsageError(f"{damaged} (--strict)")
            listener.damaged(damaged)
        for pair in zip(readable(kept.popleft(), job, []), batch.judged, strict=True):
            requests += 1
            degenerate += pair[1].degenerate
            yield pair
        if batch.source != source:
            finished, source = finished + done, batch.source
        done = batch.done
        listener.advanced(finished + done, requests, degenerate)


def _keeping(files: Sequence[str], job: Job, kept: deque[Chunk]) -> Iterator[Work]:
    """Chunks as `scan` hands them out; each is kept until its verdicts come back."""
    for chunk, head in work(files, job):
        kept.append(chunk)
        yield chunk, head
