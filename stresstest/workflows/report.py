"""From the store to what a report is drawn from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stresstest.report.dossier import Dossier
from stresstest.workflows.conclude import conclude

if TYPE_CHECKING:
    from stresstest.store.repository import Store


def gather(store: Store, reference: str) -> Dossier:
    """A run with its diagnosis and everything else that stands on it. UsageError when there is none."""
    result = conclude(store, reference)
    run_id = result.run.id
    return Dossier(
        result=result,
        diagnosis=store.diagnosis(run_id),
        gpu_samples=tuple(store.gpu_samples(run_id)),
        documents=tuple(store.documents(run=run_id)),
    )
