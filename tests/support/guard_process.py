"""`stresstest guard` as a process of its own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.commands import clean_environment


@contextmanager
def guard(
    upstream: str, *options: str, folder: Path, stdout: int | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The command on a free port, as (base URL, process); ended by SIGTERM. stdout: a file descriptor."""
    words = [
        sys.executable,
        "-m",
        "stresstest",
        "guard",
        "--upstream",
        upstream,
        "--port",
        "0",
        *options,
    ]
    process = subprocess.Popen(
        words,
        env=clean_environment(folder),
        cwd=folder,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"guarding .+ at (http://127\.0\.0\.1:\d+)", line)
        assert found is not None, line
        yield f"{found[1]}/v1", process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
