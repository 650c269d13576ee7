"""LangSmith's runs: those of models are answers, those around them are not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stresstest.records import FieldMapping, Record, UnreadableError, parse_line

SAID = "The harbour wakes early."


def read(row: dict[str, Any]) -> list[Record]:
    return parse_line(json.dumps(row).encode(), "f", 1, FieldMapping())


def run(kind: str = "llm", **more: Any) -> dict[str, Any]:
    asked = {"metadata": {"ls_model_name": "m"}, "invocation_params": {"max_completion_tokens": 512}}
    times = {"start_time": "2026-11-21T20:00:00Z", "end_time": "2026-11-21T20:00:02Z"}
    inputs = {"messages": [[{"type": "human", "data": {"content": "Well?"}}]]}
    return {"id": "r1", "run_type": kind, "inputs": inputs, "outputs": {}, "extra": asked, **times, **more}


@pytest.mark.parametrize(
    "outputs",
    [
        {"generations": [[{"text": SAID, "generation_info": {"finish_reason": "length"}}]]},
        {"choices": [{"message": {"role": "assistant", "content": SAID}, "finish_reason": "length"}]},
        {"output": SAID, "finish_reason": "length"},
    ],
)
def test_a_run_of_a_model_is_an_answer(outputs: dict[str, Any]) -> None:
    """As LangChain, a wrapped client and a traced function write it, with its prompt, cap and times."""
    [record] = read(run(outputs=outputs))
    assert (record.id, record.text, record.model, record.finish_reason) == ("r1", SAID, "m", "length")
    assert (record.prompt_text, record.max_tokens) == ("Well?", 512)
    assert (record.start, record.end) == (1795291200.0, 1795291202.0)


def test_the_runs_around_it_are_left_out() -> None:
    """A chain's output is that of the model in it, which would count twice."""
    inner = run(outputs={"output": SAID}, id="r2")
    chain = run("chain", outputs={"output": SAID}, child_runs=[run("tool"), inner])
    assert [(each.id, each.text) for each in read(chain)] == [("r2", SAID)]
    assert read(run("tool", outputs={"output": "12"})) == []


def test_a_run_without_an_output_is_an_answer_without_text() -> None:
    """It may have looped until its client gave up."""
    [record] = read(run(outputs={}, error="TimeoutError"))
    assert not record.has_text


def test_texts_by_several_prompts_are_its_prompt() -> None:
    """Completion models have `prompts`."""
    [record] = read(run(inputs={"prompts": ["Well?"]}, outputs={"output": SAID}))
    assert record.prompt_text == "Well?"


def test_outputs_of_an_unknown_layout_are_refused() -> None:
    """They are neither empty nor whole."""
    with pytest.raises(UnreadableError):
        read(run(outputs={"answer": SAID}))
