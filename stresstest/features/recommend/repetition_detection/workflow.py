"""`recommend --repetition-detection`: the effect that early stops would have had on stored outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from stresstest.campaign.conclude import find_run
from stresstest.detectors.registry import is_repetition
from stresstest.economics.mitigation import StopPositions, TokenStream, choose_setting
from stresstest.economics.retry import IDS, PIECES, WORDS, AuditResult, delivery_costs
from stresstest.errors import InconclusiveError
from stresstest.features.recommend.repetition_detection.recorded_stream import RecordedStream, recorded_stream
from stresstest.model import Generation
from stresstest.model.words import REPETITION_REASON
from stresstest.scanning.job import ScanJob
from stresstest.scanning.scan import extract_with_verdicts
from stresstest.scanning.scan_state import RecordProgress
from stresstest.store.repository import Store

MIN_STREAMS = 8
"""Minimum number of streams to choose a setting from."""


def audit_stored(
    references: Sequence[str],
    store: Store,
    listener: RecordProgress,
    job: ScanJob | None = None,
    *,
    fallback: float = 1.0,
) -> AuditResult:
    """Replay stored runs (ids, "latest") and files. Raises InconclusiveError for too few outputs."""
    collector = _StreamCollector()
    files = [each for each in references if each == "-" or Path(each).is_file()]
    for reference in references:
        if reference not in files:
            collector.add_run(store, reference)
    if files:
        collector.add_files(files, job or ScanJob(), listener)
    return collector.run_audit(fallback)


class _StreamCollector:
    """Collects streams of several sources, with one numbering of their tokens."""

    def __init__(self) -> None:
        self._streams: list[TokenStream] = []
        self._known: dict[str, int] = {}
        self._scales: set[str] = set()
        self._masked = self._aborted = self._unseen = 0

    def add_run(self, store: Store, reference: str) -> None:
        """Add the generations of a run, of any phase; lost ones are left out."""
        run = find_run(store, reference)
        for generation in store.generations(run.id):
            if generation.failure is None and generation.token_summary.count:
                self._streams.append(self._generation_stream(generation, f"{run.id} {generation.key}"))
                self._masked += generation.finish_reason == REPETITION_REASON
                self._aborted += generation.aborted and generation.verdict.onset is not None

    def add_files(self, files: Sequence[str], job: ScanJob, listener: RecordProgress) -> None:
        """Add the answers of files, with the verdicts of `scan`; those that the service lost are left out."""
        extract = partial(recorded_stream, tokenizer=job.tokenizer)
        for found in extract_with_verdicts(files, job, extract, listener):
            if found is not None and found.stream is not None:
                self._streams.append(self._renumbered(found.stream, found))
                self._masked += found.masked
            self._unseen += found is not None and found.stream is None

    def run_audit(self, fallback: float) -> AuditResult:
        streams = self._streams
        if len(streams) < MIN_STREAMS:
            raise InconclusiveError(
                f"{len(streams)} outputs are too few to choose a setting: {MIN_STREAMS} are needed.",
                hint=f"Of {self._unseen} more the log lacks part of the text."
                if self._unseen
                else "Name a stored run (stresstest runs list) or files with outputs.",
            )
        found = choose_setting(streams)
        stops = None
        if found.setting is not None:
            setting = found.setting
            stops = [StopPositions(stream.ids).stop_at(setting) for stream in streams]
        whole = any(stream.onset is None and not stream.endless for stream in streams)
        scale = next((each for each in (WORDS, PIECES, IDS) if each in self._scales), IDS)
        return AuditResult(
            chosen=found,
            taxes=delivery_costs(streams, stops, fallback=fallback) if whole else (),
            streams=len(streams),
            loops=sum(stream.loops for stream in streams),
            degenerate=sum(stream.onset is not None for stream in streams),
            scale=scale,
            masked=self._masked,
            aborted=self._aborted,
            unseen=self._unseen,
        )

    def _encode_texts(self, texts: Sequence[str]) -> tuple[int, ...]:
        return tuple(self._known.setdefault(text, len(self._known)) for text in texts)

    def _generation_stream(self, generation: Generation, name: str) -> TokenStream:
        verdict = generation.verdict
        ids = [token.id for token in generation.tokens]
        known = [each for each in ids if each is not None]
        exact = len(known) == len(ids)
        self._scales.add(IDS if exact else PIECES)
        return TokenStream(
            id=name,
            ids=tuple(known) if exact else self._encode_texts([token.text for token in generation.tokens]),
            onset=verdict.onset,
            alarm=verdict.alarm,
            loops=any(s.confirmed and is_repetition(s.kind) for s in verdict.symptoms),
            endless=generation.aborted or generation.finish_reason == "length",
        )

    def _renumbered(self, stream: TokenStream, found: RecordedStream) -> TokenStream:
        self._scales.add(found.scale)
        if found.texts is None:
            return stream
        numbers = self._encode_texts(found.texts)
        return replace(stream, ids=tuple(numbers[each] for each in stream.ids))
