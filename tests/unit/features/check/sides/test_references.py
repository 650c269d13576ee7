"""No run that a check refused becomes a baseline, whatever it is called and whatever came before; and by its
model's name none that a sweep or a check began, beside one that the user began."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stresstest.campaign.refusals import rejected_run_ids
from stresstest.errors import ExitCode, UsageError
from stresstest.features.check.sides.references import find_baseline
from stresstest.model import DocumentKind, Run, RunStatus
from stresstest.store import open_store
from tests.support.checked_runs import N, check, sample, stored
from tests.support.commands import command

MODELS = ("lab", "other")
DONE, UNFINISHED = RunStatus.DONE, RunStatus.INTERRUPTED

steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("run"),
            st.sampled_from(MODELS),
            st.sampled_from([0, 8]),
            st.sampled_from([DONE, DONE, DONE, UNFINISHED, RunStatus.FAILED, RunStatus.RUNNING]),
            st.booleans(),
        ),
        st.tuples(st.just("check"), st.sampled_from(["latest", *MODELS, "0"]), st.integers(0, 3)),
        st.tuples(st.just("derived"), st.sampled_from(["sweep", "check"]), st.integers(0, 3)),
        st.tuples(st.just("project"), st.sampled_from(["pass", "warning", "breach"]), st.integers(0, 3)),
    ),
    min_size=2,
    max_size=7,
)


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one good run."""
    path = tmp_path_factory.mktemp("seeded") / "s.sqlite3"
    stored(str(path), "run-0", sample(0), created=1000.0)
    return path


@pytest.mark.slow
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_no_refused_run_is_ever_a_baseline(seeded: Path, steps: list[tuple[object, ...]]) -> None:
    """Random sequences of runs, aborted runs, checks, projects, and runs that a sweep or a check began.

    After each, no name means a refused run, and a model's name none that a command began while one of the
    user's can be the baseline."""
    with TemporaryDirectory() as folder:
        store = str(shutil.copy(seeded, Path(folder) / "s.sqlite3"))
        runs, refusals, derived = ["run-0"], dict[str, set[str]](), set[str]()
        for step in steps:
            if step[0] == "run":
                _, model, failing, status, simulated = step
                assert isinstance(failing, int)
                name = f"run-{len(runs)}"
                more = {"model": model, "status": status, "simulated": simulated}
                stored(store, name, sample(failing), created=1000.0 + len(runs), **more)
                runs.append(name)
            elif step[0] == "derived":
                _, command_name, place = step
                assert isinstance(place, int)
                derived.add(runs[place % len(runs)])
                _began(store, str(command_name), runs[place % len(runs)])
            elif step[0] == "project":
                _, outcome, place = step
                assert isinstance(place, int)
                candidate = runs[place % len(runs)]
                with open_store(store) as opened:
                    body = {"cells": [{"run_id": candidate, "outcome": outcome}]}
                    opened.save_document(DocumentKind.CHECK, body, runs=[candidate])
                refusals[candidate] = {"project"} if outcome == "breach" else set()
            else:
                _, baseline, place = step
                assert isinstance(place, int)
                candidate = runs[place % len(runs)]
                word = runs[0] if baseline == "0" else str(baseline)
                code, document, _ = check(store, "--baseline", word, "--candidate", candidate)
                used = document.get("baseline", {}).get("run_ids", ())
                if code == ExitCode.REGRESSION:
                    refusals.setdefault(candidate, set()).update(used)
                elif document.get("verdict") == "pass":
                    refusals.get(candidate, set()).difference_update(used)
                assert not any(refusals.get(each) for each in used)
            _require_good_baselines(store, runs, {run for run, by in refusals.items() if by}, derived)


def _began(store: str, name: str, run_id: str) -> None:
    """Store that a sweep measured this run as a cell, or a check as the candidate that it passed."""
    bodies: dict[str, dict[str, object]] = {
        "sweep": {"cells": [{"run_id": run_id}], "began": [run_id]},
        "check": {"candidate": {"run_ids": [run_id], "measured_now": True}, "verdict": "pass"},
    }
    with open_store(store) as opened:
        opened.save_document(DocumentKind(name), bodies[name], runs=[run_id])


