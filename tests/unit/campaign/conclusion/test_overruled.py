"""What another stored run takes away from a limit, and what it does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stresstest.campaign.conclusion.conclude import conclude
from stresstest.campaign.conclusion.overruled import beside_others, diagnosis_beside_others
from stresstest.errors import StoreError
from stresstest.model import PlaneVerdict, RunResult, Subject, Threshold
from stresstest.render.html.index import index_html
from stresstest.render.sentences import headline
from stresstest.store import open_store
from stresstest.store.repository import Store
from tests.support.commands import command
from tests.support.reported_runs import campaign, diagnosis, result
from tests.support.stored_data import make_run

SUBJECT = Subject("lab", "narrative", "en")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "s.sqlite3")) as opened:
        yield opened


def save(store: Store, run_id: str, safe: int | None, *, unfit: bool = False, **more: Any) -> RunResult:
    """A run with this limit, stored after those before it. more: settings, censored_at, prompts_digest."""
    censored, digest = more.pop("censored_at", None), more.pop("prompts_digest", "d")
    made = make_run(run_id, subject=SUBJECT, created=1000.0 + len(store.runs()))
    made = replace(made, settings=replace(made.settings, **more), prompts_digest=digest)
    store.create_run(made)
    threshold = Threshold(
        0.1, 0.9, (safe or 10) + 60, n=40, certified=True, censored_at=censored, unfit=unfit
    )
    store.save_threshold(run_id, threshold, safe, PlaneVerdict(None, None, ""), distinct_prompts=40)
    found = result(campaign(22), run_id=run_id)
    return replace(found, run=made, threshold=threshold, safe_max_tokens=safe)


def test_a_diagnosed_run_does_not_speak_against_its_own_remedy(store: Store) -> None:
    """At 32 requests in flight everything failed, and alone nothing: the failure that "one at a time" cures
    took its limit away. Anybody else's failure counts."""
    save(store, "loaded", None, unfit=True, concurrency=32)
    alone = save(store, "alone", 3000, concurrency=1, parent="loaded")
    found = replace(diagnosis(), run_id="loaded", safe_run="alone", safe_max_tokens=3000)
    assert beside_others(store, alone).safe_max_tokens == 3000
    assert diagnosis_beside_others(store, found, SUBJECT).safe_max_tokens == 3000
    other = save(store, "other", 3000, concurrency=1)
    assert beside_others(store, other).overruled_by == "loaded"
    save(store, "later", None, unfit=True, concurrency=1)
    assert beside_others(store, alone).overruled_by == "later"
    assert diagnosis_beside_others(store, found, SUBJECT).safe_max_tokens is None


@pytest.mark.parametrize(
    ("later", "noted", "replaced"),
    [
        ({}, True, True),
        ({"concurrency": 32}, True, False),
        ({"base_url": "http://other/v1"}, True, True),
        ({"rigor": "strict"}, False, False),
        ({"prompts_digest": "e"}, False, False),
        ({"censored_at": 900}, False, False),
    ],
)
def test_only_the_same_measurement_certifies_less(
    store: Store, later: dict[str, Any], noted: bool, replaced: bool
) -> None:
    """Other prompts, a stricter rigor or a shorter horizon certify less of the same model."""
    first = save(store, "first", 3000)
    found = replace(diagnosis(), run_id="before", safe_run="first", safe_max_tokens=3000)
    save(store, "later", 900, **later)
    shown = beside_others(store, first)
    assert shown.safe_max_tokens == 3000
    assert any("certified a safe max_tokens of only 900" in note for note in shown.notes) is noted
    assert diagnosis_beside_others(store, found, SUBJECT).safe_max_tokens == (900 if replaced else 3000)
    save(store, "again", 3200, **later)
    assert not any("later run" in note for note in beside_others(store, first).notes), "the newest decides"


def test_results_that_cannot_be_read_take_no_measurement_with_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hours of measuring ended in a message about another run's row."""
    made = save(store, "first", 3000)
    found = replace(diagnosis(), safe_run="first", safe_max_tokens=3000)

    def fail(*_: object, **__: object) -> None:
        raise StoreError("run r9 contradicts itself")

    monkeypatch.setattr(type(store), "thresholds", fail)
    shown = beside_others(store, made)
    assert shown.safe_max_tokens == 3000
    assert "is not known: run r9 contradicts itself" in shown.notes[0]
    assert "is not known" in diagnosis_beside_others(store, found, SUBJECT).notes[-1]


