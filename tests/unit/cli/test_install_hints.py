"""What users are advised to install is ours, or a library that this project itself depends on."""

from __future__ import annotations

import re
import subprocess
import tomllib

from tests.support.paths import ROOT

INSTALL = re.compile(r"pip install ((?:-[-a-z]+ )*)(?P<what>[^\s`\"'),;]+|'[^']+'|\"[^\"]+\")")
OURS = "llm-stresstest"


def _name(requirement: str) -> str:
    name = re.split(r"[\[<>=!~; ]", requirement.strip("'\""), maxsplit=1)[0].lower()
    return name.rstrip(".") or name


def _allowed() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["name"] == OURS
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    return {OURS, ".", *(_name(each) for each in [*project["dependencies"], *extras])}


def test_no_hint_installs_a_foreign_package() -> None:
    """The name `stresstest` on the public index belongs to somebody else: no hint, page or script of ours may
    install it, or anything that is not a dependency of this project."""
    listed = subprocess.run(
        ["git", "ls-files", "stresstest", "docs", "deploy", "README.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = []
    for name in listed.stdout.split():
        path = ROOT / name
        if path.suffix in {".py", ".md", ".yml", ".html"} or path.name == "Dockerfile":
            text = path.read_text("utf-8")
            found += [(name, _name(match["what"])) for match in INSTALL.finditer(text)]
    allowed = _allowed() | {"$package"}  # the GitHub action's own input, checked below
    assert len(found) > 5
    assert [(name, what) for name, what in found if what not in allowed] == []


def test_the_github_action_installs_this_project() -> None:
    """Its default was the foreign package's name."""
    action = (ROOT / "deploy" / "github-action" / "action.yml").read_text("utf-8")
    assert re.search(rf"package:\n.*\n    default: {OURS}\n", action)
