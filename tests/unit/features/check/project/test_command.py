"""`check` of a project file, as a pipeline runs it: an empty folder, a config, an exit code, files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from junitparser import Error, Failure, Skipped
from typer.testing import CliRunner

from stresstest.cli.app import app
from stresstest.errors import UsageError
from tests.simulation.projects import breaking, cases, check, project


@pytest.mark.slow
def test_a_breached_budget_fails_the_pipeline(tmp_path: Path) -> None:
    """The issue's gate: an empty folder and a config; exit 99, a JUnit file, a summary, annotations."""
    summary = tmp_path / "summary.md"
    summary.write_text("# before\n")
    args = ("--config", "stresstest.toml", "--junit", "results.xml", "--markdown", "comment.md", "--json")
    with breaking(tmp_path) as url:
        project(tmp_path, url)
        code, out, err = check(tmp_path, *args, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary))
    assert code == 99, err
    document = json.loads(out)
    assert (document["outcome"], document["complete"], document["simulated"]) == ("breach", True, True)
    (cell,) = document["cells"]
    assert [b["outcome"] for b in cell["budgets"]] == ["breach", "untested"]
    assert 100 < cell["safe_max_tokens"] < 300

    found = cases(tmp_path / "results.xml")
    assert isinstance(found["min_safe_tokens"], Failure)
    assert found["min_safe_tokens"].type == "breach"
    assert isinstance(found["max_increase"], Skipped)

    (error,) = [line for line in err.splitlines() if line.startswith("::error ")]
    assert "min_safe_tokens" in error
    assert "required at least 300" in error
    assert "budget breached" in (tmp_path / "comment.md").read_text()
    assert summary.read_text().startswith("# before\n### stresstest check")


def test_trouble_with_the_endpoint_is_an_error_and_not_a_failure(tmp_path: Path) -> None:
    """A server that is down says nothing about the model: exit 3, `<error>`."""
    project(tmp_path, "http://127.0.0.1:9/v1")
    code, out, err = check(tmp_path, "--junit", "r.xml")
    assert code == 3, err
    assert "endpoint trouble" in out
    found = cases(tmp_path / "r.xml")
    assert all(isinstance(result, Error) for result in found.values())


@pytest.mark.parametrize(
    ("text", "args", "said"),
    [
        (None, (), "a project file with a [check] table"),
        ('lang = "it"\n', (), "a project file with a [check] table"),
        ("[check]\n", (), "no language to check"),
        ('[check]\nlanguages = ["it"]\nbudgts = {}\n', (), "Did you mean 'budgets'?"),
        ('[check]\nlanguages = ["it"]\ntasks = ["narative"]\n', (), "narative"),
        ('[chekc]\nlanguages = ["it"]\n', (), "Did you mean 'check'?"),
        ('[check]\nlanguages = ["it"]\n', ("--lang", "en"), "no cell with --lang en"),
        ('[check]\nlanguages = ["it"]\n', ("--temperature", "1"), "[check.decodings]"),
        ('[check]\nlanguages = ["it"]\n', ("--candidate", "x"), "--baseline is missing"),
        ('[check]\nlanguages = ["it"]\n', ("--config", "absent.toml"), "absent.toml"),
        ('[check]\nlanguages = ["it"]\n', ("--junit", "no/such/x.xml"), "the folder no/such does not exist"),
    ],
)
def test_a_wrong_project_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, args: tuple[str, ...], said: str
) -> None:
    """A sentence that says what to change (exit 2); nothing is sent."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    if text is not None:
        (tmp_path / "stresstest.toml").write_text(text)
    done = CliRunner().invoke(app, ["check", *args])
    assert isinstance(done.exception, UsageError)
    assert said in f"{done.exception} {done.exception.hint}"
    assert done.stdout == ""
