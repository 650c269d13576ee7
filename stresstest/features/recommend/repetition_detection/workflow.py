"""`recommend --repetition-detection`: the effect that early stops would have had on stored outputs."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from heapq import nsmallest

from stresstest.campaign.conclusion.conclude import find_run
from stresstest.detectors.registry import is_repetition
from stresstest.economics.mitigation import StopPositions, TokenStream, choose_setting
from stresstest.economics.retry import IDS, PIECES, WORDS, AuditResult, delivery_costs
from stresstest.errors import InconclusiveError
from stresstest.features.recommend.repetition_detection.recorded_stream import (
    number_texts,
    recorded_stream,
    text_digest,
)
from stresstest.model import Generation
from stresstest.model.words import REPETITION_REASON
from stresstest.records import names_records
from stresstest.scanning.job import ScanJob
from stresstest.scanning.scan import extract_with_verdicts
from stresstest.scanning.scan_state import RecordProgress
from stresstest.statistics.sample import COPY_TOKENS
from stresstest.store.repository import Store

MIN_STREAMS, MAX_STREAMS = 8, 4_000
"""Streams to choose a setting from. Of more, a random sample is kept: memory and time are bounded."""


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
    files = [each for each in references if names_records(each)]
    for reference in references:
        if reference not in files:
            collector.add_run(store, reference)
    if files:
        collector.add_files(files, job or ScanJob(), listener)
    return collector.run_audit(fallback)


@dataclass(frozen=True, slots=True, order=True)
class _Output:
    """One output, ordered by chance. aborted: by the client, after it had begun to fail."""

    rank: bytes
    stream: TokenStream = field(compare=False)
    scale: str = field(compare=False)
    masked: bool = field(compare=False)
    aborted: bool = field(default=False, compare=False)


class _StreamCollector:
    """Collects streams of several sources: of many, a sample by chance, the same in each call.

    The rank of an output is a hash of its text, so that copies are recognised, and kept or left aside
    together, without a memory of all texts.
    """

    def __init__(self) -> None:
        self._kept: dict[bytes, _Output] = {}
        self._copies: Counter[bytes] = Counter()
        self._seen = self._loops = self._unseen = 0

    def add_run(self, store: Store, reference: str) -> None:
        """Add the generations of a run, of any phase, but those that were lost before they failed."""
        run = find_run(store, reference)
        for generation in store.generations(run.id):
            if generation.failure is not None and generation.verdict.onset is None:
                self._unseen += 1
            elif generation.token_summary.count:
                name = f"{run.id} {generation.key}"
                stream, scale = _generation_stream(generation, name)
                # Nobody saw what answers without text are, so they are no copies of each other.
                text = "".join(token.text for token in generation.tokens)
                self._add(
                    stream,
                    scale,
                    text_digest(name if generation.token_summary.textless else text),
                    masked=generation.finish_reason == REPETITION_REASON,
                    aborted=generation.aborted and generation.verdict.onset is not None,
                )

    def add_files(self, files: Sequence[str], job: ScanJob, listener: RecordProgress) -> None:
        """Add the answers of files, with the verdicts of `scan`."""
        extract = partial(recorded_stream, tokenizer=job.tokenizer)
        for found in extract_with_verdicts(files, job, extract, listener):
            if found is not None and found.stream is not None:
                self._add(found.stream, found.scale, found.digest, masked=found.masked)
            self._unseen += found is not None and found.stream is None

    def _add(
        self, stream: TokenStream, scale: str, digest: bytes, *, masked: bool, aborted: bool = False
    ) -> None:
        self._seen += 1
        self._loops += stream.loops
        rank = _copy_rank(stream, digest)
        if rank in self._kept:
            self._copies[rank] += 1
            return
        self._kept[rank] = _Output(rank, stream, scale, masked, aborted)
        if len(self._kept) >= 2 * MAX_STREAMS:
            self._kept = {each.rank: each for each in nsmallest(MAX_STREAMS, self._kept.values())}
            self._copies = Counter({rank: n for rank, n in self._copies.items() if rank in self._kept})

    def run_audit(self, fallback: float) -> AuditResult:
        kept = nsmallest(MAX_STREAMS, self._kept.values())
        streams = [each.stream for each in kept]
        copies = sum(self._copies[each.rank] for each in kept)
        prompts = len({stream.cluster for stream in streams})
        if len(streams) < MIN_STREAMS or prompts < 2:
            raise InconclusiveError(_too_few(len(streams)), hint=self._hint(copies))
        found = choose_setting(streams)
        stops = None
        if found.setting is not None:
            setting = found.setting
            stops = [StopPositions(stream.ids).stop_at(setting) for stream in streams]
        whole = any(stream.onset is None and not stream.endless for stream in streams)
        loops = sum(stream.loops for stream in streams)
        scales = {each.scale for each in kept}
        return AuditResult(
            chosen=found,
            taxes=delivery_costs(streams, stops, fallback=fallback) if whole else (),
            streams=len(streams),
            loops=loops,
            degenerate=sum(stream.onset is not None for stream in streams),
            scale=next((each for each in (WORDS, PIECES, IDS) if each in scales), IDS),
            masked=sum(each.masked for each in kept),
            aborted=sum(each.aborted for each in kept),
            unseen=self._unseen,
            left_aside=self._seen - len(streams) - copies,
            loops_aside=self._loops
            - sum((1 + self._copies[each.rank]) for each in kept if each.stream.loops),
            copies=copies,
            prompts=prompts,
        )

    def _hint(self, copies: int) -> str:
        more = [f"{copies} more are copies of them."] if copies else []
        if self._unseen:
            more.append(f"{self._unseen} more were given up, or are not whole in the log.")
        return " ".join(more) or "Name a stored run (stresstest runs list) or files with outputs."


def _too_few(outputs: int) -> str:
    if outputs < MIN_STREAMS:
        return f"{outputs} outputs are too few to choose a setting: {MIN_STREAMS} are needed."
    return (
        f"All {outputs} outputs are of one prompt: a setting is chosen on some prompts and tested on others."
    )


def _copy_rank(stream: TokenStream, digest: bytes) -> bytes:
    """What copies of an output share: its text, and its prompt too where another one may have the same text
    by chance. Refusals are short, and floods ("!!!!" to the cap) are alike from their first token."""
    healthy = stream.length if stream.onset is None else stream.onset - 1
    prompt = "" if healthy >= COPY_TOKENS else stream.prompt
    return sha256(digest + prompt.encode("utf-8", "surrogatepass")).digest()


def _generation_stream(generation: Generation, name: str) -> tuple[TokenStream, str]:
    """A stored generation's stream, and the unit of its ids."""
    verdict = generation.verdict
    ids = [token.id for token in generation.tokens]
    known = [each for each in ids if each is not None]
    exact = len(known) == len(ids)
    stream = TokenStream(
        id=name,
        ids=array("I", known if exact else number_texts([token.text for token in generation.tokens])),
        onset=verdict.onset,
        alarm=verdict.alarm,
        loops=any(s.confirmed and is_repetition(s.kind) for s in verdict.symptoms),
        endless=generation.aborted or generation.failure is not None or generation.finish_reason == "length",
        prompt=generation.prompt_id,
    )
    return stream, IDS if exact else PIECES
