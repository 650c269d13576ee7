"""The two sides of a check on one footing: one margin, one server a sample."""

from __future__ import annotations

from dataclasses import replace

from stresstest.errors import UsageError
from stresstest.model import Run
from stresstest.threshold import safe_max_tokens
from stresstest.workflows.check_find import Reference
from stresstest.workflows.check_same import same_server
from stresstest.workflows.check_sample import Sample, joined
from stresstest.workflows.served import changes


def under_margin(sample: Sample, margin: float) -> Sample:
    """The sample with its limit less this margin: another one's would be a fall, or hide one."""
    if sample.unit == "words":
        return sample
    return replace(sample, safe_max_tokens=safe_max_tokens(sample.threshold, margin))


def refuse_extending(reference: Reference, base_url: str | None) -> None:
    """UsageError for a second look that can add nothing to the first, or is not of the same server."""
    if isinstance(reference, tuple):
        raise UsageError(
            "--extend measures more of the candidate, and recorded outputs cannot be extended.",
            hint="Leave it out, or record more.",
        )
    if isinstance(reference, Run) and base_url is not None and not same_server(reference, base_url):
        raise UsageError(
            f"--extend would mix two servers: run {reference.id} was measured at "
            f"{reference.settings.base_url}, and another address is given.",
            hint="Measure the candidate anew there: --measure",
        )


def noted_elsewhere(candidate: Sample, base_url: str | None) -> Sample:
    """The candidate, with a note where a run was named that is of another address than the one given."""
    run = candidate.run
    if base_url is None or run is None or same_server(run, base_url):
        return candidate
    note = f"Run {run.id} was measured at {run.settings.base_url}: the address given now was not asked."
    return replace(candidate, notes=(*candidate.notes, note))


def two_looks(first: Sample, second: Sample) -> Sample:
    """Both looks as one sample, which decides nothing where something else has answered the second."""
    both = joined(first, second)
    if first.run is None or second.run is None:
        return both
    for each in changes(first.run.profile, second.run.profile):
        lacking = f"the two looks are not of the same: {each.name} was {each.before}, is {each.after}"
        return replace(both, lacking=both.lacking or lacking)
    return both
