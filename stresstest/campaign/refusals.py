"""Which runs a check has refused, and nobody has passed since; and which it warned about."""

from __future__ import annotations

from collections.abc import Set
from enum import StrEnum

from stresstest.model import CheckVerdict, DocumentKind
from stresstest.model.comparison import BudgetName, GateOutcome
from stresstest.store.repository import Store

_REFUSED: tuple[StrEnum, ...] = (GateOutcome.BREACH, CheckVerdict.REGRESSION)
_UNDECIDED: tuple[StrEnum, ...] = (
    GateOutcome.INCONCLUSIVE,
    GateOutcome.MISSING,
    GateOutcome.TROUBLE,
    CheckVerdict.INCONCLUSIVE,
)

_COMPARING = (BudgetName.MAX_DROP, BudgetName.MAX_INCREASE)

_Refuser = frozenset[str] | str
"""Who refused a run: a check, by the runs or files that it compared with, or one of these."""
_PROJECT = "a project"
_NOBODY = "nobody: a check could neither pass nor refuse it"


def rejected_run_ids(store: Store, *, inconclusive: bool = True) -> set[str]:
    """Candidates that no check passed since one did not: as a baseline they would make the next check pass.

    Each refusal stands until whoever refused passes the run: a check until one against the same baseline
    passes, a project until a project does, which lifts those of checks, too, because its budgets decide over
    the comparisons that it made. What passed only beside a baseline that was refused itself is not decided. A
    fresh baseline that was surely worse than its threshold allows is rejected, too.

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
            standing = set[_Refuser]().union(*(refusals.get(run_id, ()) for run_id in baseline))
            for run_id in body["candidate"]["run_ids"]:
                own = refusals.setdefault(run_id, set())
                _judge(own, body["verdict"], baseline, standing)
            if evidence.get("fresh_baseline_broken"):
                for run_id in (evidence["fresh_baseline"], *body["candidate"]["run_ids"]):
                    refusals.setdefault(run_id, set()).add(baseline)
    ignored = set() if inconclusive else {_NOBODY}
    return {run_id for run_id, by in refusals.items() if by - ignored}


def warned_comparison(store: Store, run_id: str) -> str | None:
    """What a project's newest check of a run found to be worse than its baseline, and only warned about."""
    for document in store.documents(DocumentKind.CHECK):
        with document.reading() as body:
            for cell in (each for each in body.get("cells", ()) if each["run_id"] == run_id):
                breached = [
                    each["sentence"]
                    for each in cell["budgets"]
                    if each["name"] in _COMPARING and each["outcome"] == GateOutcome.WARNING
                ]
                return "; ".join(breached) or None
    return None


def _judge(
    refusals: set[_Refuser], verdict: str, judge: _Refuser, standing: Set[_Refuser] = frozenset()
) -> None:
    """Take in the next judgement of a run. refusals: those that stand. standing: those of the baseline."""
    if verdict in _REFUSED:
        refusals.add(judge)
    elif verdict in _UNDECIDED or (verdict == CheckVerdict.PASS and standing - {_NOBODY}):
        refusals.add(_NOBODY)
    elif verdict == GateOutcome.UNTESTED:
        refusals.discard(_NOBODY)
    elif judge == _PROJECT:
        refusals.clear()
    elif not standing:
        refusals -= {judge, _NOBODY}
