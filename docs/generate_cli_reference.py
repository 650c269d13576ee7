"""Writes docs/cli-reference.md from ``--help``; ``--check`` fails when it is out of date."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

TARGET = Path(__file__).parent / "cli-reference.md"
COMMANDS = (
    (),
    ("run",),
    ("diagnose",),
    ("sweep",),
    ("plan",),
    ("recommend",),
    ("scan",),
    ("guard",),
    ("check",),
    ("cost",),
    ("report",),
    ("export",),
    ("export", "dpo"),
    ("export", "kto"),
    ("export", "generations"),
    ("export", "runs"),
    ("runs",),
    ("runs", "list"),
    ("runs", "show"),
    ("runs", "delete"),
    ("init",),
    ("doctor",),
    ("sim",),
    ("demo",),
)


_PROGRAM = """
import contextlib, io, json, sys
from stresstest.cli.app import main

def shown(command):
    sys.argv, out = ["stresstest", *command, "--help"], io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main()
    return out.getvalue().strip()

found = [shown(command) for command in json.loads(sys.argv[1])]
sys.stdout.write(json.dumps(found))
"""


def help_of(command: tuple[str, ...]) -> str:
    """The help text as a terminal of 100 columns shows it."""
    return _helps()[command]


@functools.cache
def _helps() -> dict[tuple[str, ...], str]:
    """Of every command, from one process: a start costs more than a help text."""
    env = {**os.environ, "COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1"}
    for name in [n for n in env if n.startswith("STRESSTEST_")]:
        del env[name]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, json.dumps(COMMANDS)],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(COMMANDS, json.loads(done.stdout), strict=True))


def reference() -> str:
    parts = ["# Command-line reference", "", "Generated from `--help` by `make docs`; checked in CI."]
    for command in COMMANDS:
        name = " ".join(("stresstest", *command))
        parts += ["", f"## {name}", "", "```", help_of(command), "```"]
    return "\n".join(parts) + "\n"


def main() -> int:
    text = reference()
    if "--check" not in sys.argv:
        TARGET.write_text(text, encoding="utf-8")
        return 0
    if not TARGET.exists() or TARGET.read_text(encoding="utf-8") != text:
        sys.stderr.write("docs/cli-reference.md is out of date: run `make docs`.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
