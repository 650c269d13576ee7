"""`check` of a project file against the simulator: interrupted, gone on with, and compared the next time."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from stresstest.model import DocumentKind
from stresstest.store import open_store
from tests.simulation.projects import breaking, cases, check, project, start

pytestmark = pytest.mark.simulated


def test_a_check_goes_on_where_it_was_interrupted_and_the_next_one_compares(tmp_path: Path) -> None:
    """Ctrl-C: exit 130, one document; the same command goes on with the same run, repeats nothing and passes.

    The next check measures anew, with other seeds, and has the first as its baseline; `reuse` sends nothing.
    """
    with breaking(tmp_path) as url:
        project(tmp_path, url, penalty=1.2)
        process = start(tmp_path, "--json")
        assert process.stderr is not None
        for line in process.stderr:
            if "healthy" in line:
                break
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 130
        assert (json.loads(out)["outcome"], json.loads(out)["complete"]) == ("missing", False)
        (begun,) = json.loads(out)["cells"]

        code, out, err = check(tmp_path, "--json", "--junit", "r.xml")
        assert code == 0, err
        assert "which an earlier check started" in err
        assert "stored answers are not repeated" in err
        (one,) = json.loads(out)["cells"]
        assert one["run_id"] == begun["run_id"]
        assert [b["outcome"] for b in one["budgets"]] == ["pass", "untested"]
        assert cases(tmp_path / "r.xml")["min_safe_tokens"] is None

        code, out, err = check(tmp_path, "--json")
        assert code == 0, out
        (two,) = json.loads(out)["cells"]
        assert [b["outcome"] for b in two["budgets"]] == ["pass", "pass"]
        assert (two["baseline"], two["comparison"]["verdict"]) == (one["run_id"], "pass")
        with open_store(str(tmp_path / "gate.sqlite3")) as store:
            seeds = {store.run(cell["run_id"]).settings.seed for cell in (one, two)}
            assert len(seeds) == 2, "the baseline's own requests, sent again, are no fresh sample"
            assert len(store.documents(DocumentKind.CHECK)) == 3, "two checks of the project, one comparison"

        text = (tmp_path / "stresstest.toml").read_text().replace("[check]\n", '[check]\nreuse = "1h"\n')
        (tmp_path / "stresstest.toml").write_text(text)
        code, out, err = check(tmp_path, "--json")
        (cell,) = json.loads(out)["cells"]
        assert (code, cell["reused"], cell["run_id"]) == (0, True, two["run_id"]), err
        assert cell["tokens_spent"] == 0


def test_a_swapped_model_is_caught_and_never_becomes_the_baseline(tmp_path: Path) -> None:
    """The weekly use: good, then another model under the same name, which fails, and fails when run again."""
    with breaking(tmp_path) as url:
        project(tmp_path, url, penalty=1.2)
        code, out, err = check(tmp_path, "--json")
        assert code == 0, err
        (good,) = json.loads(out)["cells"]
    text = (tmp_path / "stresstest.toml").read_text().replace("min_safe_tokens = 300", 'max_drop = "10%"')
    (tmp_path / "stresstest.toml").write_text(text)
    with breaking(tmp_path, always=True) as url:
        for _ in range(2):
            code, out, err = check(tmp_path, "--json", "--base-url", url, "--junit", "r.xml")
            assert code == 99, err
            (cell,) = json.loads(out)["cells"]
            assert {b["name"]: b["outcome"] for b in cell["budgets"]} == {
                "max_drop": "breach",
                "max_increase": "breach",
            }
            assert cell["baseline"] == good["run_id"], "a failed candidate is no baseline"
            assert {case.type for case in cases(tmp_path / "r.xml").values()} == {"breach"}
