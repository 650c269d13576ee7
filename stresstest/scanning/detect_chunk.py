"""One chunk of recorded lines to verdicts: what a worker of `scan` does, in its own process.

Everything here is a function of the chunk and the job, so that any number of workers gives one answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stresstest.model.scanned import ScanVerdict
from stresstest.records import DamagedLine, Record, RecordChunk, UnreadableError, parse_line
from stresstest.records.cut_texts import with_cuts
from stresstest.records.full_texts import without_prompts
from stresstest.records.record import MalformedError, TextlessError, utf8_size
from stresstest.records.templated_texts import without_templated_prompts
from stresstest.scanning.answer.languages import infer_languages
from stresstest.scanning.answer.verdict import detect_records
from stresstest.scanning.job import GroupKey, ScanJob
from stresstest.scanning.texts_read import TextsRead

_LATE_ANSWERS = (3, 12)
"""Fewest and most that tell it in a chunk, of a group that begins after the file's first."""


@dataclass(frozen=True, slots=True)
class ParsedChunk:
    """The records of a chunk. damaged: its lines that hold none. left_out: those that need none. The rest as
    in `RecordChunk`."""

    records: tuple[Record, ...]
    damaged: tuple[DamagedLine, ...]
    done: int
    source: str
    size: int
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class ChunkVerdicts:
    """A chunk's verdicts in order, and its damage. text_bytes: of the answers' text, in UTF-8.
    texts: where they were read. extracted: what `ScanJob.extract` made of each answer, in order; empty
    without it."""

    judged: tuple[ScanVerdict, ...]
    damaged: tuple[DamagedLine, ...]
    text_bytes: int
    done: int
    source: str
    texts: TextsRead
    extracted: tuple[Any, ...] = ()


def detect_chunk(
    chunk: RecordChunk | ParsedChunk, job: ScanJob, languages: Mapping[GroupKey, str]
) -> ChunkVerdicts:
    """Judge every answer of a chunk. languages: what is wanted in a group, where its first answers tell; of a
    group that begins later, those of this chunk do."""
    parsed = parse_chunk(chunk, job) if isinstance(chunk, RecordChunk) else chunk
    found = parsed.records
    if job.language is None:
        languages = {**infer_languages(found, job, languages, *_LATE_ANSWERS), **languages}
    size = sum(utf8_size(record.text) + utf8_size(record.reasoning) for record in found)
    verdicts = tuple(detect_records(found, job, languages))
    extracted = () if job.extract is None else tuple(map(job.extract, found, verdicts))
    texts = TextsRead.of(found, parsed.left_out)
    return ChunkVerdicts(verdicts, parsed.damaged, size, parsed.done, parsed.source, texts, extracted)


def parse_chunk(chunk: RecordChunk, job: ScanJob) -> ParsedChunk:
    """The records of a chunk, and its damage in the order of its lines."""
    damaged = list(chunk.damaged)
    found: list[Record] = []
    left_out = 0
    for line, raw in chunk.items:
        try:
            of_line = parse_line(raw, chunk.source, line, job.mapped)
            found += of_line
            left_out += not of_line
        except UnreadableError as error:
            damaged.append(
                DamagedLine(
                    chunk.source,
                    line,
                    str(error),
                    textless=isinstance(error, TextlessError),
                    malformed=isinstance(error, MalformedError),
                )
            )
    damaged.sort(key=lambda each: each.line)
    answers = without_templated_prompts(without_prompts(with_cuts(found)))
    return ParsedChunk(tuple(answers), tuple(damaged), chunk.done, chunk.source, chunk.size, left_out)
