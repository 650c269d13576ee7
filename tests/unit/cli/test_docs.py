"""Documentation that runs: every documented command line is one that the program takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from stresstest.tasks import load_task
from tests.support.commands import command
from tests.support.paths import ROOT

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *(ROOT / "deploy").rglob("*.md")]
LINE = re.compile(r"^\s*(?:\$ )?(stresstest [a-z].*)$|`(stresstest [a-z][^`]*)`", re.MULTILINE)


def documented() -> list[str]:
    """Every command line in code blocks, inline code and help examples; placeholders are left in."""
    found = set()
    for page in PAGES:
        for match in LINE.finditer(page.read_text(encoding="utf-8")):
            line = (match[1] or match[2]).split(" #")[0].strip()
            if "[OPTIONS]" not in line:
                found.add(line)
    return sorted(found)


@pytest.mark.parametrize("line", documented())
def test_every_documented_command_line_is_accepted(line: str) -> None:
    """An option that is renamed must be renamed in the docs: the line with --help added parses."""
    words = shlex.split(re.split(r" (?:>|\|\|?) ", line)[0])
    code, _, err = command(*words[1:], "--help")
    assert code == 0, err


def test_links_between_pages_lead_somewhere() -> None:
    """A relative link in the README or docs names a file that is there."""
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_public_names_of_the_project_are_nowhere_tied_to_one_machine() -> None:
    """No path of a developer's machine and no hidden skip: the project stands alone."""
    for page in PAGES:
        assert not re.search(r"/(?:root|home/\w+|tmp)/", page.read_text(encoding="utf-8")), page.name


def test_the_task_file_of_the_settings_page_is_one(tmp_path: Path) -> None:
    """Who copies the example gets distinct prompts in the language that they asked for."""
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    example = next(
        block for block in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if "[languages" in block
    )
    path = tmp_path / "chronik.toml"
    path.write_text(example, encoding="utf-8")
    task = load_task(str(path))
    assert task.distinct("de") == 12
    assert task.prompt("de", 0, 9).units == 9
