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
