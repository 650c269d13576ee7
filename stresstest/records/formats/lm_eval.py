"""lm-evaluation-harness's samples (`--log_samples`): each line a document, with the answers to its prompt.

The harness writes a line for each filter, with the same answers in `resps`, and what the filter read out of
them in `filtered_resps`. Tasks that rate given texts hold numbers: nothing was generated. Those of
`loglikelihood_rolling` are texts, but their requests have the rated text alone, and no settings.
"""

from __future__ import annotations

from typing import Any

from stresstest.records.formats.adapter import Envelope, Row
from stresstest.records.formats.json_values import structure_in
from stresstest.records.record import FieldMapping, UnreadableError

_READ_HERE = frozenset({"resps", "filtered_resps", "arguments"})


def _recognises(row: Row, mapped: FieldMapping) -> bool:
    return "response" not in mapped.fields and "filtered_resps" in row and isinstance(row.get("resps"), list)


def _unwrapped(row: Row, _mapped: FieldMapping) -> list[Row]:
    """The document's answers as one plain row; none where texts were rated."""
    requests = [each if isinstance(each, list) else [each] for each in row["resps"]]
    answers = [answer for request in requests for answer in request]
    values = _first_request(row.get("arguments"))
    settings = next((dict(each) for each in values if isinstance(each, dict)), {})
    texts = all(isinstance(each, str | None) for each in answers)
    if settings and not texts and any(isinstance(each, list) for each in answers):
        raise UnreadableError("answers in several rounds: write a record for each")
    if len(values) == 1 or not texts:
        return []
    prompt = _prompt(values[0]) if values else None
    named = {"prompt": prompt, "max_tokens": settings.get("max_gen_toks", settings.get("max_tokens"))}
    kept = {key: value for key, value in row.items() if key not in _READ_HERE}
    return [{**kept, "output": answers, **{key: value for key, value in named.items() if value is not None}}]


def _first_request(arguments: Any) -> list[Any]:
    """Prompt, settings and the like of the first request of several; empty where they are not known."""
    listed = list(arguments.values()) if isinstance(arguments, dict) else arguments
    first = listed[0] if isinstance(listed, list) and listed else None
    values = list(first.values()) if isinstance(first, dict) else first
    return values if isinstance(values, list) else []


def _prompt(given: Any) -> Any:
    """As text or as turns."""
    prompt = given[0] if isinstance(given, list) and len(given) == 1 else given
    turns = structure_in(prompt) if isinstance(prompt, str) else None
    return turns if isinstance(turns, list) else prompt


FORMAT = Envelope("lm-evaluation-harness sample", _recognises, _unwrapped)
