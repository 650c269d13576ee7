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

_Refuser = frozenset[str] | str
"""Who refused a run: a check, by the runs or files that it compared with, or one of these."""
_PROJECT = "a project"
_NOBODY = "nobody: a check could neither pass nor refuse it"


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

    Each refusal stands until whoever refused passes the run: a check until one against the same baseline
    passes, a project until a project does, which lifts those of checks, too, because its budgets decide over
    the comparisons that it made. A fresh baseline that was surely worse than its threshold allows is
    rejected, too.

    inconclusive: count those that a check could neither pass nor refuse.
    """
    refusals: dict[str, set[_Refuser]] = {}
    for document in reversed(store.documents(DocumentKind.CHECK)):
        with document.reading() as body:
            if "cells" in body:
                for cell in body["cells"]:
                    _judge(refusals.setdefault(cell["run_id"], set()), cell["outcome"], _PROJECT)
                continue
            side = body.get("baseline") or {}
            baseline = frozenset((*side.get("run_ids", ()), *side.get("files", ())))
            evidence = body.get("evidence") or {}
            may_pass = not any(refusals.get(run_id) for run_id in baseline)
            for run_id in body["candidate"]["run_ids"]:
                own = refusals.setdefault(run_id, set())
                _judge(own, body["verdict"], baseline, may_pass=may_pass)
            if evidence.get("fresh_baseline_broken"):
                for run_id in (evidence["fresh_baseline"], *body["candidate"]["run_ids"]):
                    refusals.setdefault(run_id, set()).add(baseline)
    ignored = set() if inconclusive else {_NOBODY}
    return {run_id for run_id, by in refusals.items() if by - ignored}


def _judge(refusals: set[_Refuser], verdict: str, judge: _Refuser, *, may_pass: bool = True) -> None:
    """Take in the next judgement of a run. refusals: those that stand. may_pass: nothing has refused the
    baseline itself."""
    if verdict in _REFUSED:
        refusals.add(judge)
    elif verdict in _UNDECIDED:
        refusals.add(_NOBODY)
    elif verdict == GateOutcome.UNTESTED:
        refusals.discard(_NOBODY)
    elif judge == _PROJECT:
        refusals.clear()
    elif may_pass:
        refusals -= {judge, _NOBODY}
