"""The command line for tests: as a process of its own, or in this one, where imports are paid once."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import typer.main

from stresstest.cli.app import main
from tests.support.forking import start

_built_command = functools.cache(typer.main.get_command)
"""Typer reads the signatures of all commands at every call: once in a process, which has one call."""


def clean_environment(folder: Path) -> dict[str, str]:
    """The environment without what would change the tool's behaviour; its user folders lie in `folder`."""
    ours = ("STRESSTEST_", "GITHUB_", "OPENAI_API_KEY")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    return {**clean, "XDG_DATA_HOME": str(folder / "data"), "XDG_CONFIG_HOME": str(folder / "config")}


def stresstest(*args: str, tmp_path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """`python -m stresstest` in this folder, with a clean environment and what is given beside it."""
    return subprocess.run(
        [sys.executable, "-m", "stresstest", *args],
        env={**clean_environment(tmp_path), **env},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def forked(*args: str, tmp_path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """The same in a process that is forked from one that has imported the program."""
    process = start(*args, env={**clean_environment(tmp_path), **env}, cwd=tmp_path)
    out, err = process.communicate(600)
    return subprocess.CompletedProcess(args, process.wait(), out, err)


def called(*args: str, tmp_path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """The same in this process, which answers as a process would."""
    with (
        patch.dict(os.environ, {**clean_environment(tmp_path), **env}, clear=True),
        contextlib.chdir(tmp_path),
    ):
        return subprocess.CompletedProcess(args, *command(*args))


def command(*words: str) -> tuple[int, str, str]:
    """The command line's entry point with these words: exit code, stdout, stderr."""
    out, err, before, code = io.StringIO(), io.StringIO(), sys.argv, 0
    sys.argv = ["stresstest", *words]
    try:
        with (
            redirect_stdout(out),
            redirect_stderr(err),
            patch("typer.main.get_command", _built_command),
            patch("stresstest.cli.app.exit_process", sys.exit),  # the real one may end this process
        ):
            main()
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    finally:
        sys.argv = before
    return code, out.getvalue(), err.getvalue()
