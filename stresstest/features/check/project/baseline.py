"""What a project's cell is compared with: an earlier run that was good."""

from __future__ import annotations

from collections.abc import Sequence

from stresstest.campaign.refusals import rejected_run_ids
from stresstest.config.suggestions import did_you_mean
from stresstest.errors import UsageError
from stresstest.features.check.sides.campaign_match import is_same_server
from stresstest.model import Run, RunStatus, Subject
from stresstest.store import RunSummary
from stresstest.store.repository import Store

PREVIOUS = "previous"


def require_known_baseline(store: Store, named: str) -> None:
    """UsageError for a baseline that nothing stored is called: nothing would ever be compared with it."""
    done = [row for row in store.runs() if row.status is RunStatus.DONE]
    if named == PREVIOUS or any(named in (row.id, row.subject.model) for row in done):
        return
    models = list(dict.fromkeys(row.subject.model for row in done))
    hint = did_you_mean(named, [PREVIOUS, *models]) or "To list the stored runs: stresstest runs list"
    raise UsageError(
        f"[check] baseline = {named!r} is neither a finished run nor a model with one in this store.",
        hint=f"{hint} To begin without a baseline: {PREVIOUS!r}",
    )


def find_cell_baseline(
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
        if by_id.threshold is None or not by_id.threshold.usable:
            return None, f"the baseline {named} has no certified threshold with room for an answer"
        if by_id.id in rejected_run_ids(store, inconclusive=False):
            return None, f"the baseline {named} was rejected by a check: it regressed"
        return store.run(by_id.id), ""
    spoilt = rejected_run_ids(store)
    model = subject.model if named == PREVIOUS else named
    wanted = (Subject(model, subject.task, subject.language), candidate.settings.decoding)
    for row in earlier_runs(store, stored, candidate):
        alike = (row.subject, row.decoding) == wanted and row.simulated == candidate.profile.simulated
        usable = row.threshold is not None and row.threshold.usable
        if not (alike and usable and row.status is RunStatus.DONE) or row.id in spoilt:
            continue
        run = store.run(row.id)
        if not same_address or is_same_server(run, candidate.settings.base_url):
            return run, ""
    where = " at this address" if same_address else ""
    why = f"no earlier certified run of {wanted[0]} with this decoding{where} that passed its checks"
    return None, f"{why} is stored"


def earlier_runs(store: Store, rows: Sequence[RunSummary], run: Run) -> list[RunSummary]:
    """Those of the rows that began before the run: by the store's order, because a clock can be set back."""
    ids = [row.id for row in store.runs()]
    earlier = set(ids[ids.index(run.id) + 1 :] if run.id in ids else ids)
    return [row for row in rows if row.id in earlier]
