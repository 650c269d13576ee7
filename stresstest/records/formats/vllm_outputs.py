"""vLLM's `RequestOutput`, dumped: ``{"outputs": [{"text", "finish_reason", "token_ids"}, …]}``."""

from __future__ import annotations

from typing import Any

from stresstest.model.finish_reason import reason_with_match
from stresstest.records.formats.adapter import Place, Row, RowFormat
from stresstest.records.formats.beside import PREDICTED_KEYS, refuse_whole_answers
from stresstest.records.formats.bodies.answer import RecordedAnswer, read_several
from stresstest.records.formats.bodies.calls import message_arguments
from stresstest.records.formats.bodies.reasoning import find_reasoning
from stresstest.records.formats.fields import answered
from stresstest.records.record import FieldMapping, Record, UnreadableError, as_text


def completion_output(value: Any) -> RecordedAnswer:
    """One of a request's outputs. UnreadableError where it has no text."""
    if isinstance(value, str):
        return RecordedAnswer(value)
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        raise UnreadableError("no text in it")
    written = value["text"] + message_arguments(value)  # DSPy's history has calls there
    reason = reason_with_match(as_text(value.get("finish_reason")), value.get("stop_reason"))
    return RecordedAnswer(written, find_reasoning(value), reason)


def _recognises(row: Row, _mapped: FieldMapping) -> bool:
    outputs = row.get("outputs")
    if any(isinstance(row.get(key), str) for key in PREDICTED_KEYS):
        return False  # RULER keeps the right answers there, and the model's under `pred`
    return isinstance(outputs, str) or (isinstance(outputs, list) and bool(outputs))


def _records(row: Row, place: Place) -> list[Record]:
    outputs = row["outputs"]
    found = read_several([outputs] if isinstance(outputs, str) else outputs, completion_output)
    refuse_whole_answers(row, "outputs", [answer.text for answer in found], ("outputs",))
    return answered(row, found, place)


FORMAT = RowFormat("vLLM outputs", _recognises, _records)
