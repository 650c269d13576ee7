"""Limits of stored runs that another run of the same model, task and decoding speaks against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from stresstest.model import Diagnosis, RunResult, Subject

if TYPE_CHECKING:
    from stresstest.store.repository import Store


def beside_others(store: Store, result: RunResult) -> RunResult:
    """The result, without a cap where another stored run speaks against it."""
    if result.safe_max_tokens is None:
        return result
    return without_overruled_cap(result, overruling_runs(store, result.run.settings.subject))


def diagnosis_beside_others(store: Store, found: Diagnosis) -> Diagnosis:
    """The diagnosis, without the limit measured for its remedy where another run speaks against it."""
    if found.safe_run is None or found.safe_max_tokens is None:
        return found
    subject = store.run(found.safe_run).settings.subject
    against = found.safe_run in overruling_runs(store, subject)
    return replace(found, safe_max_tokens=None) if against else found


def overruling_runs(store: Store, subject: Subject | None = None) -> dict[str, str]:
    """By the ids of the runs whose limits are not in force: the run that speaks against each."""
    stored = (
        store.thresholds()
        if subject is None
        else store.thresholds(model=subject.model, task=subject.task, language=subject.language)
    )
    return {each.run_id: each.overruled_by for each in stored if each.overruled_by is not None}


def without_overruled_cap(result: RunResult, overruling: Mapping[str, str]) -> RunResult:
    """A run whose limit is not in force recommends no cap, and names the run that speaks against it.

    overruling: as of `overruling_runs`.
    """
    run = overruling.get(result.run.id)
    if run is None or result.safe_max_tokens is None:
        return result
    why = (
        f"{result.safe_max_tokens:,} does not hold, since run {run} of the same model, task and decoding "
        f"found no safe length (repeat that one: same address, no smaller load or sample)"
    )
    return replace(
        result,
        safe_max_tokens=None,
        threshold=replace(result.threshold, withheld=why),
        thinking=None,
        overruled_by=run,
    )
