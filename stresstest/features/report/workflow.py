"""Loads the data of a report from the store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stresstest.campaign.conclude import conclude
from stresstest.render.report_data import ReportData

if TYPE_CHECKING:
    from stresstest.model import RunResult
    from stresstest.store.repository import Store


def load_report_data(store: Store, reference: str) -> ReportData:
    """A run with its diagnosis, GPU samples and derived documents. Raises UsageError for an unknown run.

    The store must stay open until the report is written: generations are loaded from it one at a time.
    """
    result = _without_overruled_cap(store, conclude(store, reference))
    run_id = result.run.id
    return ReportData(
        result=result,
        load=store.loader(run_id),
        diagnosis=store.diagnosis(run_id),
        gpu_samples=tuple(store.gpu_samples(run_id)),
        documents=tuple(store.documents(run=run_id)),
    )


def _without_overruled_cap(store: Store, result: RunResult) -> RunResult:
    """A run whose limit another one has spoken against recommends no cap any more, and names that run."""
    subject = result.run.settings.subject
    stored = store.thresholds(model=subject.model, task=subject.task, language=subject.language)
    run = next((each.overruled_by for each in stored if each.run_id == result.run.id), None)
    if run is None or result.safe_max_tokens is None:
        return result
    why = (
        f"{result.safe_max_tokens:,} no longer holds, since run {run} of the same model, task and decoding "
        f"found no safe length"
    )
    return replace(
        result, safe_max_tokens=None, threshold=replace(result.threshold, withheld=why), thinking=None
    )
