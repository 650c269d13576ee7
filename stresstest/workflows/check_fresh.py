"""A baseline measured anew for pairs: is it the baseline, and does it still keep its own threshold?"""

from __future__ import annotations

from dataclasses import replace

from stresstest.errors import UsageError
from stresstest.model import Changed, CheckVerdict, Comparison
from stresstest.store.repository import Store
from stresstest.threshold.assessment import Rule, broken_promise
from stresstest.workflows.check_differences import QUANTIZATION, differences
from stresstest.workflows.check_sample import Sample, sample_of_run

_OTHER_MODEL = ("model", "root", QUANTIZATION, "server's sampling defaults")
"""With one of these changed it is no second run of the baseline."""


def fresh_baseline(store: Store, reference: str, baseline: Sample) -> tuple[Sample, tuple[Changed, ...]]:
    """The baseline measured anew, and what else was different then.

    Raises UsageError when it is the run that chose T, is of something else, or decides nothing.
    """
    run = store.run(reference)
    if run.id in baseline.run_ids:
        raise UsageError(f"--fresh-baseline {run.id} is the run that chose T: it cannot test it.")
    fresh = sample_of_run(store, run.id)
    if fresh.lacking is not None:
        raise UsageError(f"--fresh-baseline {run.id} cannot be used: {fresh.lacking}")
    if fresh.subject != baseline.subject:
        raise UsageError(f"--fresh-baseline {run.id} is of {fresh.subject}, not of {baseline.subject}.")
    changed = differences(baseline, fresh, ())
    for each in changed:
        if each.name in _OTHER_MODEL:
            raise UsageError(
                f"--fresh-baseline {run.id} is no second run of the baseline: {each.name} was "
                f"{each.before or 'not known'}, is {each.after or 'not known'}.",
                hint="Measure the baseline anew as it was served, or leave out --fresh-baseline.",
            )
    return fresh, tuple(replace(each, name=f"fresh baseline, {each.name}") for each in changed)


def refuse_same(fresh: Sample | None, candidate_ids: tuple[str, ...]) -> None:
    """UsageError where the candidate is its own fresh baseline: it would differ by nothing."""
    for run_id in () if fresh is None else fresh.run_ids:
        if run_id in candidate_ids:
            raise UsageError(
                f"Run {run_id} is candidate and fresh baseline: against itself it differs by nothing.",
                hint="Measure the baseline anew, as it was served before, or leave out --fresh-baseline.",
            )


def held_to_its_promise(found: Comparison, fresh: Sample | None) -> Comparison:
    """The comparison; never a pass where the fresh baseline itself breaks what T was certified for.

    The evidence says so: a run that breaks it is no baseline for later checks.
    """
    if fresh is None or found.at_tokens is None:
        return found
    rule = Rule(found.at_tokens, found.alpha, found.max_increase, found.confidence)
    broken = broken_promise(fresh.observations, rule)
    if broken is None:
        return found
    found = replace(found, evidence={**found.evidence, "fresh_baseline_broken": broken})
    if found.tested is CheckVerdict.PASS:
        return replace(found, tested=CheckVerdict.INCONCLUSIVE, lacking=broken)
    return replace(found, notes=(*found.notes, broken))
