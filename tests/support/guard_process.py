"""`stresstest guard` as a process of its own."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.commands import clean_environment


@contextmanager
def guard(upstream: str, *options: str, folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The command on a free port, as (base URL, process); ended by SIGTERM."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    words = [
        sys.executable,
        "-m",
        "stresstest",
        "guard",
        "--upstream",
        upstream,
        "--port",
        str(port),
        *options,
    ]
    process = subprocess.Popen(
        words, env=clean_environment(folder), cwd=folder, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        assert "guarding" in process.stderr.readline()
        yield f"http://127.0.0.1:{port}/v1", process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