def _require_good_baselines(store: str, runs: list[str], refused: set[str], derived: set[str]) -> None:
    with open_store(store) as opened:
        ineligible = rejected_run_ids(opened) | derived
        own = {
            row.subject.model
            for row in opened.runs()
            if row.status is DONE
            and row.threshold is not None
            and row.threshold.usable
            and row.id not in ineligible
        }
        for word in ("latest", *MODELS, *runs):
            for candidate in ((), (runs[-1],)):
                try:
                    found = find_baseline(opened, [word], candidate=candidate)
                except UsageError:
                    continue
                assert isinstance(found, Run)
                assert found.id not in refused
                if word not in runs:
                    assert found.status is DONE
                if word in own and not candidate:
                    assert found.id not in derived
                if word == "latest" and candidate:
                    assert found.profile.simulated == opened.run(candidate[0]).profile.simulated


def test_a_refused_candidate_is_not_the_latest_baseline(tmp_path: Path) -> None:
    """The second of two equal checks exited 0: what the first had refused was its baseline."""
    store = str(tmp_path / "s.sqlite3")
    stored(store, "good", sample(0), created=1000.0)
    stored(store, "bad", sample(8), created=2000.0)
    assert check(store, "--baseline", "good", "--candidate", "bad")[0] == ExitCode.REGRESSION
    listed = command("--store", store, "runs", "list")[1]
    assert listed.count("refused by a check") == 1
    assert listed.index("bad") < listed.index("refused by a check") < listed.index("good")
    rows = json.loads(command("--store", store, "runs", "list", "--json")[1])["runs"]
    assert {row["run_id"]: row["refused"] for row in rows} == {"good": False, "bad": True}
    stored(store, "again", sample(8), created=3000.0)
    code, document, _ = check(store, "--baseline", "latest", "--candidate", "again")
    assert (code, document["baseline"]["run_ids"]) == (ExitCode.REGRESSION, ["good"])
    code, _, err = check(store, "--baseline", "bad", "--candidate", "again")
    assert code == ExitCode.USAGE
    assert "a check found that it regressed" in err
    stored(store, "fixed", sample(0), created=4000.0)
    words = ("--baseline", "bad", "--candidate", "fixed", "--allow-refused-baseline")
    code, document, err = check(store, *words)
    assert (code, document["baseline"]["run_ids"]) == (ExitCode.DONE, ["bad"]), err


def test_a_pass_against_another_baseline_lifts_no_refusal(tmp_path: Path) -> None:
    """Compared with another refused run (--allow-refused-baseline) it passes, and it was a baseline again.
    Against the baseline that refused it, with another tolerance, a pass counts."""
    store = str(tmp_path / "s.sqlite3")
    stored(store, "old", sample(8), created=500.0)
    stored(store, "good", sample(0), created=1000.0)
    for name, created in (("bad", 2000.0), ("worse", 3000.0)):
        stored(store, name, sample(8), created=created)
        assert check(store, "--baseline", "good", "--candidate", name)[0] == ExitCode.REGRESSION
    asked = ("--candidate", "worse", "--max-increase")
    code, _, _ = check(store, "--baseline", "bad", "--allow-refused-baseline", *asked, "80%")
    assert code == ExitCode.DONE
    with open_store(store) as opened:
        assert rejected_run_ids(opened) >= {"bad", "worse"}
        found = find_baseline(opened, ["latest"])
        assert isinstance(found, Run)
        assert found.id == "good"
    code, document, err = check(store, "--baseline", "good", *asked, "80%")
    assert (code, document["verdict"]) == (ExitCode.DONE, "pass"), err
    with open_store(store) as opened:
        assert "worse" not in rejected_run_ids(opened)


def test_a_pass_beside_a_refused_baseline_makes_no_new_baseline(tmp_path: Path) -> None:
    """It says that the candidate is no worse than a regression: the next check would pass the next one."""
    store = str(tmp_path / "s.sqlite3")
    for name, failures, created in (("good", 0, 1000.0), ("bad", 8, 2000.0), ("next", 8, 3000.0)):
        stored(store, name, sample(failures), created=created)
    assert check(store, "--baseline", "good", "--candidate", "bad")[0] == ExitCode.REGRESSION
    beside_bad = ("--baseline", "bad", "--allow-refused-baseline")
    assert check(store, *beside_bad, "--candidate", "next")[0] == ExitCode.DONE
    with open_store(store) as opened:
        found = find_baseline(opened, ["latest"])
        assert isinstance(found, Run)
        assert found.id == "good"
        assert find_baseline(opened, ["next"]) == opened.run("next")  # named by its id, it may be one


