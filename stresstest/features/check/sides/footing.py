"""The two sides of a check on one footing: one margin, one server a sample."""

from __future__ import annotations

from dataclasses import replace

from stresstest.campaign.served_model import profile_changes
from stresstest.clock import format_time
from stresstest.errors import UsageError
from stresstest.features.check.sides.campaign_match import is_same_server
from stresstest.features.check.sides.references import Reference
from stresstest.features.check.sides.sample import CheckSample, join_samples
from stresstest.model import Run
from stresstest.statistics import safe_max_tokens
from stresstest.statistics.certify import limit_without_cap


def with_margin(sample: CheckSample, margin: float) -> CheckSample:
    """The sample with its limit less this margin: another one's would be a fall, or hide one."""
    if sample.unit == "words":
        return sample
    found = sample.threshold
    return replace(
        sample,
        safe_max_tokens=safe_max_tokens(found, margin),
        limit_without_cap=limit_without_cap(found, margin),
    )


def refuse_extending(reference: Reference, base_url: str | None) -> None:
    """UsageError for a second look that can add nothing to the first, or is not of the same server."""
    if isinstance(reference, tuple):
        raise UsageError(
            "--extend measures more of the candidate; recorded outputs cannot be extended.",
            hint="Omit it, or record more outputs.",
        )
    if isinstance(reference, Run) and base_url is not None and not is_same_server(reference, base_url):
        raise UsageError(
            f"--extend would mix two servers: run {reference.id} was measured at "
            f"{reference.settings.base_url}, but another address is given.",
            hint="To measure the candidate again there: --measure",
        )


def with_address_note(candidate: CheckSample, base_url: str | None) -> CheckSample:
    """The candidate, with a note where a run was named that is of another address than the one given."""
    run = candidate.run
    if base_url is None or run is None or is_same_server(run, base_url):
        return candidate
    note = f"Run {run.id} was measured at {run.settings.base_url}; the address given now was not used."
    return replace(candidate, notes=(*candidate.notes, note))


def with_age_note(candidate: CheckSample, name: str) -> CheckSample:
    """The candidate, with a note where a model's name stood for a stored run: the server may serve another
    model under that name by now."""
    run = candidate.run
    if run is None or candidate.measured_now or name != run.settings.subject.model:
        return candidate
    note = (
        f"The candidate is run {run.id} of {format_time(run.created)} UTC: what is served now was not asked "
        "(--measure asks it)."
    )
    return replace(candidate, notes=(*candidate.notes, note))


def merge_looks(first: CheckSample, second: CheckSample) -> CheckSample:
    """Both looks as one sample, which decides nothing where something else has answered the second."""
    both = join_samples(first, second)
    if first.run is None or second.run is None:
        return both
    for each in profile_changes(first.run.profile, second.run.profile):
        lacking = f"the two looks differ: {each.name} was {each.before}, is {each.after}"
        return replace(both, lacking=both.lacking or lacking)
    return both
