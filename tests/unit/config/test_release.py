"""What a release is made of: one version, and workflows that name what exists."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from typing import Any

import yaml

from stresstest import __version__
from tests.support.paths import ROOT

WORKFLOWS = ROOT / ".github" / "workflows"


def test_the_version_stands_in_one_place() -> None:
    """The build reads it from the package; the changelog's newest section is about it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "stresstest/__init__.py"
    assert version("llm-stresstest") == __version__
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == __version__


def test_every_python_that_is_promised_is_tested() -> None:
    """The classifiers, and the matrix of the workflow."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    promised = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    workflow: dict[Any, Any] = yaml.safe_load((WORKFLOWS / "ci.yml").read_text("utf-8"))
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == promised


def test_workflows_call_what_exists() -> None:
    """Each make target and script that a workflow runs is there, and actions are pinned to a version."""
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for path in WORKFLOWS.glob("*.yml"):
        text = path.read_text("utf-8")
        assert set(re.findall(r"\bmake ([a-z0-9-]+)", text)) <= targets
        assert all((ROOT / script).is_file() for script in re.findall(r"bash (\.ci/\S+)", text))
        assert all("@" in used for used in re.findall(r"uses: (\S+)", text))