def test_the_limit_of_a_smaller_load_carries_it(store: Store, tmp_path: Path) -> None:
    """Certified at one request at a time, and 583 at eight: `recommend --like`, which `diagnose` had named,
    printed it as a flag for the server, without a word of the load."""
    save(store, "loaded", 583, concurrency=8)
    alone = save(store, "alone", 3000, concurrency=1, parent="loaded", holds_up_to=1)
    save(store, "without", 2000, concurrency=8, parent="loaded")
    assert conclude(store, "alone").holds_up_to == 1
    assert conclude(store, "loaded").holds_up_to is None
    assert conclude(store, "without").holds_up_to is None
    assert " prompts and with at most 1 request in flight." in headline(replace(alone, holds_up_to=1))
    where = ("--store", str(tmp_path / "s.sqlite3"), "recommend")
    code, out, _ = command(*where, "--format", "vllm", "--like", "alone")
    assert code == 0
    assert "IT HOLDS ONLY WITH AT MOST 1 REQUEST IN FLIGHT" in " ".join(out.replace("#", " ").split())
    assert out.splitlines()[-1].endswith(" --max-num-seqs 1")
    code, out, _ = command(*where, "--format", "vllm", "--like", "loaded")
    assert "--max-num-seqs" not in out
    rows = {row.run_id: row.holds_up_to for row in store.thresholds()}
    assert rows == {"loaded": None, "alone": 1, "without": None}
    code, out, _ = command(*where, "--format", "json")
    told = {row["run_id"]: row["holds_up_to"] for row in json.loads(out)["recommendations"]}
    assert told == {"alone": 1, "without": None}
    code, out, _ = command(*where, "--format", "openmetrics", "--like", "alone")
    assert "stresstest_most_requests_in_flight{" in out
    code, out, _ = command("--store", str(tmp_path / "s.sqlite3"), "runs", "list", "--json")
    assert {run["run_id"]: run["holds_up_to"] for run in json.loads(out)["runs"]} == rows
    code, out, _ = command("--store", str(tmp_path / "s.sqlite3"), "runs", "list")
    assert "holds with at most 1 request in flight" in " ".join(out.split())
    assert "3,000 (at most 1 request in flight)" in index_html(store.thresholds(), "s.sqlite3")


def test_the_load_stays_with_the_limit_whatever_becomes_of_the_diagnosed_run(
    store: Store, tmp_path: Path
) -> None:
    """Interrupted, it has no result that speaks against the limit; deleted, it took the condition with it."""
    made = make_run("cut", subject=SUBJECT, created=900.0)
    store.create_run(replace(made, settings=replace(made.settings, concurrency=16)))
    save(store, "alone", 3000, concurrency=1, parent="cut", holds_up_to=1)
    where = ("--store", str(tmp_path / "s.sqlite3"))
    for _ in range(2):
        code, out, _ = command(*where, "recommend", "--format", "vllm")
        assert code == 0
        assert out.splitlines()[-1].endswith(" --max-num-seqs 1")
        command(*where, "runs", "delete", "cut", "--yes")


def test_a_smaller_load_is_told_of_where_a_larger_one_certified_less(store: Store) -> None:
    """A user's own run with one request in flight, after one with eight: "any max_tokens up to 1,817 is
    safe"."""
    save(store, "loaded", 583, concurrency=8)
    alone = save(store, "alone", 3000, concurrency=1)
    [note] = [note for note in beside_others(store, alone).notes if "requests in flight" in note]
    assert note.startswith("Run loaded had 8 requests in flight and certified a safe max_tokens of only 583")
    assert beside_others(store, alone).holds_up_to == 1
    assert {row.run_id: row.holds_up_to for row in store.thresholds()} == {"loaded": None, "alone": 1}
    near = save(store, "near", 1000, concurrency=4)
    assert beside_others(store, near).holds_up_to is None  # 583 is no half of it: chance may do that
    more = save(store, "more", 2000, concurrency=16)
    assert not any("requests in flight" in note for note in beside_others(store, more).notes)


def test_the_users_own_run_of_a_load_that_was_found_to_matter(store: Store) -> None:
    """A diagnosis had confirmed the load as the cause, and its child carried it; the user's own run of the
    same load printed its limit without it."""
    save(store, "child", 3000, concurrency=1, parent="cut", holds_up_to=1)
    own = save(store, "own", 2500, concurrency=1, rigor="standard")
    assert beside_others(store, own).holds_up_to == 1
    other = save(store, "other", 2400, concurrency=8)
    assert beside_others(store, other).holds_up_to is None
