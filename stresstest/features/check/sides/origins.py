"""Runs that a sweep or a check chose to measure: no baseline by their model's name beside a user's own."""

from __future__ import annotations

from collections.abc import Sequence

from stresstest.features.check.sides.sample import CheckSample
from stresstest.model import DocumentKind
from stresstest.store.repository import Store


def derived_runs(store: Store) -> dict[str, str]:
    """What measured each run that no user began for itself: "a cell of sweep …", "the candidate of check …".

    Projects are left out: a run that met a project's budgets is what the next one is compared with.
    """
    found: dict[str, str] = {}
    for document in store.documents(DocumentKind.SWEEP):
        with document.reading() as body:
            made = body.get("began") or ()
        found |= dict.fromkeys(made, f"a cell of sweep {document.id}")
    for document in store.documents(DocumentKind.CHECK):
        with document.reading() as body:
            side = body.get("candidate", {})
            made = side["run_ids"] if side.get("measured_now") else []
        found |= dict.fromkeys(made, f"the candidate of check {document.id}")
    return found


def origin_notes(store: Store, baseline: CheckSample, words: Sequence[str]) -> tuple[str, ...]:
    """A note where a model's name, or "latest", stood for a run that no user began for itself."""
    run = baseline.run
    if run is None or run.id.startswith(words[0]) or run.id not in (origins := derived_runs(store)):
        return ()
    return (
        f"The baseline is run {run.id}, {origins[run.id]}, and not a run that you began yourself. To choose "
        f"another run, give its id.",
    )
