"""`--output-dir`: one folder for the files of a command, and no folders for typos."""

from __future__ import annotations

from pathlib import Path

import pytest

from stresstest.errors import UsageError
from stresstest.options.output_folder import in_folder


def test_names_are_placed_in_the_folder_which_is_created(tmp_path: Path) -> None:
    """A name with a folder of its own keeps it below; an absolute one stays; None stays."""
    folder, elsewhere = tmp_path / "reports", str(tmp_path / "b.xml")
    assert in_folder(str(folder), "a.md", elsewhere, None) == [str(folder / "a.md"), elsewhere, None]
    assert folder.is_dir()
    assert in_folder(None, "a.md", None) == ["a.md", None]


@pytest.mark.parametrize("name", ["a.md", "no/such/folder"])
def test_a_folder_that_cannot_be_created_is_refused(tmp_path: Path, name: str) -> None:
    """A file of that name, or a typo in the path above it, before anything is measured."""
    (tmp_path / "a.md").write_text("")
    with pytest.raises(UsageError, match="--output-dir"):
        in_folder(str(tmp_path / name), "x.md")


def test_a_file_of_another_program_is_not_replaced_under_a_name_that_nobody_typed(tmp_path: Path) -> None:
    """`report --output-dir site` would write over a website's index.html; our own files, and empty ones,
    are replaced, and so is whatever the user has named."""
    page = tmp_path / "index.html"
    page.write_text("<h1>My site</h1>")
    with pytest.raises(UsageError, match=r"index\.html was not written by stresstest") as refused:
        in_folder(str(tmp_path), "index.html", chosen=True)
    assert "--output" in (refused.value.hint or "")
    assert in_folder(str(tmp_path), "index.html") == [str(page)]
    page.write_text("<h1>Results of our stresstest</h1>")
    with pytest.raises(UsageError, match="is not overwritten"):
        in_folder(str(tmp_path), "index.html", chosen=True)
    for own in ("", '<meta name="generator" content="stresstest">'):
        page.write_text(own)
        assert in_folder(str(tmp_path), "index.html", chosen=True) == [str(page)]
