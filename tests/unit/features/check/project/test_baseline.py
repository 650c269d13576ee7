"""What a project's cell is compared with: the newest earlier run that was good, never one that failed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from stresstest.campaign.progress import Progress
from stresstest.campaign.provenance.age import RESUME_WINDOW_S
from stresstest.campaign.refusals import rejected_run_ids
from stresstest.clock import now
from stresstest.errors import StoreError
from stresstest.features.check.project.baseline import find_cell_baseline
from stresstest.features.check.project.cells import (
    cell_key,
    find_unfinished_check,
    settings_for_cell,
)
from stresstest.features.check.project.workflow import _ProjectCheckSession
from stresstest.model import (
    Decoding,
    DocumentKind,
    PlaneVerdict,
    Run,
    RunSettings,
    RunStatus,
    Subject,
    Threshold,
)
from stresstest.model.comparison import CellOutcome, CellPlan, Project
from stresstest.store.repository import Store
from tests.support.stored_data import SUBJECT, make_run

NOTHING = PlaneVerdict(None, None, "Nothing fails.")


def add(store: Store, name: str, created: float, *, certified: bool = True, **more: Any) -> Run:
    """A finished run with its threshold."""
    run = replace(make_run(name, created=created, **more), status=RunStatus.DONE)
    store.create_run(run)
    tokens = 2000 if certified else None
    store.save_threshold(name, Threshold(0.05, 0.95, tokens, 124, 0, 0.02, certified), tokens, NOTHING)
    return run


def judged(store: Store, run_id: str, outcome: str, *, saved: float) -> None:
    """A project's check that came to this for the run."""
    body = {"verdict": "pass", "cells": [{"key": "k", "run_id": run_id, "outcome": outcome}]}
    store.save_document(DocumentKind.CHECK, body, runs=[run_id], saved=saved)


def named(store: Store, candidate: Run, baseline: str = "previous") -> str | None:
    found, why = find_cell_baseline(store, candidate, baseline)
    assert found is not None or why
    return None if found is None else found.id


def test_previous_is_the_newest_earlier_certified_run_of_the_same_cell(store: Store) -> None:
    """Not itself, no later one, none of another language, model or kind of server, none uncertified."""
    candidate = add(store, "new", 500.0)
    assert named(store, candidate) is None
    add(store, "old", 100.0)
    add(store, "good", 200.0)
    add(store, "uncertified", 300.0, certified=False)
    add(store, "english", 310.0, subject=Subject("lab", "narrative", "en"))
    add(store, "simulated", 320.0, simulated=True)
    add(store, "other", 330.0, subject=Subject("other", "narrative", "it"))
    add(store, "later", 600.0)
    assert named(store, candidate) == "good"
    assert named(store, candidate, "other") == "other"
    assert named(store, candidate, "old") == "old"
    assert named(store, candidate, "english") is None


@pytest.mark.parametrize("outcome", ["breach", "inconclusive", "trouble"])
def test_a_candidate_that_did_not_pass_is_never_the_next_baseline(store: Store, outcome: str) -> None:
    """Else a failed check, run again, would compare the bad model with itself and pass."""
    add(store, "good", 100.0)
    add(store, "bad", 200.0)
    candidate = add(store, "again", 300.0)
    judged(store, "bad", outcome, saved=1.0)
    assert named(store, candidate) == "good"
    judged(store, "bad", "pass", saved=2.0)
    assert named(store, candidate) == "bad", "accepted by other budgets since"


def test_the_verdict_of_a_check_of_two_counts_where_no_project_has_judged(store: Store) -> None:
    """A regression found by hand is none the less one; a project's own budgets go before it."""
    add(store, "good", 100.0)
    add(store, "bad", 200.0)
    candidate = add(store, "new", 300.0)
    body = {"verdict": "regression", "candidate": {"run_ids": ["bad"]}}
    store.save_document(DocumentKind.CHECK, body, runs=["bad"], saved=5.0)
    assert named(store, candidate) == "good"
    judged(store, "bad", "pass", saved=1.0)
    assert named(store, candidate) == "bad"


def test_only_a_fresh_unfinished_check_is_gone_on_with(store: Store) -> None:
    """An old one was of another day's server; a complete one is over; one of other cells is another's."""
    settings = RunSettings(SUBJECT, "http://x/v1", "narrative")
    plan = CellPlan("lab", "narrative", "it", "default", Decoding())
    key = cell_key(settings_for_cell(plan, settings))
    add(store, "r1", 100.0)
    body = {"verdict": "inconclusive", "cells": [{"key": key, "run_id": "r1", "outcome": "pass"}]}

    def keep(complete: bool, saved: float) -> None:
        store.save_document(DocumentKind.CHECK, body, complete=complete, runs=["r1"], id="c", saved=saved)

    keep(False, now() - RESUME_WINDOW_S - 60)
    assert find_unfinished_check(store, {key}) == (None, {})
    keep(True, now())
    assert find_unfinished_check(store, {key}) == (None, {})
    keep(False, now())
    assert find_unfinished_check(store, {key}) == ("c", {key: "r1"})
    assert find_unfinished_check(store, {"another"}) == (None, {})


