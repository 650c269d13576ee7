"""What a project's cell is compared with: an earlier run that was good."""

from __future__ import annotations

import difflib

from stresstest.errors import UsageError
from stresstest.model import CheckVerdict, DocumentKind, Run, RunStatus, Subject
from stresstest.model.gate import GOOD
from stresstest.store.repository import Store
from stresstest.workflows.check_same import same_server

PREVIOUS = "previous"


def require_known(store: Store, named: str) -> None:
    """UsageError for a baseline that nothing stored is called: nothing would ever be compared with it."""
    done = [row for row in store.runs() if row.status is RunStatus.DONE]
    if named == PREVIOUS or any(named in (row.id, row.subject.model) for row in done):
        return
    models = list(dict.fromkeys(row.subject.model for row in done))
    close = difflib.get_close_matches(named, [PREVIOUS, *models], n=1)
    hint = f"Did you mean {close[0]!r}?" if close else "See: stresstest runs list"
    raise UsageError(
        f"[check] baseline = {named!r} is neither a finished run nor a model with one in this store.",
        hint=f"{hint} To begin without a baseline: {PREVIOUS!r}",
    )


def baseline_for(
    store: Store, candidate: Run, named: str, *, same_address: bool = False
) -> tuple[Run | None, str]:
    """The run to compare with, or why there is none.

    named: a run id; "previous" for the newest earlier certified run of the candidate's own cell that no check
    has refused; or the name of a model, for its newest such run. same_address: "previous" only from the
    candidate's server, where cells differ by nothing else.
    """
    subject = candidate.settings.subject
    stored = store.runs()
    by_id = next((row for row in stored if row.id == named), None)
    if by_id is not None:
        if (by_id.subject.task, by_id.subject.language) != (subject.task, subject.language):
            return None, f"the baseline {named} is of {by_id.subject}"
        if by_id.threshold is None or not by_id.threshold.certified:
            return None, f"the baseline {named} has no certified threshold"
        return store.run(by_id.id), ""
    spoilt = refused(store)
    model = subject.model if named == PREVIOUS else named
    wanted = (Subject(model, subject.task, subject.language), candidate.settings.decoding)
    for row in stored:
        alike = (row.subject, row.decoding) == wanted and row.simulated == candidate.profile.simulated
        certified = row.threshold is not None and row.threshold.certified
        earlier = row.status is RunStatus.DONE and row.created < candidate.created
        if not (alike and certified and earlier) or row.id in spoilt:
            continue
        run = store.run(row.id)
        if not same_address or same_server(run, candidate.settings.base_url):
            return run, ""
    where = " at this address" if same_address else ""
    why = f"no earlier certified run of {wanted[0]} under this decoding{where} that no check refused"
    return None, f"{why} is stored"


def refused(store: Store) -> set[str]:
    """Candidates that their newest check did not pass: as a baseline they would make the next check pass.

    Where a project has judged a run, its budgets decide; else the verdict of a check of two. So is a
    fresh baseline that was surely worse than what it stands for.
    """
    bodies = [document.body for document in store.documents(DocumentKind.CHECK)]
    judged: dict[str, bool] = {}
    for cell in (cell for body in bodies for cell in body.get("cells", ())):
        judged.setdefault(cell["run_id"], cell["outcome"] in GOOD)
    for body in (body for body in bodies if "cells" not in body):
        for run_id in body["candidate"]["run_ids"]:
            judged.setdefault(run_id, body["verdict"] == CheckVerdict.PASS)
        evidence = body.get("evidence") or {}
        if evidence.get("fresh_baseline_broken"):
            judged.setdefault(evidence["fresh_baseline"], False)
    return {run_id for run_id, good in judged.items() if not good}
