"""What `ps` shows of a command that was given a key."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from stresstest.cli.command_line import secret_places
from tests.support.commands import clean_environment


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (["--api-key", "sk-1", "doctor"], ["--api-key", "****", "doctor"]),
        (["--api-key=sk-1", "run"], ["--api-key=****", "run"]),
        (["--store", "postgresql://me:pw@host/db"], ["--store", "postgresql://*****@host/db"]),
        (["--base-url=http://u:p@gpu:8000/v1"], ["--base-url=http://***@gpu:8000/v1"]),
        (["--base-url", "HTTP://tok@gpu:8000/v1"], ["--base-url", "HTTP://***@gpu:8000/v1"]),
        (["--base-url", "http://tok:@gpu:8000/v1"], ["--base-url", "http://****@gpu:8000/v1"]),
        (["scan", "abfs://container@account/x"], ["scan", "abfs://container@account/x"]),
        (["--store", "postgresql://me:p/w@x@host/db"], ["--store", "postgresql://********@host/db"]),
        (
            ["--store", "postgresql://host/db?user=me&password=pw&connect_timeout=3"],
            ["--store", "postgresql://host/db?user=me&password=**&connect_timeout=3"],
        ),
        (["https://h/x.jsonl?X-Amz-Signature=abc"], ["https://h/x.jsonl?X-Amz-Signature=***"]),
        (["http://gpu:8000/v1/a@b"], ["http://gpu:8000/v1/a@b"]),
        (
            ["--base-url", "http://gpu:8000/v1", "--api-key"],
            ["--base-url", "http://gpu:8000/v1", "--api-key"],
        ),
    ],
)
def test_only_what_is_secret_is_hidden(given: list[str], shown: list[str]) -> None:
    """Keys, passwords and users that may be tokens, wherever an option takes them."""
    held = bytearray("".join(f"{argument}\0" for argument in given).encode())
    for at, size in secret_places(bytes(held)):
        held[at : at + size] = b"*" * size
    assert held.decode().split("\0")[:-1] == shown


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps the command line in writable memory")
def test_a_running_command_shows_no_key(tmp_path: Path) -> None:
    """All users of a machine can read the command lines of all processes."""
    words = ["--api-key", "sk-very-secret", "scan", "-"]
    process = subprocess.Popen(
        [sys.executable, "-m", "stresstest", *words],
        env=clean_environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(600):
            shown = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
            if b"*" * len("sk-very-secret") in shown:
                break
            time.sleep(0.05)
        assert b"sk-very-secret" not in shown
        assert b"--api-key" in shown
    finally:
        process.kill()
        process.communicate()
