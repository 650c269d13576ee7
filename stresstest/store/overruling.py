"""What the results of one model, task and decoding say of each other: which limit is not in force, which
holds only up to some number of requests in flight, and which later one is less."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from stresstest.model import RIGORS
from stresstest.store.records import StoredThreshold


def with_overruling(results: Sequence[StoredThreshold]) -> list[StoredThreshold]:
    """The results, each with the run that overrules it and the load that it holds for."""
    kinds: dict[object, list[StoredThreshold]] = {}
    for each in results:
        kinds.setdefault(_kind(each), []).append(each)
    refusing = {kind: _not_repeated(same) for kind, same in kinds.items()}
    limiting = {kind: [each for each in same if _may_limit(each)] for kind, same in kinds.items()}
    return [
        replace(
            each,
            overruled_by=_overruling_run(each, refusing[_kind(each)]),
            holds_up_to=_smaller_load(each, limiting[_kind(each)]),
        )
        for each in results
    ]


def _kind(stored: StoredThreshold) -> object:
    return stored.subject, stored.decoding, stored.simulated


def _may_limit(stored: StoredThreshold) -> bool:
    """Whether a result may show that others hold for a load only."""
    lowered = stored.latest and stored.threshold.censored_at is None and bool(stored.safe_max_tokens)
    return stored.holds_up_to is not None or lowered


def _smaller_load(stored: StoredThreshold, limiting: list[StoredThreshold]) -> int | None:
    """Requests in flight up to which a limit holds: its run's own word; or its own load, where that of a run
    with no smaller one holds for it only, or where the newest result of the same prompts with a larger one,
    which tolerates no less, certified less than half, because answers failed.

    limiting: those that may show it. None where it holds whatever the load.
    """
    if stored.holds_up_to is not None or not stored.safe_max_tokens:
        return stored.holds_up_to
    for other in limiting:
        if other.holds_up_to is not None and stored.concurrency <= other.holds_up_to:
            return stored.concurrency
        lenient = other.threshold.alpha >= stored.threshold.alpha
        loaded = other.latest and lenient and other.concurrency > stored.concurrency
        alike = other.prompts_digest == stored.prompts_digest and other.threshold.censored_at is None
        if loaded and alike and 0 < 2 * (other.safe_max_tokens or 0) < stored.safe_max_tokens:
            return stored.concurrency
    return None


def _not_repeated(same: list[StoredThreshold]) -> list[StoredThreshold]:
    """Those without a limit, or with one that fits nothing, that were not repeated since: the last measured
    first.

    same: all results of one subject and decoding.
    """
    limits = sorted((s for s in same if s.safe_max_tokens is not None), key=lambda each: -each.order)
    failing = [s for s in same if s.threshold.unfit or not s.safe_max_tokens]
    standing = [s for s in failing if not any(_repeats(each, s) for each in limits)]
    return sorted(standing, key=lambda each: -each.order)


def _overruling_run(stored: StoredThreshold, refusing: list[StoredThreshold]) -> str | None:
    """The last run that speaks against a limit; None for no limit. refusing: as of `_not_repeated`."""
    if not stored.safe_max_tokens:
        return None
    return next((other.run_id for other in refusing if _contradicts(other, stored)), None)


def _contradicts(failing: StoredThreshold, stored: StoredThreshold) -> bool:
    """Whether a result names no safe length, and a limit cannot stand beside it: the model is unfit, more
    failed at the smallest length examined than the limit tolerates, or it repeats the limit's measurement. A
    T without a cap says so where failures set it below the limit."""
    threshold = failing.threshold
    if failing.safe_max_tokens or threshold.unfit:
        return threshold.unfit
    if threshold.tokens is not None:
        return threshold.censored_at is None and threshold.tokens < (stored.safe_max_tokens or 0)
    return threshold.onsets > stored.threshold.alpha * threshold.n or _repeats(failing, stored)


def _repeats(later: StoredThreshold, earlier: StoredThreshold) -> bool:
    """Whether a result was measured after another, at its address, and under a load and with a sample that
    are no smaller; other prompts must be as many."""
    prompts = later.prompts_digest == earlier.prompts_digest
    return (
        later.order > earlier.order
        and later.base_url == earlier.base_url
        and later.concurrency >= earlier.concurrency
        and _planned(later) >= _planned(earlier)
        and (prompts or (later.distinct_prompts or 0) >= (earlier.distinct_prompts or 0))
    )


def _planned(stored: StoredThreshold) -> int:
    rigor = RIGORS.get(stored.rigor)
    return 0 if rigor is None else rigor.planned


def later_lower_limit(
    stored: Sequence[StoredThreshold],
    own: StoredThreshold,
    limit: Callable[[StoredThreshold], int | None],
    *,
    same_load: bool = False,
) -> StoredThreshold | None:
    """The newest of the later results of the same measurement that certified less, because answers failed.

    At each address and load the newest decides. same_load: only at the run's own.
    """
    places: dict[tuple[str, int], StoredThreshold] = {}
    for each in sorted(stored, key=lambda row: row.order):
        if each.order > own.order and _measured_alike(each, own) and limit(each):
            places[each.base_url, each.concurrency] = each
    safe = limit(own) or 0
    less = [
        each
        for each in places.values()
        if (limit(each) or 0) < safe
        and each.threshold.censored_at is None
        and not (same_load and each.concurrency != own.concurrency)
    ]
    return max(less, key=lambda each: each.order, default=None)


def lower_limit_under_load(stored: Sequence[StoredThreshold], own: StoredThreshold) -> StoredThreshold | None:
    """The result of the same measurement with more requests in flight that certified least, if it certified
    less than this run, because answers failed."""
    safe = own.limit or 0
    found = (
        each
        for each in stored
        if each.latest and _measured_alike(each, own) and each.concurrency > own.concurrency
    )
    less = [each for each in found if each.threshold.censored_at is None and 0 < (each.limit or 0) < safe]
    return min(less, key=lambda each: each.limit or 0, default=None)


def _measured_alike(one: StoredThreshold, other: StoredThreshold) -> bool:
    """Whether two results are of the same prompts, decoding and rigor."""
    return (one.decoding, one.simulated, one.rigor, one.prompts_digest) == (
        other.decoding,
        other.simulated,
        other.rigor,
        other.prompts_digest,
    )
