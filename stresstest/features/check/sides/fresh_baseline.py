"""A baseline measured again for pairs: is it the baseline, and does it still keep its own threshold?"""

from __future__ import annotations

from dataclasses import replace

from stresstest.errors import UsageError
from stresstest.features.check.differences import QUANTIZATION, find_differences
from stresstest.features.check.sides.sample import CheckSample, sample_of_run
from stresstest.model import ChangedSetting, CheckVerdict, Comparison
from stresstest.statistics.assessment import CheckRule, baseline_objection
from stresstest.store.repository import Store

_MODEL_IDENTITY = ("model", "root", QUANTIZATION, "server's sampling defaults")
"""With one of these changed it is not a second run of the baseline."""


def load_fresh_baseline(
    store: Store, reference: str, baseline: CheckSample
) -> tuple[CheckSample, tuple[ChangedSetting, ...]]:
    """The baseline measured again, and what else was different then.

    Raises UsageError when it is the run that chose T, is of something else, or decides nothing.
    """
    run = store.run(reference)
    if run.id in baseline.run_ids:
        raise UsageError(f"--fresh-baseline {run.id} is the run that determined T, so it cannot test T.")
    fresh = sample_of_run(store, run.id)
    if fresh.lacking is not None:
        raise UsageError(f"--fresh-baseline {run.id} cannot be used: {fresh.lacking}")
    if fresh.subject != baseline.subject:
        raise UsageError(f"--fresh-baseline {run.id} measured {fresh.subject}, not {baseline.subject}.")
    changed = find_differences(baseline, fresh, ())
    for each in changed:
        if each.name in _MODEL_IDENTITY:
            raise UsageError(
                f"--fresh-baseline {run.id} is not a second run of the baseline: {each.name} was "
                f"{each.before or 'not known'}, is {each.after or 'not known'}.",
                hint="Measure the baseline again with the same server settings, or omit --fresh-baseline.",
            )
    return fresh, tuple(replace(each, name=f"fresh baseline, {each.name}") for each in changed)


def refuse_candidate_as_baseline(fresh: CheckSample | None, candidate_ids: tuple[str, ...]) -> None:
    """UsageError where the candidate is its own fresh baseline: it would differ by nothing."""
    for run_id in () if fresh is None else fresh.run_ids:
        if run_id in candidate_ids:
            raise UsageError(
                f"Run {run_id} is both the candidate and the fresh baseline; compared with itself, it "
                f"shows no difference.",
                hint="Measure the baseline again with the same server settings, or omit --fresh-baseline.",
            )


def withhold_pass_if_baseline_failed(found: Comparison, fresh: CheckSample | None) -> Comparison:
    """The comparison; never a pass where the fresh baseline itself breaks what T was certified for.

    The evidence says so: a run that breaks it cannot be the baseline of later checks.
    """
    if fresh is None or found.at_tokens is None:
        return found
    rule = CheckRule(found.at_tokens, found.alpha, found.max_increase, found.confidence)
    broken = baseline_objection(fresh.observations, rule)
    if broken is None:
        return found
    found = replace(found, evidence={**found.evidence, "fresh_baseline_broken": broken})
    if found.tested is CheckVerdict.PASS:
        return replace(found, tested=CheckVerdict.INCONCLUSIVE, lacking=broken)
    return replace(found, notes=(*found.notes, broken))
