"""A project's cells as campaigns, and what an unfinished check has measured of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Set
from dataclasses import replace

from stresstest import clock
from stresstest.model import DocumentKind, RunSettings, Subject
from stresstest.model.gate import CellPlan
from stresstest.store.repository import Store
from stresstest.tasks import load_task

GOES_ON_FOR = 12 * 3600.0
"""Seconds for which an unfinished check or run is gone on with: later, the server may be another."""


def wanted_for(plan: CellPlan, settings: RunSettings) -> RunSettings:
    """The campaign of a cell: the run options with the cell's own in place."""
    task = settings.subject.task if settings.prompts_file else load_task(plan.task).name
    return replace(
        settings,
        subject=Subject(plan.model, task, plan.language),
        base_url=plan.base_url or settings.base_url,
        task_source=plan.task,
        decoding=plan.decoding,
    )


def cell_key(wanted: RunSettings) -> str:
    """Identifies what is measured: budgets may change without measuring again."""
    return hashlib.sha256(repr(wanted).encode()).hexdigest()[:16]


def unfinished(store: Store, keys: Set[str]) -> tuple[str | None, Mapping[str, str]]:
    """(id, cell key → run) of the newest check that shares a cell with this one, if it is unfinished."""
    for document in store.documents(DocumentKind.CHECK):
        cells = document.body.get("cells", [])
        if clock.now() - document.saved > GOES_ON_FOR:
            break
        if keys.isdisjoint(cell["key"] for cell in cells):
            continue
        if document.complete:
            break
        return document.id, {cell["key"]: cell["run_id"] for cell in cells if cell["run_id"] in document.runs}
    return None, {}
