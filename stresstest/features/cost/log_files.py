"""`cost FILES…`: the cost of loops, modelled from logs with start, end and token counts. Sends nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from stresstest.economics.account import Prices
from stresstest.economics.fit import fit_engine
from stresstest.economics.logged import logged_cost
from stresstest.errors import InconclusiveError, UsageError
from stresstest.features.cost.first_tokens import place_first_tokens
from stresstest.features.cost.logged_twice import LoggedSpan, without_second_logs
from stresstest.features.cost.record_span import IMPOSSIBLE_TIMES, PARTS, Lacking, LeftOut, named_span
from stresstest.model.cost import LONGEST_CONTEXT, Cost, RequestSpan
from stresstest.records import DamagedLine
from stresstest.records.input_file import label
from stresstest.scanning.job import ScanJob
from stresstest.scanning.scan import extract_with_verdicts
from stresstest.scanning.scan_state import RecordProgress
from stresstest.scanning.wrong_language import is_likely_wrong

MAX_REQUESTS = 200_000
"""Requests of an account. Each is kept to the end, to be scheduled again in the order of their times: about
400 MB in all."""

_NAMED_MODELS = 3


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

    later: lines with requests after the first `MAX_REQUESTS`, left out. timeless: answers without times
    or token counts; lacking: what they lack, and how many of them. cached: those that a cache gave.
    miscounted: those with more tokens than a context holds. long_prompts: prompts with more, whose length
    counts as unknown. textless: answers without text, or not all of it, whose degeneration is unknown.
    damaged: lines without an answer. copies: requests that are in the logs again. logged_twice: those that
    another logger wrote too. notes: what all of them together show.
    """

    spans: tuple[RequestSpan, ...]
    later: int = 0
    timeless: int = 0
    lacking: Mapping[str, int] = field(default_factory=dict)
    cached: int = 0
    miscounted: int = 0
    long_prompts: int = 0
    textless: int = 0
    damaged: int = 0
    copies: int = 0
    logged_twice: int = 0
    notes: tuple[str, ...] = ()


def cost_from_files(settings: LogCostSettings, listener: RecordProgress) -> Cost:
    """The modelled account of the logged requests.

    Raises UsageError if no request can be used, InconclusiveError if the files hold no answer at all.
    """
    found = read_spans(settings, listener)
    source = ", ".join(map(label, settings.files))
    if not found.spans and not found.timeless:
        left_out = " ".join(("", *_notes(found)))
        raise InconclusiveError(f"No answer in {source} can be used.{left_out}")
    if not found.spans:
        options = " ".join(f"--field {PARTS[part]}=path" for part in found.lacking if part in PARTS)
        mapped = f"Map your own layout: {options}. " if options else ""
        raise UsageError(
            f"None of the {found.timeless:,} answers in these files can be used: {_lacking_words(found)}.",
            hint=f"{mapped}The account cannot be made of a log that does not hold this.",
        )
    cost = logged_cost(found.spans, fit_engine(found.spans), settings.prices)
    return replace(cost, source=source, notes=(*cost.notes, *_notes(found)))


def read_spans(settings: LogCostSettings, listener: RecordProgress) -> LogSpans:
    """The requests that have times and token counts, with the verdicts of the detectors."""
    job = replace(settings.job, mapped=replace(settings.job.mapped, textless=True))
    heard = _Listener(listener)
    first = _FirstRequests()
    left_out: Counter[LeftOut] = Counter()
    timeless, lacking = 0, Counter[str]()
    models: set[str] = set()
    drifting: Counter[bool] = Counter()
    for found in extract_with_verdicts(
        settings.files, job, named_span, heard, strict=settings.strict, workers=settings.workers
    ):
        if isinstance(found, LeftOut):
            left_out[found] += 1
        elif isinstance(found, Lacking):
            timeless += 1
            lacking.update(found.parts)
        else:
            logged, name, model, drifts = found
            first.add(logged, hash(name))
            drifting[drifts] += 1
            if model is not None and len(models) < _NAMED_MODELS + 1:
                models.add(model)
    once, logged_twice = without_second_logs(first.ordered())
    spans, long_prompts = _without_impossible_prompts(once)
    spans, first_tokens = place_first_tokens(spans)
    textless = sum(span.degenerate is None for span in spans)
    return LogSpans(
        spans,
        first.later,
        timeless,
        {part: lacking[part] for part in (*PARTS, IMPOSSIBLE_TIMES) if lacking[part]},
        left_out[LeftOut.CACHED],
        left_out[LeftOut.MISCOUNTED],
        long_prompts,
        textless,
        heard.lost,
        first.copies,
        logged_twice,
        (*heard.notes, *_language_note(drifting), *_models_note(models), *first_tokens),
    )


