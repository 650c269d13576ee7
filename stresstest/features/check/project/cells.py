"""A project's cells as campaigns, and what an unfinished check has measured of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Set
from dataclasses import replace

from stresstest import clock
from stresstest.campaign.prompt_source import load_prompt_source
from stresstest.campaign.provenance.age import RESUME_WINDOW_S
from stresstest.model import DocumentKind, RunSettings, Subject
from stresstest.model.comparison import CellPlan, GateOutcome
from stresstest.store.repository import Store
from stresstest.tasks import load_prompts, load_task


def settings_for_cell(plan: CellPlan, settings: RunSettings) -> RunSettings:
    """The campaign of a cell: the run options with the cell's own in place."""
    file = settings.prompts_file
    task = settings.subject.task if file else load_task(plan.task).name
    return replace(
        settings,
        subject=Subject(plan.model, task, plan.language),
        base_url=plan.base_url or settings.base_url,
        task_source=plan.task,
        decoding=load_prompts(file).decoding(plan.decoding) if file else plan.decoding,
    )


def cell_key(wanted: RunSettings) -> str:
    """Identifies what is measured, down to the text of its prompts: budgets may change without measuring
    again."""
    content = f"{wanted!r}\n{load_prompt_source(wanted).digest()}"
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def find_unfinished_check(store: Store, keys: Set[str]) -> tuple[str | None, Mapping[str, str]]:
    """(id, cell key → run) of the newest check that shares a cell with this one, if it is unfinished.

    No id where its document must stay as it is: it holds other cells, or has refused a run.
    """
    for document in store.documents(DocumentKind.CHECK):
        with document.reading() as body:
            cells = body.get("cells", ())
            known = {cell["key"]: cell["run_id"] for cell in cells}
            kept = any(cell["key"] not in keys or cell["outcome"] == GateOutcome.BREACH for cell in cells)
        if not clock.is_within(document.saved, RESUME_WINDOW_S):
            break
        if keys.isdisjoint(known):
            continue
        if document.complete:
            break
        name = None if kept else document.id
        return name, {key: run_id for key, run_id in known.items() if run_id in document.runs}
    return None, {}
