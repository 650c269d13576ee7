"""Inspect itself evaluates a task with our scorer.

build/integrations/inspect_ai/bin/python -m pytest tests/integrations/check_inspect_ai.py
"""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessageAssistant,
    ChatMessageTool,
    ChatMessageUser,
    ContentReasoning,
    ContentText,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.scorer import Score, Target
from inspect_ai.solver import TaskState
from inspect_ai.tool import ToolCall

from stresstest.integrations.inspect_ai import degeneration
from tests.integrations.answers import HEALTHY, LOOPING


def test_the_mean_is_the_rate(tmp_path: Path) -> None:
    """A mock model of Inspect's own; scores with symptom and onset."""
    outputs = [ModelOutput.from_content("mockllm/model", text) for text in (LOOPING, *[HEALTHY] * 3)]
    for output in outputs:  # otherwise counted with tables that are fetched from the network
        output.usage = ModelUsage(input_tokens=5, output_tokens=40, total_tokens=45)
    samples = [Sample(input=f"Tell story {n}.", target="any") for n in range(4)]
    task = Task(dataset=MemoryDataset(samples), scorer=degeneration(language="en"))
    model = get_model("mockllm/model", custom_outputs=outputs)
    [log] = eval(task, model=model, log_dir=str(tmp_path), display="none", max_samples=1)
    assert log.status == "success", log.error
    assert log.results.scores[0].metrics["mean"].value == 0.25
    scores = [sample.scores["degeneration"] for sample in log.samples]
    [failed] = [score for score in scores if score.value]
    assert "loop" in failed.metadata["symptom"]
    assert failed.metadata["onset_char"] >= len(HEALTHY)


def assistant(content: Any = "", *calls: ToolCall) -> ChatMessageAssistant:
    return ChatMessageAssistant(content=content, tool_calls=list(calls) or None, source="generate")


def thought(text: str, answer: str, **more: Any) -> ChatMessageAssistant:
    return assistant([ContentReasoning(reasoning=text, **more), ContentText(text=answer)])


def call(error: str | None = None, **arguments: str) -> ToolCall:
    return ToolCall(id="1", function="python", arguments=arguments, parse_error=error)


def scored(*turns: Any, stop: str = "stop", tokens: int = 20) -> Score:
    """The score of a sample that ends with these turns, the last of which is the model's output."""
    asked = ChatMessageUser(content="What is 6 times 7?")
    choice = ChatCompletionChoice(message=turns[-1], stop_reason=stop)
    usage = ModelUsage(input_tokens=5, output_tokens=tokens, total_tokens=5 + tokens)
    output = ModelOutput(model="m", choices=[choice], usage=usage)
    state = TaskState("m", 1, 1, "What is 6 times 7?", [asked, *turns], output=output)
    return asyncio.run(degeneration(language="en")(state, Target("42")))


CUT = (
    'Error parsing the following tool call arguments:\n\n{"code": "' + LOOPING + "\n\nError details: it ends."
)


@pytest.mark.parametrize(
    ("turns", "stop"),
    [
        ([thought(LOOPING, "")], "max_tokens"),
        ([thought(LOOPING, "ANSWER: 42")], "stop"),
        ([assistant("", call(code=LOOPING))], "tool_calls"),
        ([assistant("", call(CUT))], "max_tokens"),
        ([assistant("", call(code=LOOPING)), ChatMessageTool(content="ok"), assistant("It is 42.")], "stop"),
    ],
    ids=[
        "reasoning up to the cap",
        "reasoning, then an answer",
        "a call",
        "a call that was cut",
        "a turn before",
    ],
)
def test_all_that_the_model_wrote_is_judged(turns: list[Any], stop: str) -> None:
    """As `scan` judges the same records: an answer that is in order hides no loop before it or beside it."""
    found = scored(*turns, stop=stop, tokens=600)
    assert found.value == 1
    assert found.metadata["symptom"] == "loop"


def test_what_the_model_did_not_write_is_not_judged() -> None:
    """What a tool returns, examples that the task brings, and ciphertext in place of reasoning."""
    result = ChatMessageTool(content=LOOPING)
    example = ChatMessageAssistant(content=LOOPING, source="input")
    assert scored(example, assistant("", call(code="6 * 7")), result, assistant(HEALTHY)).value == 0
    assert scored(thought("gAAAAABqXzQ9" * 200, "It is 42.", redacted=True)).value == 0


def test_what_nobody_saw_is_not_scored() -> None:
    """Not healthy: tokens were spent up to the cap, and none of them is there."""
    assert math.isnan(scored(assistant(""), stop="max_tokens", tokens=600).value)
