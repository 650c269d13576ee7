"""Inspect itself evaluates a task with our scorer.

build/integrations/inspect_ai/bin/python -m pytest tests/integrations/check_inspect_ai.py
"""

from __future__ import annotations

from pathlib import Path

from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model

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
