"""lm-evaluation-harness's samples (`--log_samples`): each line a document, with the answers to its prompt.

The harness writes a line for each filter, with the same answers in `resps`, and what the filter read out of
them in `filtered_resps`. Tasks that rate given texts (`loglikelihood`) hold numbers: nothing was generated.
"""

from __future__ import annotations

from typing import Any

from stresstest.records.formats.adapter import Envelope, Row
from stresstest.records.formats.json_values import as_object, structure_in
from stresstest.records.record import FieldMapping

_READ_HERE = frozenset({"resps", "filtered_resps", "arguments"})


def _recognises(row: Row, mapped: FieldMapping) -> bool:
    return "response" not in mapped.fields and "filtered_resps" in row and isinstance(row.get("resps"), list)


def _unwrapped(row: Row, _mapped: FieldMapping) -> list[Row]:
    """The document's answers as one plain row; none where texts were rated."""
    requests = [each if isinstance(each, list) else [each] for each in row["resps"]]
    answers = [answer for request in requests for answer in request]
    if not all(isinstance(each, str | None) for each in answers):
        return []
    prompt, settings = _asked(row.get("arguments"))
    named = {"prompt": prompt, "max_tokens": settings.get("max_gen_toks", settings.get("max_tokens"))}
    kept = {key: value for key, value in row.items() if key not in _READ_HERE}
    return [{**kept, "output": answers, **{key: value for key, value in named.items() if value is not None}}]


def _asked(arguments: Any) -> tuple[Any, dict[str, Any]]:
    """The prompt, as text or as turns, and how it was sampled; of several requests, those of the first."""
    listed = list(arguments.values()) if isinstance(arguments, dict) else arguments
    first = listed[0] if isinstance(listed, list) and listed else None
    values = list(first.values()) if isinstance(first, dict) else first
    if not isinstance(values, list) or not values:
        return None, {}
    prompt = values[0][0] if isinstance(values[0], list) and len(values[0]) == 1 else values[0]
    turns = structure_in(prompt) if isinstance(prompt, str) else None
    return (turns if isinstance(turns, list) else prompt), dict(as_object(values[-1]))


FORMAT = Envelope("lm-evaluation-harness sample", _recognises, _unwrapped)