def test_a_model_with_refused_runs_only_has_no_baseline(tmp_path: Path) -> None:
    """Better no answer than one against a baseline that was refused."""
    store = str(tmp_path / "s.sqlite3")
    stored(store, "good", sample(0), created=1000.0)
    stored(store, "bad", sample(8), created=2000.0, model="other")
    assert check(store, "--baseline", "good", "--candidate", "bad")[0] == ExitCode.REGRESSION
    code, _, err = check(store, "--baseline", "other", "--candidate", "good")
    assert code == ExitCode.USAGE
    assert "rejected by a check" in err or "before run good" in err


def test_latest_passes_over_simulated_and_unfinished_runs(tmp_path: Path) -> None:
    """A simulation is no baseline of a real run, and an aborted run of none."""
    store = str(tmp_path / "s.sqlite3")
    stored(store, "real", sample(0), created=1000.0)
    stored(store, "sim", sample(0), created=2000.0, simulated=True)
    stored(store, "half", sample(0), created=3000.0, status=UNFINISHED)
    stored(store, "next", sample(0), created=4000.0)
    code, document, _ = check(store, "--baseline", "latest", "--candidate", "next")
    assert (code, document["baseline"]["run_ids"]) == (ExitCode.DONE, ["real"])


def test_an_unfit_run_is_no_baseline(tmp_path: Path) -> None:
    """Every answer of the newest run is nothing but a loop, so that T = 1 is certified: at one token the next
    such model would pass. The run before it is the baseline; by its id the unfit one decides nothing."""
    store = str(tmp_path / "s.sqlite3")
    stored(store, "good", sample(0), created=1000.0)
    stored(store, "broken", sample(N, onset=2), created=2000.0)
    stored(store, "again", sample(N, onset=2), created=3000.0)
    for word in ("latest", "lab"):
        code, document, _ = check(store, "--baseline", word, "--candidate", "again")
        assert (code, document["baseline"]["run_ids"]) == (ExitCode.REGRESSION, ["good"])
    code, document, _ = check(store, "--baseline", "broken", "--candidate", "again")
    assert code == ExitCode.INCONCLUSIVE
    assert "unfit" in document["lacking"]


def test_a_model_that_was_measured_in_another_language_is_said_to_be(tmp_path: Path) -> None:
    """It was "no model with a finished run", beside the sentence that the store has finished runs of it."""
    store = str(tmp_path / "s.sqlite3")
    stored(store, "good", sample(0), created=1000.0)
    with open_store(store) as opened:
        model = opened.run("good").settings.subject.model
        with pytest.raises(UsageError, match=r"has no finished run with --lang de\. It was measured for"):
            find_baseline(opened, [model], lang="de")


@pytest.mark.parametrize("command_name", ["sweep", "check"])
def test_a_model_stands_for_the_users_own_run(tmp_path: Path, command_name: str) -> None:
    """`--baseline MODEL` was the last cell of a sweep, or the last candidate that a check had passed: each
    check moved the baseline by what it tolerates."""
    store = str(tmp_path / "s.sqlite3")
    stored(store, "own", sample(0), created=1000.0)
    stored(store, "begun", sample(0), created=2000.0)
    stored(store, "next", sample(0), created=3000.0, model="other")
    _began(store, command_name, "begun")
    code, document, err = check(store, "--baseline", "lab", "--candidate", "next")
    assert (code, document["baseline"]["run_ids"]) == (ExitCode.DONE, ["own"]), err
    assert not any("began yourself" in note for note in document["notes"])
    command("--store", store, "runs", "delete", "own", "--yes")
    code, document, _ = check(store, "--baseline", "lab", "--candidate", "next")
    assert (code, document["baseline"]["run_ids"]) == (ExitCode.DONE, ["begun"])
    assert [note for note in document["notes"] if f"begun, {ORIGIN[command_name]}" in note]


ORIGIN = {"sweep": "a cell of sweep ", "check": "the candidate of check "}
