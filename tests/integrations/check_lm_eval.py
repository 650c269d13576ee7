"""The harness itself evaluates a task whose metric list names ours.

build/integrations/lm_eval/bin/python -m pytest tests/integrations/check_lm_eval.py
"""

from __future__ import annotations

import math
from typing import Any

import lm_eval
from lm_eval.api.model import LM
from lm_eval.api.task import ConfigurableTask

from stresstest.integrations.lm_eval import WholeAnswer, degeneration
from tests.integrations.answers import HEALTHY, LOOPING


class Scripted(LM):  # type: ignore[misc, unused-ignore]
    """Gives these answers in turn."""

    def __init__(self, *answers: str) -> None:
        super().__init__()
        self.answers = answers

    def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
        return [self.answers[n % len(self.answers)] for n, _ in enumerate(requests)]

    def loglikelihood(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood


ONE_OF_FOUR = (LOOPING, HEALTHY, HEALTHY, HEALTHY)


def evaluated(*answers: str, **config: Any) -> dict[str, Any]:
    """What the harness's evaluator reports of our metric, with an argument, in its own task class."""
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
                {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True},
                {
                    "metric": "degeneration",
                    "aggregation": "mean_of_judged",
                    "higher_is_better": False,
                    "language": "en",
                },
            ],
            **config,
        }
    )
    found = lm_eval.evaluate(lm=Scripted(*answers), task_dict={"stories": task}, bootstrap_iters=0)
    results: dict[str, Any] = found["results"]["stories"]
    return results


WHOLE = {"name": "whole", "filter": [{"function": "whole_answer"}]}
EXTRACT = {"name": "extract", "filter": [{"function": "regex", "regex_pattern": r"#### (\d+)"}]}
FIRST = {"function": "take_first"}


def test_the_harness_reports_the_rate_of_whole_answers() -> None:
    """Beside a filter of the task's own, which leaves "[invalid]" of every answer: its row has no rate."""
    extract = {**EXTRACT, "filter": [*EXTRACT["filter"], FIRST]}
    found = evaluated(*ONE_OF_FOUR, filter_list=[extract, WHOLE])
    assert found["degeneration,whole"] == 0.25
    assert math.isnan(found["degeneration,extract"])
    assert found["exact_match,extract"] == found["exact_match,whole"] == 0


def test_a_task_of_several_right_answers_has_the_same_rate() -> None:
    """As triviaqa: the harness asks once for each of them, and gives lists where exact_match stands first."""
    found = evaluated(
        *ONE_OF_FOUR,
        filter_list=[WHOLE],
        doc_to_target=lambda _: ["any", "other"],
    )
    assert found["degeneration,whole"] == 0.25


def test_repeats_are_all_judged() -> None:
    """The task's other metrics read the first of them."""
    assert evaluated(*ONE_OF_FOUR, filter_list=[WHOLE], repeats=4)["degeneration,whole"] == 0.25
    answer = WholeAnswer(HEALTHY, LOOPING)
    assert answer == HEALTHY
    assert degeneration(references=[], predictions=[answer], language="en") == 0.5


def test_without_the_filter_nothing_is_called_healthy() -> None:
    """The metric is not told what a filter has changed."""
    assert math.isnan(evaluated(*ONE_OF_FOUR)["degeneration,none"])


def test_an_empty_answer_is_not_called_healthy() -> None:
    """The harness writes one where the server sent no content, as after reasoning up to the cap."""
    assert evaluated(LOOPING, "", HEALTHY, "", filter_list=[WHOLE])["degeneration,whole"] == 0.5
