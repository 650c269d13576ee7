"""`detect` and `detect_many`: texts, streams and tables to verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from stresstest.api.arguments import require_texts
from stresstest.api.rows import rows_of
from stresstest.api.streaming import StreamDetector, judge_text
from stresstest.api.verdict import Verdict, public_verdict
from stresstest.detectors.identification.names import require_language
from stresstest.errors import UsageError
from stresstest.records import parse_fields
from stresstest.records.source import row_chunks
from stresstest.scanning.job import ScanJob
from stresstest.scanning.pool import ChunkWork, detect_chunks

Prompt = str | Sequence[Mapping[str, Any]]
"""A prompt: its text, or the messages of a chat."""


def detect(
    text: str | Iterable[str],
    *,
    language: str | None = None,
    prompt: Prompt | None = None,
    finish_reason: str | None = None,
) -> Verdict:
    """The verdict that `scan` gives on this text alone.

    text: an answer, or the chunks of a stream, which is left at the alarm, or after 2,000,000 characters or
    150,000 words; the verdict is then on what was read. language: that the answer is wanted in ("it"); None:
    inferred from the text, of a stream at its end. prompt: exempts what it asked to be repeated, and shows
    whether it is given back in place of an answer. finish_reason: the server's word ("stop", "length",
    …), which tells a truncation from a cut by the cap.
    Raises UsageError for what is no text, and for a language that is not known here.
    """
    if isinstance(text, str):
        return judge_text(text, language=language, prompt=prompt, finish_reason=finish_reason)
    if isinstance(text, bytes | Mapping) or not isinstance(text, Iterable):
        raise UsageError(
            f"detect takes a text or its chunks, not {type(text).__name__}.",
            hint="For records: stresstest.detect_many([record])",
        )
    detector = StreamDetector(language=language, prompt=prompt)
    for chunk in text:
        if detector.feed(chunk) or detector.full:
            return detector.finish()
    return detector.finish(finish_reason)


def detect_many(
    texts: Any,
    *,
    language: str | None = None,
    fields: Mapping[str, str] | None = None,
    workers: int = 1,
) -> list[Verdict]:
    """The verdicts that `scan` gives on these answers, in order.

    texts: strings, judged as they are; records in any layout that `scan` reads, as mappings; or a table of
    pandas, polars or pyarrow, a row a record. language: wanted where the records do not say; None: inferred
    from the first answers. fields: where a value is in your records, as ``--field`` takes it: {"response":
    "answer.text"}. workers: processes; one judges here. Raises UsageError for a record without an answer, and
    for a language or a field that is not known.
    """
    require_texts(language=language)
    require_language(language)
    mapped = parse_fields([f"{name}={path}" for name, path in (fields or {}).items()])
    job = ScanJob(mapped=mapped, language=language, show=True)
    found: list[Verdict] = []
    for batch in detect_chunks(_work(rows_of(texts)), job, workers):
        for damaged in batch.damaged:
            raise UsageError(
                f"Record {damaged.line} holds no answer: {damaged.reason}.",
                hint='Leave such records out, or name its place: fields={"response": "path.to.text"}',
            )
        found += map(public_verdict, batch.judged)
    return found


def _work(rows: Iterable[dict[str, Any] | str]) -> Iterator[ChunkWork]:
    """The language of records that name none is inferred from the first chunk, as `scan` does with a file."""
    for n, chunk in enumerate(row_chunks("record", rows)):
        yield chunk, n == 0
