"""Limits of stored runs that another run of the same model, task and decoding speaks against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from stresstest.model import Diagnosis, RunResult, Subject

if TYPE_CHECKING:
    from stresstest.store import StoredThreshold
    from stresstest.store.repository import Store


def beside_others(store: Store, result: RunResult) -> RunResult:
    """The result, without a cap where another stored run speaks against it; a later one that certified less
    is noted."""
    safe = result.safe_max_tokens
    if safe is None:
        return result
    stored = _of_subject(store, result.run.settings.subject)
    result = without_overruled_cap(result, _overruled(stored))
    own = next((each for each in stored if each.run_id == result.run.id), None)
    if own is None or result.safe_max_tokens is None:
        return result
    less = [
        each
        for each in stored
        if each.order > own.order
        and (each.decoding, each.simulated) == (own.decoding, own.simulated)
        and 0 < (each.limit or 0) < safe
    ]
    if not less:
        return result
    last = max(less, key=lambda each: each.order)
    note = (
        f"The later run {last.run_id} at {last.base_url} ({last.concurrency} in flight) found only "
        f"{last.limit:,} for the same model, task and decoding: {safe:,} is what held before."
    )
    return replace(result, notes=(note, *result.notes))


def diagnosis_beside_others(store: Store, found: Diagnosis, subject: Subject) -> Diagnosis:
    """The diagnosis, without the limit measured for its remedy where another run speaks against it.

    subject: of the run and of its remedy's, which may have been deleted.
    """
    if found.safe_run is None or found.safe_max_tokens is None:
        return found
    against = found.safe_run in _overruled(_of_subject(store, subject))
    return replace(found, safe_max_tokens=None) if against else found


def overruling_runs(store: Store) -> dict[str, str]:
    """By the ids of the runs whose limits are not in force: the run that speaks against each."""
    return _overruled(store.thresholds())


def _of_subject(store: Store, subject: Subject) -> list[StoredThreshold]:
    return store.thresholds(model=subject.model, task=subject.task, language=subject.language)


def _overruled(stored: Iterable[StoredThreshold]) -> dict[str, str]:
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
