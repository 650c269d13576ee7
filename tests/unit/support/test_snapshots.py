"""Snapshots: what is kept is compared, what differs from run to run is not, and nothing is kept in vain."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.snapshots import FOLDER, UPDATE, Snapshot, modules, page_of, sections, written


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return tmp_path / "a" / "page.txt"


def test_a_text_is_kept_once_and_compared_from_then_on(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written where asked for; a missing or another text fails."""
    shown = Snapshot(page, "test_x[1]")
    monkeypatch.delenv(UPDATE, raising=False)
    with pytest.raises(AssertionError, match="no section"):
        shown("The text\n")
    monkeypatch.setenv(UPDATE, "1")
    shown("The text\n")
    shown("\nAnother\n\ntext\n", "stderr")
    monkeypatch.delenv(UPDATE)
    shown("The text")
    shown("Another\n\ntext", "stderr")
    with pytest.raises(AssertionError):
        shown("The tex")
    assert list(sections(page.read_text("utf-8"))) == ["test_x[1]", "test_x[1] · stderr"]


def test_what_differs_from_run_to_run_is_replaced(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the test, a port and the name of a run."""
    shown = Snapshot(page, "test_x", [("/tmp/one", "<folder>")])
    monkeypatch.setenv(UPDATE, "1")
    shown("/tmp/one/a at http://127.0.0.1:54321/v1, run 20261121-173000-4f2a, 12345 tokens")
    kept = sections(page.read_text("utf-8"))["test_x"]
    assert kept == "<folder>/a at http://127.0.0.1:<port>/v1, run <run>, 12345 tokens"


def test_sections_of_any_text_are_read_as_they_were_written() -> None:
    """Blank lines and headings of Markdown belong to the text."""
    found = {"test_a": "# Page\n\n\ntext", "test_b · err": "", "test_c": "  indented\n@@"}
    assert sections(written(found)) == found


def test_every_section_belongs_to_a_test() -> None:
    """A section that nothing is compared with would promise what nobody checks."""
    known = {page_of(module): module.read_text("utf-8") for module in modules()}
    for kept in FOLDER.rglob("*.txt"):
        assert kept in known, f"{kept.relative_to(ROOT)} belongs to no test module"
        names = {re.split(r"\[| · ", name)[0] for name in sections(kept.read_text("utf-8"))}
        assert not {name for name in names if f"def {name}(" not in known[kept]}
