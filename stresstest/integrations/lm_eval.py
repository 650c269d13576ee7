"""lm-evaluation-harness: a metric that is the share of answers which degenerate.

Importing this module registers it, as ``degeneration``, for the metric list of a task whose output is
generated text (``output_type: generate_until``), and beside it the filter ``whole_answer``. The harness gives
a metric what a filter left of an answer ("42", "[invalid]") and nothing else: the metric has a value under
that filter alone, and is NaN under every other one. See docs/integrations.md.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from lm_eval.api.filter import Filter
from lm_eval.api.registry import register_aggregation, register_filter, register_metric

from stresstest.api.detection import detect

_log = logging.getLogger("stresstest.lm_eval")


class WholeAnswer(str):
    """The first response to a request as the model gave it, which other metrics read as the text that it is.

    responses: all of them, where the task asks for repeats.
    """

    responses: tuple[str, ...]

    def __new__(cls, first: str, *others: str) -> WholeAnswer:
        found = super().__new__(cls, first)
        found.responses = (first, *others)
        return found


@register_filter("whole_answer")  # type: ignore[untyped-decorator, unused-ignore]
class WholeAnswerFilter(Filter):  # type: ignore[misc, unused-ignore]
    """Passes on what the model wrote, marked as such."""

    def apply(self, resps: Iterable[Sequence[str]], docs: Any) -> list[WholeAnswer]:
        """One answer a request."""
        del docs
        return [WholeAnswer(*responses) for responses in resps]


@register_aggregation("mean_of_judged")  # type: ignore[untyped-decorator, unused-ignore]
def mean_of_judged(values: Sequence[float]) -> float:
    """The mean of the answers that have a verdict; NaN where none has."""
    judged = [value for value in values if not math.isnan(value)]
    return sum(judged) / len(judged) if judged else math.nan


@register_metric(  # type: ignore[untyped-decorator, unused-ignore]
    metric="degeneration", higher_is_better=False, aggregation="mean_of_judged"
)
def degeneration(
    references: Sequence[str],
    predictions: Sequence[str | list[str]],
    language: str | None = None,
    **_: object,
) -> float:
    """1 if the answer degenerates, else 0; of several responses their mean.

    NaN for what a filter left of an answer, and for an empty one: the harness writes that for null content
    too, as an answer has whose reasoning took all of its tokens. references: not looked at. language: an
    entry beside ``metric`` in the task's metric list.
    """
    del references
    # Beside exact_match, a task of several right answers gives the answer once for each of them.
    each = [one for given in predictions for one in (given if isinstance(given, list) else [given])]
    whole = [one for one in each if isinstance(one, WholeAnswer)]
    if len(whole) < len(each):
        _warn()
        return math.nan
    said = [text for one in whole for text in one.responses if text.strip()]
    rate: float = mean_of_judged([detect(text, language=language).degenerate for text in said])
    return rate


@cache
def _warn() -> None:
    """Once: the harness calls the metric for every answer and every filter."""
    _log.warning(
        "degeneration is NaN where a filter may have changed the answers: add the filter whole_answer to the "
        "task, and read the rate under its name"
    )
