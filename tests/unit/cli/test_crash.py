"""Unforeseen errors and unusable files: a sentence, the right exit code, and no secret anywhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stresstest.cli.crash import without_secrets
from stresstest.config import secrets
from stresstest.errors import ExitCode
from tests.support.commands import called

CRASH = """
import sys
import stresstest.store
from stresstest.cli import app
def broken(location):
    raise RuntimeError("lost sk-env-1234 at https://user:pw@host/v1, \\x1b[2J given sk-arg-5678")
stresstest.store.open_store = broken
sys.argv = ["stresstest", "--api-key", "sk-arg-5678", "runs", "list"]
app.main()
"""


def test_an_unforeseen_error_is_one_sentence_and_a_file_without_secrets(tmp_path: Path) -> None:
    """No traceback on the screen, exit 1, and neither the sentence nor the file holds a key or a password.
    In a command, that is: Typer has a hook of its own for what happens there."""
    environment = {**os.environ, "OPENAI_API_KEY": "sk-env-1234", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", CRASH], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == ExitCode.INTERNAL
    assert "internal error: RuntimeError" in done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr
    [written] = tmp_path.glob("stresstest-crash-*.txt")
    assert str(written) in done.stderr
    text = written.read_text("utf-8")
    assert "Traceback" in text
    for secret in ("sk-env-1234", "sk-arg-5678", "user:pw"):
        assert secret not in text + done.stderr


@pytest.mark.parametrize("arguments", [["--api-key", "sk-12345"], ["--api-key=sk-12345"]])
def test_a_key_of_the_command_line_is_replaced(arguments: list[str]) -> None:
    """Both spellings of the option are recognised."""
    assert without_secrets("using sk-12345", arguments) == "using …"


def test_a_log_that_is_missing_is_a_usage_error(tmp_path: Path) -> None:
    """`cost nofile.jsonl` used to end in a traceback."""
    done = called("cost", "nofile.jsonl", tmp_path=tmp_path)
    assert done.returncode == ExitCode.USAGE
    assert "cannot be read" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("scan", "empty.jsonl"),
        ("cost", "empty.jsonl"),
        ("check", "--baseline", "empty.jsonl", "--candidate", "empty.jsonl"),
        ("recommend", "--repetition-detection", "empty.jsonl"),
    ],
    ids=lambda words: words[0],
)
def test_an_empty_log_is_inconclusive_in_every_command(words: tuple[str, ...], tmp_path: Path) -> None:
    """The same file used to exit 4 in one command and 2 in another."""
    (tmp_path / "empty.jsonl").touch()
    done = called(*words, tmp_path=tmp_path)
    assert done.returncode == ExitCode.INCONCLUSIVE
    assert re.search(r"[Nn]o answer|0 outputs", done.stderr)


def test_an_unusable_store_is_a_usage_error(tmp_path: Path) -> None:
    """A damaged store is the user's file, not an internal error of this program."""
    store = tmp_path / "s.sqlite3"
    store.write_bytes(b"\x00" * 4096)
    done = called("--store", str(store), "runs", "list", tmp_path=tmp_path)
    assert done.returncode == ExitCode.USAGE


@pytest.mark.parametrize("piece", ["://", "x://y", "://a@", "://?", "a://b@c?d#e "])
def test_a_long_exception_is_reported_at_once(piece: str) -> None:
    """It may quote what a server has sent: 60 kB of `://` took two minutes."""
    found = without_secrets(piece * 1_000_000, [])
    assert len(found) < 200_000


def test_urls_lose_credentials_wherever_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """User names, passwords and queries go; what is needed to find the place stays."""
    monkeypatch.setattr(secrets, "_used", set())  # other tests of this process have used some
    said = (
        "('http://u:p@ss@h:1/v1?key=k#f', \"https://h/v1#token\") postgresql://u:secret@db/x a@b http://h/?"
    )
    assert without_secrets(said, []) == (
        "('http://…@h:1/v1?…', \"https://h/v1?…\") postgresql://…@db/x a@b http://h/?"
    )
