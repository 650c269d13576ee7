"""lm-evaluation-harness: a metric that is the share of answers which degenerate.

Importing this module registers it, as ``degeneration``, for the metric list of a task whose output is
generated text (``output_type: generate_until``); see docs/integrations.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from lm_eval.api.registry import register_metric

from stresstest.api.detection import detect


@register_metric(metric="degeneration", higher_is_better=False, aggregation="mean")  # type: ignore[untyped-decorator, unused-ignore]
def degeneration(
    references: Sequence[str], predictions: Sequence[str], language: str | None = None, **_: object
) -> float:
    """1 if the answer degenerates, else 0; of several predictions their mean.

    references: not looked at. language: an entry beside ``metric`` in the task's metric list.
    """
    del references
    return sum(detect(each, language=language).degenerate for each in predictions) / max(len(predictions), 1)
