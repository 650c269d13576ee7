"""The detailed result of `vllm bench serve --save-detailed`, and of SGLang's `bench_serving`: one object for
all requests of a benchmark, with a list for each of their fields."""

from __future__ import annotations

from typing import Any

from stresstest.records.formats.adapter import Envelope, Row
from stresstest.records.formats.fields import TEXTLESS
from stresstest.records.record import FieldMapping

_TEXTS = "generated_texts"
_COUNTS = {"output_lens": "completion_tokens", "input_lens": "prompt_tokens"}
"""Their name in the result, and in a record."""


def _recognises(row: Row, mapped: FieldMapping) -> bool:
    texts, counts = row.get(_TEXTS), row.get("output_lens")
    return (
        "response" not in mapped.fields
        and isinstance(texts, list)
        and isinstance(counts, list)
        and len(texts) == len(counts)
    )


def _unwrapped(row: Row, _mapped: FieldMapping) -> list[Row]:
    """A plain record for each request. Of one that failed, the text is not whole."""
    texts, errors = row[_TEXTS], row.get("errors")
    if not isinstance(errors, list) or len(errors) != len(texts):
        errors = [""] * len(texts)
    settings = {key: value for key, value in row.items() if isinstance(value, str | int | float)}
    beside = {"model": row.get("model_id"), **settings}
    found = []
    for n, (text, error) in enumerate(zip(texts, errors, strict=True)):
        counts = {
            key: count for name, key in _COUNTS.items() if (count := _count(row.get(name), n)) is not None
        }
        answer = {"response": text, "finish_reason": "error", TEXTLESS: True} if error else {"response": text}
        found.append({"id": str(n), **beside, **counts, **_times(row, n), **answer})
    return found


def _count(counts: Any, n: int) -> int | None:
    listed = counts[n] if isinstance(counts, list) and n < len(counts) else None
    return listed if type(listed) is int else None


def _times(row: Row, n: int) -> Row:
    """When a request was sent, and when its first and its last token came; newer versions write it."""
    lists = [row.get(name) for name in ("start_times", "ttfts", "itls")]
    if not all(isinstance(each, list) and n < len(each) for each in lists):
        return {}
    start, first, gaps = (each[n] for each in lists if each)
    if not (isinstance(gaps, list) and all(isinstance(each, int | float) for each in (start, first, *gaps))):
        return {}
    return {"start": start, "first_token": start + first, "end": start + first + sum(gaps)}


FORMAT = Envelope("vllm bench serve", _recognises, _unwrapped, apart=True)
