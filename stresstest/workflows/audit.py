"""`recommend --repetition-detection`: what stopping loops early would have done to stored outputs."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from stresstest.detectors.panel import text_tokens
from stresstest.economics.mitigation import Stops, Stream, choose
from stresstest.economics.retry import IDS, PIECES, WORDS, Audited, deliveries
from stresstest.errors import UsageError
from stresstest.model import Generation
from stresstest.model.cost import LOOP_SYMPTOMS
from stresstest.model.scanned import Judged
from stresstest.records import Record
from stresstest.records.finish import LOST, REPETITION, ending
from stresstest.store.repository import Store
from stresstest.workflows.conclude import find_run
from stresstest.workflows.scan import Listener
from stresstest.workflows.scan_judge import Job
from stresstest.workflows.scan_records import judged_records
from stresstest.workflows.scan_scale import token_ids

FEWEST = 8
"""Streams below which nothing is chosen."""


def audit_stored(
    references: Sequence[str],
    store: Store,
    listener: Listener,
    job: Job | None = None,
    *,
    fallback: float = 1.0,
) -> Audited:
    """Replay stored runs (ids, "latest") and files. Raises UsageError when there is too little to replay."""
    reading = _Reading()
    files = [each for each in references if each == "-" or Path(each).is_file()]
    for reference in references:
        if reference not in files:
            reading.take_run(store, reference)
    if files:
        reading.take_files(files, job or Job(), listener)
    return reading.audited(fallback)


class _Reading:
    """Streams from wherever they come, with one numbering of their tokens."""

    def __init__(self) -> None:
        self._streams: list[Stream] = []
        self._known: dict[str, int] = {}
        self._scales: set[str] = set()
        self._masked = self._aborted = 0

    def take_run(self, store: Store, reference: str) -> None:
        """The generations of a run, whatever they were for; lost ones are left out."""
        run = find_run(store, reference)
        for generation in store.generations(run.id):
            if generation.failure is None and generation.tokens:
                self._add(self._of_generation(generation, f"{run.id} {generation.key}"))
                self._masked += generation.finish_reason == REPETITION
                self._aborted += generation.aborted and generation.verdict.onset is not None

    def take_files(self, files: Sequence[str], job: Job, listener: Listener) -> None:
        """The answers of files, judged as `scan` judges them; those that the service gave up are left out."""
        for record, verdict in judged_records(files, job, listener):
            end = ending(record.finish_reason)
            if end not in LOST and record.text:
                self._add(self._of_record(record, verdict, job.tokenizer))
                self._masked += end == REPETITION

    def audited(self, fallback: float) -> Audited:
        streams = self._streams
        if len(streams) < FEWEST:
            raise UsageError(
                f"{len(streams)} outputs are too few to choose a setting from: {FEWEST} are needed.",
                hint="Name a stored run (stresstest runs list) or files with outputs.",
            )
        found = choose(streams)
        stops = None
        if found.setting is not None:
            setting = found.setting
            stops = [Stops(stream.ids).at(setting) for stream in streams]
        whole = any(stream.onset is None and not stream.endless for stream in streams)
        scale = next((each for each in (WORDS, PIECES, IDS) if each in self._scales), IDS)
        return Audited(
            chosen=found,
            taxes=deliveries(streams, stops, fallback=fallback) if whole else (),
            streams=len(streams),
            loops=sum(stream.loops for stream in streams),
            degenerate=sum(stream.onset is not None for stream in streams),
            scale=scale,
            masked=self._masked,
            aborted=self._aborted,
        )

    def _add(self, stream: Stream) -> None:
        self._streams.append(stream)

    def _numbered(self, texts: Sequence[str]) -> tuple[int, ...]:
        return tuple(self._known.setdefault(text, len(self._known)) for text in texts)

    def _of_generation(self, generation: Generation, name: str) -> Stream:
        verdict = generation.verdict
        ids = [token.id for token in generation.tokens]
        known = [each for each in ids if each is not None]
        exact = len(known) == len(ids)
        self._scales.add(IDS if exact else PIECES)
        return Stream(
            id=name,
            ids=tuple(known) if exact else self._numbered([token.text for token in generation.tokens]),
            onset=verdict.onset,
            alarm=verdict.alarm,
            loops=any(s.confirmed and s.kind in LOOP_SYMPTOMS for s in verdict.symptoms),
            endless=generation.aborted or generation.finish_reason == "length",
        )

    def _of_record(self, record: Record, verdict: Judged, tokenizer: str | None) -> Stream:
        ids, starts = self._pieces(record, tokenizer)
        alarm = None
        if verdict.degenerate:
            # An alarm inside the reasoning comes before the answer's first token.
            alarm = min(bisect_left(starts, verdict.alarm_char or 0) + 1, len(ids))
        return Stream(
            id=f"{record.source}:{record.line} {record.id}",
            ids=ids,
            onset=None if not verdict.degenerate else bisect_right(starts, verdict.onset_char or 0),
            alarm=alarm,
            loops=verdict.symptom in LOOP_SYMPTOMS or verdict.loops_to_end or verdict.recovered,
            endless=verdict.capped is True,
        )

    def _pieces(self, record: Record, tokenizer: str | None) -> tuple[tuple[int, ...], list[int]]:
        """(token ids, first character of each) of an answer."""
        if tokenizer is not None:
            self._scales.add(IDS)
            ids, starts = token_ids(tokenizer, record.text)
            return tuple(ids), starts
        own = [token.text for token in record.tokens or () if not token.reasoning]
        self._scales.add(PIECES if own else WORDS)
        texts = own or [token.text for token in text_tokens(record.text)]
        return self._numbered(texts), list(accumulate(map(len, texts), initial=0))[:-1]
