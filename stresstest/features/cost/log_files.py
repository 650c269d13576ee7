"""`cost FILES…`: the cost of loops, modelled from logs with start, end and token counts. Sends nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from stresstest.economics.account import Prices
from stresstest.economics.fit import fit_engine
from stresstest.economics.logged import logged_cost
from stresstest.errors import InconclusiveError, UsageError
from stresstest.features.cost.record_span import named_span
from stresstest.model.cost import Cost, RequestSpan
from stresstest.records import DamagedLine
from stresstest.scanning.job import ScanJob
from stresstest.scanning.scan import extract_with_verdicts
from stresstest.scanning.scan_state import RecordProgress


@dataclass(frozen=True, slots=True)
class LogCostSettings:
    """The files, how to read them, and the prices."""

    files: tuple[str, ...]
    job: ScanJob = field(default_factory=ScanJob)
    prices: Prices = field(default_factory=Prices)
    strict: bool = False
    workers: int | None = None


@dataclass(frozen=True, slots=True)
class LogSpans:
    """The requests of logs in the order they were sent.

    timeless: answers without times or token counts. textless: answers without text, or not all of it, whose
    degeneration is unknown. damaged: lines without an answer. copies: requests that are in the logs again.
    notes: what all of them together show.
    """

    spans: tuple[RequestSpan, ...]
    timeless: int = 0
    textless: int = 0
    damaged: int = 0
    copies: int = 0
    notes: tuple[str, ...] = ()


def cost_from_files(settings: LogCostSettings, listener: RecordProgress) -> Cost:
    """The modelled account of the logged requests.

    Raises UsageError if no request can be used, InconclusiveError if the files hold no answer at all.
    """
    found = read_spans(settings, listener)
    if not found.spans and not found.timeless:
        raise InconclusiveError(f"{', '.join(settings.files)} contain no answer.")
    if not found.spans:
        raise UsageError(
            f"No answer in these files has a start, an end and a token count ({found.timeless} without).",
            hint="Map your own layout: --field start=path --field end=path --field completion_tokens=path",
        )
    cost = logged_cost(found.spans, fit_engine(found.spans), settings.prices)
    return replace(cost, source=", ".join(settings.files), notes=(*cost.notes, *_notes(found)))


def read_spans(settings: LogCostSettings, listener: RecordProgress) -> LogSpans:
    """The requests that have times and token counts, with the verdicts of the detectors."""
    job = replace(settings.job, mapped=replace(settings.job.mapped, textless=True))
    heard = _Listener(listener)
    once: dict[int, RequestSpan] = {}
    timeless = copies = 0
    for found in extract_with_verdicts(
        settings.files, job, named_span, heard, strict=settings.strict, workers=settings.workers
    ):
        if found is None:
            timeless += 1
        else:
            span, name = found
            copies += hash(name) in once
            once.setdefault(hash(name), span)
    textless = sum(span.degenerate is None for span in once.values())
    ordered = tuple(sorted(once.values(), key=lambda span: span.submitted))
    return LogSpans(ordered, timeless, textless, heard.lost, copies, tuple(heard.notes))


class _Listener:
    """Forwards progress to another listener, counts the damaged lines and keeps the notes."""

    def __init__(self, listener: RecordProgress) -> None:
        self._listener = listener
        self.lost = 0
        self.notes: list[str] = []

    def advanced(self, done: int, requests: int, degenerate: int) -> None:
        self._listener.advanced(done, requests, degenerate)

    def damaged(self, damaged: DamagedLine) -> None:
        self.lost += 1
        self._listener.damaged(damaged)

    def noticed(self, note: str) -> None:
        self.notes.append(f"{note} What failed behind that counts as healthy here.")


def _notes(found: LogSpans) -> tuple[str, ...]:
    notes = list(found.notes)
    if found.textless:
        notes.append(
            f"{found.textless} requests have no text, or not all of it: whether they degenerated is not "
            "measured, and they count as neither healthy nor degenerate."
        )
    if found.timeless:
        notes.append(f"{found.timeless} answers have no times or no number of tokens and are left out.")
    if found.copies:
        notes.append(f"{found.copies} lines are copies of a request that was read before, and are left out.")
    if found.damaged:
        notes.append(f"{found.damaged} lines hold no answer.")
    return tuple(notes)
