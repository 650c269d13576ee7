"""deploy/github-action is checked as text, and its script is run with a stand-in for the runner."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.generate_cli_reference import help_of
from tests.support.commands import clean_environment
from tests.support.paths import ROOT

FOLDER = ROOT / "deploy" / "github-action"
STEP_KEYS = {"name", "id", "if", "uses", "with", "env", "run", "shell"}


def load(name: str) -> dict[str, Any]:
    # YAML 1.1 reads the key `on` as true; GitHub does not.
    loaded: dict[Any, Any] = yaml.safe_load((FOLDER / name).read_text("utf-8"))
    return {"on" if key is True else str(key): value for key, value in loaded.items()}


@pytest.fixture(scope="module")
def action() -> dict[str, Any]:
    return load("action.yml")


@pytest.fixture(scope="module")
def steps(action: dict[str, Any]) -> list[dict[str, Any]]:
    """Every step of the action and of the example."""
    workflow = load("example-workflow.yml")
    return [*action["runs"]["steps"], *(s for job in workflow["jobs"].values() for s in job["steps"])]


def test_the_keys_are_those_that_github_knows(action: dict[str, Any], steps: list[dict[str, Any]]) -> None:
    """GitHub passes over a misspelt key in silence; a composite step with `run` needs a shell."""
    assert set(action) == {"name", "description", "inputs", "outputs", "runs"}
    assert action["runs"]["using"] == "composite"
    for definition in (*action["inputs"].values(), *action["outputs"].values()):
        assert set(definition) <= {"description", "default", "required", "value"}
    for step in steps:
        assert set(step) <= STEP_KEYS
        assert ("uses" in step) != ("run" in step)
    assert all("shell" in step for step in action["runs"]["steps"] if "run" in step)
    workflow = load("example-workflow.yml")
    assert set(workflow) == {"name", "on", "permissions", "jobs"}


def test_every_reference_is_defined(action: dict[str, Any], steps: list[dict[str, Any]]) -> None:
    """Inputs, step outputs and what the example passes exist; actions are pinned to a version."""
    text = (FOLDER / "action.yml").read_text("utf-8")
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(action["inputs"])
    written = set(re.findall(r'echo "([\w-]+)=', text))
    assert set(re.findall(r"steps\.check\.outputs\.([\w-]+)", text)) == written == set(action["outputs"])
    example = (FOLDER / "example-workflow.yml").read_text("utf-8")
    assert set(re.findall(r"steps\.gate\.outputs\.([\w-]+)", example)) <= set(action["outputs"])
    (own,) = [step for step in steps if step.get("uses", "").startswith("./")]
    assert (FOLDER.parents[1] / own["uses"] / "action.yml").is_file()
    assert set(own["with"]) <= set(action["inputs"])
    for step in steps:
        if "uses" in step and step is not own:
            assert re.fullmatch(r"[\w/-]+@v\d+", step["uses"])
    readme = (FOLDER / "README.md").read_text("utf-8")
    assert set(re.findall(r"^\| `([\w-]+)`", readme, re.MULTILINE)) == set(action["inputs"])


def test_scripts_are_valid_and_nothing_foreign_is_pasted_into_them(steps: list[dict[str, Any]]) -> None:
    """`bash -n` accepts each; a value reaches a script by the environment, where it cannot become code."""
    for script in (step["run"] for step in steps if "run" in step):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
        assert "${{" not in script


@pytest.mark.slow
def test_every_option_is_one_that_stresstest_knows(steps: list[dict[str, Any]]) -> None:
    """An option that was renamed must not break a gate at the first pull request."""
    (script,) = [step["run"] for step in steps if step.get("id") == "check"]
    known = set(re.findall(r"--[\w-]+", help_of(()) + help_of(("check",))))
    used = set(re.findall(r"(?<![\w-])--[\w-]+", script))
    assert used - {"--store", "--display", "--config"} <= set(re.findall(r"--[\w-]+", help_of(("check",))))
    assert used <= known


@pytest.mark.parametrize(("tolerant", "stub", "code"), [("true", 4, 4), ("false", 4, 0), ("false", 99, 99)])
def test_the_script_leaves_with_the_gates_code(
    tmp_path: Path, steps: list[dict[str, Any]], tolerant: str, stub: int, code: int
) -> None:
    """The code is an output and the step's own; only 4 may be forgiven. Arguments keep their spaces."""
    program = tmp_path / "bin" / "stresstest"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > said\nexit {stub}\n')
    program.chmod(0o755)
    done = run(
        steps, tmp_path, ARGUMENTS="--system-prompt\nSii breve; exit 0\n", FAIL_ON_INCONCLUSIVE=tolerant
    )
    assert done.returncode == code, done.stderr
    assert f"exit-code={stub}\n" in (tmp_path / "out").read_text()
    said = (tmp_path / "said").read_text().splitlines()
    assert said[-2:] == ["--system-prompt", "Sii breve; exit 0"]
    assert said[:2] == ["--store", "s.db"]


def test_a_job_that_is_cancelled_ends_the_command_itself(tmp_path: Path, steps: list[dict[str, Any]]) -> None:
    """The runner interrupts the shell of the step, and kills all ten seconds later: what the command keeps at
    its end was lost. The example keeps the store's journal too, for a job that was killed all the same."""
    program = tmp_path / "bin" / "stresstest"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\ntrap 'touch kept; exit 130' TERM\nkill -INT $PPID\nwhile sleep 0.1; do :; done\n"
    )
    program.chmod(0o755)
    done = run(steps, tmp_path)
    assert done.returncode == 130, done.stderr
    assert (tmp_path / "kept").exists()
    assert "exit-code=130\n" in (tmp_path / "out").read_text()
    cached = [step["with"]["path"].split() for step in steps if "/cache/" in step.get("uses", "")]
    assert cached == [["stresstest.sqlite3", "stresstest.sqlite3-wal"]] * 2


@pytest.mark.slow
def test_the_script_runs_the_real_command(tmp_path: Path, steps: list[dict[str, Any]]) -> None:
    """With the real program and a server that is down: exit 3, a JUnit file, a comment, an annotation."""
    (tmp_path / "stresstest.toml").write_text(
        'base_url = "http://127.0.0.1:9/v1"\n[check]\nlanguages = ["it"]\n'
    )
    program = tmp_path / "bin" / "stresstest"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m stresstest "$@"\n')
    program.chmod(0o755)
    done = run(steps, tmp_path)
    assert done.returncode == 3, done.stderr
    assert "::error title=" in done.stderr
    assert "<error " in (tmp_path / "report" / "junit.xml").read_text()
    assert "endpoint trouble" in (tmp_path / "report" / "comment.md").read_text()


def run(steps: list[dict[str, Any]], folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """The step "Check" as GitHub's runner calls it."""
    (step,) = [each for each in steps if each.get("id") == "check"]
    script = folder / "step.sh"
    script.write_text(step["run"])
    own = dict.fromkeys(step["env"], "") | {
        "CONFIG": "stresstest.toml",
        "STORE": "s.db",
        "FOLDER": "report",
    }
    path = f"{folder / 'bin'}:/usr/bin:/bin"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        cwd=folder,
        env=clean_environment(folder) | own | {"GITHUB_OUTPUT": str(folder / "out"), "PATH": path} | env,
        capture_output=True,
        text=True,
        check=False,
    )
