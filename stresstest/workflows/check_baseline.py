"""What a project's cell is compared with: an earlier run that was good."""

from __future__ import annotations

from stresstest.model import CheckVerdict, DocumentKind, Run, RunStatus, Subject
from stresstest.model.gate import GOOD
from stresstest.store.repository import Store

PREVIOUS = "previous"


def baseline_for(store: Store, candidate: Run, named: str) -> tuple[Run | None, str]:
    """The run to compare with, or why there is none.

    named: a run id; "previous" for the newest earlier certified run of the candidate's own cell that no check
    has refused; or the name of a model, for its newest such run.
    """
    subject = candidate.settings.subject
    stored = store.runs()
    by_id = next((row for row in stored if row.id == named), None)
    if by_id is not None:
        if (by_id.subject.task, by_id.subject.language) != (subject.task, subject.language):
            return None, f"the baseline {named} is of {by_id.subject}"
        return store.run(by_id.id), f"the baseline {named} has no certified threshold"
    spoilt = refused(store)
    model = subject.model if named == PREVIOUS else named
    wanted = (Subject(model, subject.task, subject.language), candidate.settings.decoding)
    for row in stored:
        alike = (row.subject, row.decoding) == wanted and row.simulated == candidate.profile.simulated
        certified = row.threshold is not None and row.threshold.certified
        earlier = row.status is RunStatus.DONE and row.created < candidate.created
        if alike and certified and earlier and row.id not in spoilt:
            return store.run(row.id), ""
    return None, f"no earlier certified run of {wanted[0]} under this decoding is stored"


def refused(store: Store) -> set[str]:
    """Candidates that their newest check did not pass: as a baseline they would make the next check pass.

    Where a project has judged a run, its budgets decide; else the verdict of a check of two.
    """
    bodies = [document.body for document in store.documents(DocumentKind.CHECK)]
    judged: dict[str, bool] = {}
    for cell in (cell for body in bodies for cell in body.get("cells", ())):
        judged.setdefault(cell["run_id"], cell["outcome"] in GOOD)
    for body in (body for body in bodies if "cells" not in body):
        for run_id in body["candidate"]["run_ids"]:
            judged.setdefault(run_id, body["verdict"] == CheckVerdict.PASS)
    return {run_id for run_id, good in judged.items() if not good}
