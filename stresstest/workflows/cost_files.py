"""`cost FILES…`: what loops cost, modelled from logs that have start, end and token counts. Sends nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from stresstest.economics.account import Prices
from stresstest.economics.fit import fit_engine
from stresstest.economics.logged import logged_cost
from stresstest.errors import UsageError
from stresstest.model.cost import LOOP_SYMPTOMS, Cost, Span
from stresstest.model.scanned import Judged
from stresstest.records import Damaged, Record
from stresstest.records.finish import LENGTH, LOST, ending
from stresstest.workflows.scan import Listener
from stresstest.workflows.scan_judge import Job
from stresstest.workflows.scan_records import judged_records


@dataclass(frozen=True, slots=True)
class FilesSettings:
    """What was asked for. max_num_seqs, kv_cache_tokens: the server's sizes, where they are known."""

    files: tuple[str, ...]
    job: Job = field(default_factory=Job)
    prices: Prices = field(default_factory=Prices)
    max_num_seqs: int | None = None
    kv_cache_tokens: int | None = None
    strict: bool = False
    workers: int | None = None


@dataclass(frozen=True, slots=True)
class FileSpans:
    """Requests of logs in the order of their sending. timeless: answers without times or token counts;
    textless: answers without text, that nobody can judge; damaged: lines that hold no answer at all."""

    spans: tuple[Span, ...]
    timeless: int = 0
    textless: int = 0
    damaged: int = 0


def cost_of_files(settings: FilesSettings, listener: Listener) -> Cost:
    """The modelled account of the requests in some logs. Raises UsageError for what cannot be used."""
    found = spans_of_files(settings, listener)
    if not found.spans:
        raise UsageError(
            f"No answer in these files has a start, an end and a token count ({found.timeless} without).",
            hint="Map your own layout: --field start=path --field end=path --field completion_tokens=path",
        )
    kv = settings.kv_cache_tokens
    fitted = fit_engine(found.spans, max_num_seqs=settings.max_num_seqs, kv_cache_tokens=kv)
    cost = logged_cost(found.spans, fitted, settings.prices)
    return replace(cost, source=", ".join(settings.files), notes=(*cost.notes, *_notes(found)))


def spans_of_files(settings: FilesSettings, listener: Listener) -> FileSpans:
    """Every request of the files that has times and counts, judged by scan's detectors."""
    job = replace(settings.job, mapped=replace(settings.job.mapped, textless=True))
    counting = _Counting(listener)
    spans: list[Span] = []
    timeless = 0
    for record, verdict in judged_records(
        settings.files, job, counting, strict=settings.strict, workers=settings.workers
    ):
        span = span_of(record, verdict)
        if span is None:
            timeless += 1
        else:
            spans.append(span)
    textless = sum(span.degenerate is None for span in spans)
    ordered = tuple(sorted(spans, key=lambda span: span.submitted))
    return FileSpans(ordered, timeless, textless, counting.lost)


class _Counting:
    """Passes on what is told, and counts the damaged lines."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.lost = 0

    def advanced(self, done: int, requests: int, degenerate: int) -> None:
        self._listener.advanced(done, requests, degenerate)

    def damaged(self, damaged: Damaged) -> None:
        self.lost += 1
        self._listener.damaged(damaged)


def span_of(record: Record, verdict: Judged) -> Span | None:
    """One recorded answer as the economics see it; None without start, end or a number of tokens."""
    extent = verdict.tokens
    length = record.completion_tokens
    if length is None and extent is not None:
        length = extent.length
    if record.start is None or record.end is None or length is None or record.end < record.start:
        return None
    end = ending(record.finish_reason)
    capped = verdict.capped if record.has_text else end == LENGTH
    onset = extent.onset if extent is not None else None
    return Span(
        id=record.id,
        submitted=record.start,
        end=record.end,
        output_tokens=length,
        first_token=record.first_token,
        prompt_tokens=record.prompt_tokens,
        max_tokens=record.max_tokens,
        degenerate=verdict.degenerate if record.has_text else None,
        loops=verdict.symptom in LOOP_SYMPTOMS,
        onset=min(onset, length) if onset is not None and length else None,
        onset_at=None if onset is None else _moment(record, onset, length),
        dharma=verdict.capped and verdict.tail_repeats if record.has_text else None,
        capped=bool(capped),
        failure=f"the service ended it ({end})" if end in LOST else None,
    )


def _moment(record: Record, token: int, length: int) -> float:
    """When a token came, at an even pace from the first token (or the start) to the end."""
    assert record.start is not None
    assert record.end is not None
    first = record.start if record.first_token is None else record.first_token
    return first + (record.end - first) * min(1.0, token / max(length, 1))


def _notes(found: FileSpans) -> tuple[str, ...]:
    notes = []
    if found.textless:
        notes.append(
            f"{found.textless} requests have no text: whether they degenerated is not measured, and they "
            "count as neither healthy nor degenerate."
        )
    if found.timeless:
        notes.append(f"{found.timeless} answers have no times or no number of tokens and are left out.")
    if found.damaged:
        notes.append(f"{found.damaged} lines hold no answer.")
    return tuple(notes)