def _without_impossible_prompts(spans: tuple[RequestSpan, ...]) -> tuple[tuple[RequestSpan, ...], int]:
    """The spans, with None for the length of a prompt that no context holds; how many there are.

    One such count makes the replay compute a prompt for as long as all other requests together take.
    """
    wrong = sum((span.prompt_tokens or 0) > LONGEST_CONTEXT for span in spans)
    if not wrong:
        return spans, 0
    return tuple(
        replace(span, prompt_tokens=None) if (span.prompt_tokens or 0) > LONGEST_CONTEXT else span
        for span in spans
    ), wrong


class _FirstRequests:
    """Of any number of requests, the `MAX_REQUESTS` that were sent first, each once.

    later: lines of others. copies: lines of one that was read before.
    """

    def __init__(self) -> None:
        self._once: dict[int, LoggedSpan] = {}
        self._until = math.inf
        self.later = self.copies = 0

    def add(self, logged: LoggedSpan, name: int) -> None:
        if logged.span.submitted > self._until:
            self.later += 1
            return
        self.copies += name in self._once
        self._once.setdefault(name, logged)
        if len(self._once) > MAX_REQUESTS * 5 // 4:
            self._leave_out()

    def ordered(self) -> tuple[LoggedSpan, ...]:
        self._leave_out()
        return tuple(self._once.values())

    def _leave_out(self) -> None:
        ordered = sorted(self._once.items(), key=lambda each: each[1].span.submitted)
        self.later += len(ordered[MAX_REQUESTS:])
        self._once = dict(ordered[:MAX_REQUESTS])
        if len(ordered) > MAX_REQUESTS:
            self._until = ordered[MAX_REQUESTS - 1][1].span.submitted


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


def _language_note(drifting: Counter[bool]) -> list[str]:
    drifts, answers = drifting[True], drifting.total()
    if not is_likely_wrong(drifts, answers):
        return []
    return [
        f"{drifts:,} of {answers:,} answers count as degenerate because they drift from the language that "
        f"was given: were they asked for in another one? --lang CODE names it."
    ]


def _models_note(models: Collection[str]) -> list[str]:
    if len(models) < 2:
        return []
    names = sorted(models)[:_NAMED_MODELS]
    more = " and others" if len(models) > _NAMED_MODELS else ""
    return [
        f"The log names several models ({', '.join(names)}{more}), and all requests are taken for those of "
        "one server. If they share no GPU, no time and no price here holds: give a log of one server."
    ]


def _lacking_words(found: LogSpans) -> str:
    """How many answers lack which part: ``3 have no start time, 1 has no token count``."""
    return ", ".join(f"{n:,} {'has' if n == 1 else 'have'} {part}" for part, n in found.lacking.items())


def _notes(found: LogSpans) -> tuple[str, ...]:
    notes = list(found.notes)
    if found.later:
        notes.append(
            f"These are the {len(found.spans):,} earliest requests of the log. {found.later:,} lines with "
            f"later ones are left out; to include them, split the log by time."
        )
    if found.textless:
        notes.append(
            f"{found.textless} requests have no text, or not all of it: whether they degenerated is not "
            "measured, and they count as neither healthy nor degenerate."
        )
    if found.timeless:
        notes.append(
            f"{found.timeless:,} {'answer is' if found.timeless == 1 else 'answers are'} left out: "
            f"{_lacking_words(found)}."
        )
    if found.cached:
        notes.append(
            f"{found.cached} answers came out of a cache (marked in the log, or faster than a "
            "server writes). They took nothing of the GPU and are left out."
        )
    if found.miscounted:
        notes.append(
            f"{found.miscounted} answers have more than {LONGEST_CONTEXT:,} tokens by the log, which no "
            "model writes, and are left out."
        )
    if found.long_prompts:
        notes.append(
            f"{found.long_prompts} prompts have more than {LONGEST_CONTEXT:,} tokens by the log, which no "
            "model reads: their lengths count as unknown."
        )
    if found.copies:
        notes.append(f"{found.copies} lines are copies of a request that was read before, and are left out.")
    if found.logged_twice:
        notes.append(
            f"{found.logged_twice} requests were logged twice (by two loggers, or as a span within another) "
            f"and are left out: each counts once."
        )
    if found.damaged:
        notes.append(f"{found.damaged} lines hold no answer.")
    return tuple(notes)
