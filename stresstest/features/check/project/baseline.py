"""What a project's cell is compared with: an earlier run that was good."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from stresstest.config.suggestions import did_you_mean
from stresstest.errors import UsageError
from stresstest.features.check.campaign_match import is_same_server
from stresstest.model import CheckVerdict, DocumentKind, Run, RunStatus, Subject
from stresstest.model.comparison import GateOutcome
from stresstest.store import RunSummary
from stresstest.store.repository import Store

PREVIOUS = "previous"
_REFUSED: tuple[StrEnum, ...] = (GateOutcome.BREACH, CheckVerdict.REGRESSION)
_UNDECIDED: tuple[StrEnum, ...] = (
    GateOutcome.INCONCLUSIVE,
    GateOutcome.MISSING,
    GateOutcome.TROUBLE,
    CheckVerdict.INCONCLUSIVE,
)


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


def rejected_run_ids(store: Store, *, inconclusive: bool = True) -> set[str]:
    """Candidates that no check passed since one did not: as a baseline they would make the next check pass.

    A refusal is lifted by a check against the same baseline that passes, or by a project, whose budgets
    decide over the comparisons that it made, because it is saved after them. A fresh baseline that was surely
    worse than its threshold allows is rejected, too.

    inconclusive: count those that a check could neither pass nor refuse.
    """
    rejected: dict[str, frozenset[str] | None] = {}
    for document in reversed(store.documents(DocumentKind.CHECK)):
        with document.reading() as body:
            if "cells" in body:
                for cell in body["cells"]:
                    _judge(rejected, cell["run_id"], cell["outcome"], None, inconclusive=inconclusive)
                continue
            baseline = frozenset((body.get("baseline") or {}).get("run_ids", ()))
            evidence = body.get("evidence") or {}
            for run_id in body["candidate"]["run_ids"]:
                _judge(rejected, run_id, body["verdict"], baseline, inconclusive=inconclusive)
            if evidence.get("fresh_baseline_broken"):
                rejected[evidence["fresh_baseline"]] = baseline
    return set(rejected)


def _judge(
    rejected: dict[str, frozenset[str] | None],
    run_id: str,
    verdict: str,
    baseline: frozenset[str] | None,
    *,
    inconclusive: bool,
) -> None:
    """Take in the next judgement. rejected: of each rejected run, the baseline that refused it; None where it
    is not refused but undecided, or refused by a project. baseline: None for a project's judgement."""
    if verdict in _REFUSED:
        rejected[run_id] = baseline
    elif verdict in _UNDECIDED:
        if inconclusive:
            rejected.setdefault(run_id, None)
    elif run_id in rejected:
        refused_by = rejected[run_id]
        good = baseline is None or not baseline & rejected.keys()
        if good and (baseline is None or refused_by in (None, baseline)):
            del rejected[run_id]
