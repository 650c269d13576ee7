"""`--output-dir` of the commands that write several files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stresstest.errors import UsageError
from stresstest.output_file import refuse_foreign, refuse_link

OutputDir = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Folder for the files of this command, instead of the current one. Created if it is missing.",
    ),
]


def in_folder(folder: str | None, *names: str | None, chosen: bool = False) -> list[str | None]:
    """The file names, those without a folder of their own placed in `folder`; None stays None.

    Creates the folder, but not those above it: a typo in a long path is an error (UsageError), and so is a
    link that stands where a file would be written. chosen: nobody typed the names, so that a file of such a
    name may be another program's, which is an error as well.
    """
    if folder is None:
        return list(names)
    path = Path(folder)
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        reason = "it is a file" if path.exists() else error.strerror or str(error)
        raise UsageError(f"--output-dir: {folder!r} cannot be created: {reason}.") from None
    for name in names:
        if name is not None and not Path(name).is_absolute():
            refuse_link(path / name)
            if chosen:
                refuse_foreign(path / name)
    return [None if name is None else str(path / name) for name in names]
