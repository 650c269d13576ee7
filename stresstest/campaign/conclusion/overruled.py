"""Limits of stored runs that another run of the same model, task and decoding speaks against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from stresstest.campaign.conclusion.chance import chance_note, results_beside, results_of_subject
from stresstest.errors import StoreError
from stresstest.model import Diagnosis, RunResult, Subject
from stresstest.store.overruling import later_lower_limit, lower_limit_under_load

if TYPE_CHECKING:
    from stresstest.store import StoredThreshold
    from stresstest.store.repository import Store

_UNREAD = "Whether another stored run speaks against this limit is not known"


def beside_others(store: Store, result: RunResult) -> RunResult:
    """The result, without a cap where another stored run speaks against it; a later one that certified less
    is noted, and that T may be chance. A diagnosed run does not speak against the run that its own diagnosis
    made of its remedy."""
    if not result.threshold.certified and result.thinking is None:
        return result
    try:
        stored = results_of_subject(store, result.run.settings.subject)
        chance = chance_note(result, results_beside(store, stored, result.run, result.threshold))
    except StoreError as error:
        return replace(result, notes=(f"{_UNREAD}: {error}", *result.notes))
    if chance is not None:
        result = replace(result, notes=(chance, *result.notes))
    overruling = _overruled(stored)
    if overruling.get(result.run.id) != result.run.settings.parent:
        result = without_overruled_cap(result, overruling)
    own = next((each for each in stored if each.run_id == result.run.id), None)
    if own is None:
        return result
    result = replace(result, holds_up_to=own.holds_up_to)
    notes = []
    less = later_lower_limit(stored, own, lambda each: each.limit)
    if less is not None:
        notes.append(_less_words(less, less.limit or 0, result.safe_max_tokens, "a safe max_tokens"))
    loaded = lower_limit_under_load(stored, own)
    if loaded is not None and loaded is not less:
        notes.append(
            f"Run {loaded.run_id} had {loaded.concurrency} requests in flight and certified a safe "
            f"max_tokens of only {loaded.limit or 0:,}: this limit is that of "
            f"{result.run.settings.in_flight} in flight."
        )
    if result.thinking is not None and (less := later_lower_limit(stored, own, _thinking_limit)):
        budget = result.thinking.safe_tokens
        notes.append(_less_words(less, _thinking_limit(less) or 0, budget, "a thinking budget"))
    return replace(result, notes=(*notes, *result.notes)) if notes else result


def diagnosis_beside_others(store: Store, found: Diagnosis, subject: Subject) -> Diagnosis:
    """The diagnosis with the limit of its remedy that is in force: none where another run speaks against it
    (not the diagnosed one itself), and that of a later run under the same load which certified less.

    subject: of the run and of its remedy's, which may have been deleted.
    """
    if found.safe_run is None or found.safe_max_tokens is None:
        return found
    try:
        stored = results_of_subject(store, subject)
    except StoreError as error:
        return replace(found, notes=(*found.notes, f"{_UNREAD}: {error}"))
    own = {found.run_id, *(link.run_id for link in found.chain)}
    if _overruled(stored).get(found.safe_run, found.run_id) not in own:
        return replace(found, safe_max_tokens=None)
    remedy = next((each for each in stored if each.run_id == found.safe_run), None)
    less = remedy and later_lower_limit(stored, remedy, lambda each: each.limit, same_load=True)
    if less is None:
        return found
    return replace(
        found,
        safe_max_tokens=less.limit,
        safe_run=less.run_id,
        safe_n=less.threshold.n,
        safe_threshold=less.threshold,
    )


def _thinking_limit(stored: StoredThreshold) -> int | None:
    return None if stored.thinking is None or stored.overruled_by else stored.thinking.safe_tokens


def _less_words(later: StoredThreshold, found: int, before: int | None, what: str) -> str:
    return (
        f"The later run {later.run_id} at {later.base_url} ({later.concurrency} in flight) certified {what} "
        f"of only {found:,} for the same model, task and decoding, where this one certified {before or 0:,}."
    )


def overruling_runs(store: Store) -> dict[str, str]:
    """By the ids of the runs whose limits are not in force: the run that speaks against each."""
    return _overruled(store.thresholds())


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