@pytest.mark.parametrize("other", [{"outcome": "breach"}, {"key": "another"}], ids=["refused", "other cells"])
def test_what_an_unfinished_check_has_refused_stays(store: Store, other: dict[str, str]) -> None:
    """`check --lang en` after a check of two languages was killed wrote over its document: the run that it
    had refused in the other language was a baseline."""
    add(store, "r1", 100.0)
    cells: list[dict[str, Any]] = [
        {"key": "k", "run_id": "r1", "outcome": "missing"} | other,
        {"key": "l", "run_id": None, "outcome": "missing"},
    ]
    store.save_document(
        DocumentKind.CHECK, {"cells": cells}, complete=False, runs=["r1"], id="c", saved=now()
    )
    name, runs = find_unfinished_check(store, {"k", "l"})
    assert name is None
    assert runs == {cells[0]["key"]: "r1"}


def test_a_run_that_a_check_left_behind_is_no_baseline(store: Store) -> None:
    """Interrupted at a bad server that was then restarted, the check began another run in the same document:
    `run --resume` finished the first, and the next check passed the bad server against it."""
    settings = RunSettings(SUBJECT, "http://x/v1", "narrative")
    plan = CellPlan("lab", "narrative", "it", "default", Decoding())
    key = cell_key(settings_for_cell(plan, settings))
    left, anew = add(store, "r1", now() - 60), add(store, "r2", now())
    body = {"cells": [{"key": key, "run_id": left.id, "outcome": "missing"}]}
    store.save_document(DocumentKind.CHECK, body, complete=False, runs=[left.id], id="c", saved=now())
    session = _ProjectCheckSession(Project((plan,)), settings, store, Progress(), None, asyncio.Event())
    session.load_reusable_runs()
    cells = [CellOutcome(plan, SUBJECT, key, left.id)]
    session._save(cells)
    assert session.id == "c"
    session._begin(cells, 0, anew)
    assert session.id != "c"
    first = session.id
    session._begin(cells, 0, anew)
    assert session.id == first
    assert rejected_run_ids(store) == {left.id, anew.id}


@pytest.mark.parametrize(("hours", "counts"), [(11, True), (13, False), (-300, False)])
def test_a_cell_counts_for_twelve_hours_however_often_the_check_goes_on(
    store: Store, hours: int, counts: bool
) -> None:
    """With a server that never answers the check stayed unfinished for days, and went on each time. A run of
    the future is of a clock that was set back since, and of any age."""
    settings = RunSettings(SUBJECT, "http://x/v1", "narrative")
    plan = CellPlan("lab", "narrative", "it", "default", Decoding())
    wanted = settings_for_cell(plan, settings)
    run = add(store, "r1", now() - hours * 3600)
    body = {"cells": [{"key": cell_key(wanted), "run_id": "r1", "outcome": "pass"}]}
    store.save_document(DocumentKind.CHECK, body, complete=False, runs=["r1"], id="c", saved=now())
    session = _ProjectCheckSession(Project((plan,)), settings, store, Progress(), None, asyncio.Event())
    session.load_reusable_runs()
    assert session._find_finished_run(wanted) == (store.run(run.id) if counts else None)


@pytest.mark.parametrize(
    "body",
    [
        {"cells": 7},
        {"cells": [7]},
        {"cells": [{"outcome": "pass"}]},
        {"cells": [{"run_id": [], "outcome": "pass", "key": []}]},
        {"candidate": None, "verdict": "pass"},
        {"verdict": "pass"},
    ],
)
def test_a_damaged_check_is_a_sentence_and_not_a_pass(store: Store, body: dict[str, Any]) -> None:
    """Whether a run was refused must not be guessed from a document that somebody has changed."""
    add(store, "good", 1.0)
    candidate = add(store, "new", 2.0)
    store.save_document(DocumentKind.CHECK, body, id="c", runs=["good"])
    with pytest.raises(StoreError, match="The stored check c is damaged"):
        find_cell_baseline(store, candidate, "previous")


def test_earlier_means_begun_before_whatever_the_clock_said(store: Store) -> None:
    """After a clock was set back, a good run dated in the future is still the baseline of the next one."""
    for name, created in (("future", 9000.0), ("next", 1000.0)):
        candidate = add(store, name, created)
        store.add_session(name, created)
    assert named(store, candidate) == "future"
