"""What other programs have in the environment neither steers nor stops this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stresstest.cli.environment import unloadable_library
from stresstest.errors import ExitCode
from tests.support.commands import called

LINE = '{"id": "a", "prompt": "p", "response": "A short answer about the sea.", "finish_reason": "stop"}\n'


@pytest.mark.parametrize(
    "setting",
    [
        {"SOURCE_DATE_EPOCH": ""},  # `SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)` outside of a repository
        {"SOURCE_DATE_EPOCH": "99999999999999999"},
        {"SOURCE_DATE_EPOCH": "1700000000"},
        {"NUMPY_MADVISE_HUGEPAGE": ""},
        {"PSYCOPG_IMPL": "c"},
    ],
    ids=lambda setting: "=".join(*setting.items()),
)
def test_settings_of_other_programs_stop_no_command(tmp_path: Path, setting: dict[str, str]) -> None:
    """Each was an internal error of a library that reads it while it is loaded."""
    (tmp_path / "log.jsonl").write_text(LINE)
    done = called("scan", "log.jsonl", "--lang", "en", tmp_path=tmp_path, **setting)
    assert done.returncode == 0, done.stderr
    away = ("--store", "postgresql://nobody@127.0.0.1:1/db", "runs", "list")
    done = called(*away, tmp_path=tmp_path, **setting)
    assert done.returncode == ExitCode.USAGE
    assert "cannot be reached" in done.stderr


def test_a_library_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    """Whatever setting or file it stumbles over: a sentence and exit 2, no traceback, and no password."""
    broken = tmp_path / "scipy"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ValueError('no number: http://bob:hunter2@host')")
    (tmp_path / "log.jsonl").write_text(LINE)
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from stresstest.cli import app; app.main()"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), "scan", str(tmp_path / "log.jsonl"), "--lang", "en"],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ExitCode.USAGE, done.stderr
    assert "The library scipy cannot be loaded: ValueError: no number" in done.stderr
    assert "python -c 'import scipy'" in done.stderr
    assert not {"Traceback", "internal error", "hunter2"} & set(done.stderr.split()), done.stderr


def test_an_error_of_a_function_is_no_librarys() -> None:
    """What goes wrong while a loaded library works may be ours, and is reported as a bug."""
    with pytest.raises(ValueError, match="invalid literal") as caught:
        int("x")
    assert unloadable_library(caught.tb) is None
