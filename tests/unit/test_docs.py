"""Documentation that runs: every documented command line is one that the program takes."""

from __future__ import annotations

import io
import re
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from stresstest.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "CHANGELOG.md"]
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
    words = shlex.split(re.split(r" [>|] ", line)[0])
    before = sys.argv
    sys.argv = [*words, "--help"]
    out, err = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main()
    finally:
        sys.argv = before
    assert ended.value.code == 0, err.getvalue()


def test_links_between_pages_lead_somewhere() -> None:
    """A relative link in the README or docs names a file that is there."""
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_public_names_of_the_project_are_nowhere_tied_to_one_machine() -> None:
    """No path of a developer's machine and no hidden skip: the project stands alone."""
    for page in PAGES:
        assert not re.search(r"/(?:root|home/\w+|tmp)/", page.read_text(encoding="utf-8")), page.name
