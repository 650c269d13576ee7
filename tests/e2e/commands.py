"""The command line as a user has it, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def stresstest(*args: str, store: Path, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stresstest", "--store", str(store), "--display", "plain", *args],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def run_json(*args: str, store: Path, code: int = 0) -> dict[str, Any]:
    done = stresstest("run", *args, "--json", store=store)
    print(done.stderr)
    assert done.returncode == code, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document
