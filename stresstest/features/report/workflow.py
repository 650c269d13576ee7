"""Loads the data of a report from the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stresstest.campaign.conclusion.conclude import current_result
from stresstest.campaign.conclusion.overruled import diagnosis_beside_others
from stresstest.render.report_data import ReportData

if TYPE_CHECKING:
    from stresstest.store.repository import Store


def load_report_data(store: Store, reference: str) -> ReportData:
    """A run with its diagnosis, GPU samples and derived documents. Raises UsageError for an unknown run.

    The store must stay open until the report is written: generations are loaded from it one at a time.
    """
    result = current_result(store, reference)
    run_id = result.run.id
    found = store.diagnosis(run_id)
    return ReportData(
        result=result,
        load=store.loader(run_id),
        diagnosis=None
        if found is None
        else diagnosis_beside_others(store, found, result.run.settings.subject),
        gpu_samples=tuple(store.gpu_samples(run_id)),
        documents=tuple(store.documents(run=run_id)),
    )
