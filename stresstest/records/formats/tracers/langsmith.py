"""LangSmith's runs, as its client lists them: each run of a model is an answer, those around it are none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stresstest.records.formats.adapter import Envelope, Row
from stresstest.records.formats.bodies.bare import as_body, chat_message
from stresstest.records.formats.fields import TEXTLESS
from stresstest.records.formats.json_values import as_object
from stresstest.records.record import FieldMapping

_MODEL_RUN = "llm"
_NAMES = ("ls_model_name", "model", "model_name")
_PASSED_ON = ("id", "start_time", "end_time", "invocation_params", "error")


def _recognises(row: Row, mapped: FieldMapping) -> bool:
    return not mapped.fields and isinstance(row.get("run_type"), str) and "inputs" in row


def _unwrapped(row: Row, _mapped: FieldMapping) -> list[Row]:
    return list(_runs(row))


def _runs(run: Any) -> Iterator[Row]:
    """The run and those in it, where they are of a model."""
    if not isinstance(run, dict):
        return
    if run.get("run_type") == _MODEL_RUN:
        yield _plain(run)
    inner = run.get("child_runs")
    for each in inner if isinstance(inner, list) else ():
        yield from _runs(each)


def _plain(run: Row) -> Row:
    more, inputs, outputs = (as_object(run.get(key)) for key in ("extra", "inputs", "outputs"))
    body = as_body(outputs)
    asked = as_object(more.get("invocation_params"))
    names = (as_object(more.get("metadata")), asked)
    row = {
        **({} if body else outputs),
        **{key: run.get(key) for key in _PASSED_ON},
        "model": next((held[key] for held in names for key in _NAMES if held.get(key)), None),
        "prompt": _prompt(inputs),
        "invocation_params": asked,
        "response" if body else "outputs": body,
        TEXTLESS: not outputs or None,
    }
    return {key: value for key, value in row.items() if value is not None}


def _prompt(inputs: Mapping[str, Any]) -> Any:
    """The turns of the prompt, or its text; of a batch of prompts all of them."""
    turns = inputs.get("messages")
    if isinstance(turns, list):
        listed = [turn for each in turns for turn in (each if isinstance(each, list) else [each])]
        return [chat_message(turn) for turn in listed if isinstance(turn, dict)]
    texts = inputs.get("prompts")
    return "\n".join(map(str, texts)) if isinstance(texts, list) else inputs.get("prompt")


FORMAT = Envelope("LangSmith run", _recognises, _unwrapped)
