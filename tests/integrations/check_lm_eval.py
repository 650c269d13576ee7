"""The harness itself evaluates a task whose metric list names ours.

build/integrations/lm_eval/bin/python -m pytest tests/integrations/check_lm_eval.py
"""

from __future__ import annotations

from typing import Any

import lm_eval
from lm_eval.api.model import LM
from lm_eval.api.task import ConfigurableTask

from stresstest.integrations.lm_eval import degeneration
from tests.integrations.answers import HEALTHY, LOOPING


class Scripted(LM):  # type: ignore[misc, unused-ignore]
    """Loops in one answer of four."""

    def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
        return [LOOPING if n % 4 == 0 else HEALTHY for n, _ in enumerate(requests)]

    def loglikelihood(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood


def test_the_harness_reports_the_rate() -> None:
    """Its evaluator, its task class, our metric with an argument."""
    import datasets

    docs = [{"question": f"Tell story {n}.", "answer": "any"} for n in range(8)]
    task = ConfigurableTask(
        config={
            "task": "stories",
            "custom_dataset": lambda **_: {"test": datasets.Dataset.from_list(docs)},
            "test_split": "test",
            "output_type": "generate_until",
            "doc_to_text": "{{question}}",
            "doc_to_target": "{{answer}}",
            "metric_list": [
                {
                    "metric": "degeneration",
                    "aggregation": "mean",
                    "higher_is_better": False,
                    "language": "en",
                }
            ],
        }
    )
    found = lm_eval.evaluate(lm=Scripted(), task_dict={"stories": task}, bootstrap_iters=0)
    assert found["results"]["stories"]["degeneration,none"] == 0.25


def test_several_predictions_are_averaged() -> None:
    assert degeneration(references=[], predictions=[HEALTHY, LOOPING], language="en") == 0.5
