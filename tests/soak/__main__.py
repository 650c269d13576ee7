"""`python -m tests.soak [PART…] [--write]`: runs the parts and writes their sections of the page.

PART: writers, postgres, kills, interrupts, week; all of them by default, which takes some hours of a core.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

from benchmarks.pages import table, write_section
from tests.postgres import server
from tests.soak.kills import COMMANDS, measure
from tests.soak.week import week
from tests.soak.writers import Soaked, soak
from tests.support.paths import ROOT

PAGE = "results/reliability.md"


def _writers(options: argparse.Namespace, folder: Path) -> str:
    found = soak(str(folder / "s.sqlite3"), folder, options.seconds, every=options.every)
    return _soaked("SQLite", found, options)


def _postgres(options: argparse.Namespace, folder: Path) -> str:
    with server.stopped_and_started() as (url, stop, begin):

        def restart() -> None:
            stop()
            begin()

        found = soak(url, folder, options.seconds, every=options.every, restart=restart)
    return _soaked("PostgreSQL", found, options)


def _soaked(name: str, found: Soaked, options: argparse.Namespace) -> str:
    commands = sorted({command for command, _ in found.codes})
    rows = []
    for command in commands:
        mine = {code: n for (each, code), n in found.codes.items() if each == command}
        killed = mine.pop(None, 0)
        rows.append([command, str(sum(mine.values()) + killed), str(killed), _codes(mine)])
    restarted = " The server was restarted once, in the middle." if found.restarts else ""
    return "\n".join(
        [
            f"Eight writers on one {name} store for {options.seconds:.0f} s, one of them killed every "
            f"{options.every:g} s or so.{restarted} Then what was unfinished was resumed.",
            "",
            table(["command", "started", "killed", "exit codes of the others"], rows),
            "",
            f"{found.kills} kills. At the end {found.runs} runs hold {found.generations:,} generations, each "
            f"once; the server was asked {found.asked:,} times, "
            f"{found.asked - found.generations} more than that. "
            f"{found.refused} commands were refused because another writer was measuring their run. "
            f"**Wrong: {'; '.join(found.wrong) or 'nothing'}.**",
        ]
    )


def _codes(counts: dict[int | None, int]) -> str:
    return ", ".join(f"{code}: {n}" for code, n in sorted(counts.items(), key=lambda item: item[0] or 0))


def _kills(options: argparse.Namespace, folder: Path) -> str:
    found = measure(folder, options.moments, options.seed, options.command, options.minutes * 60)
    rows = []
    for name, every in found.items():
        moments = [moment for each in every for moment in each.moments]
        same = sum(not each.differs for each in every)
        rows.append([f"`{name}`", str(len(moments)), str(len(every)), f"{same} of {len(every)}"])
    differing = [
        f"- `{name}`: {said}" for name, every in found.items() for each in every for said in each.differs
    ]
    head = ["command", "kills", "measurements", "the same JSON as undisturbed"]
    return "\n".join([table(head, rows), *(["", *differing] if differing else [])])


def _interrupts(options: argparse.Namespace, folder: Path) -> str:
    report = folder / "interrupts.xml"
    words = [
        "-q",
        "-m",
        "simulated",
        "-p",
        "no:cacheprovider",
        "-o",
        "junit_family=xunit1",
        f"--junit-xml={report}",
    ]
    subprocess.run([sys.executable, "-m", "pytest", *words, "tests/simulation/test_interrupts.py"], cwd=ROOT)
    rows = []
    for case in ET.parse(report).iter("testcase"):
        seconds = [p.get("value", "") for p in case.iter("property") if p.get("name") == "seconds"]
        failed = case.find("failure") is not None
        what = case.get("name", "").removeprefix("test_").replace("_", " ")
        rows.append([what, "failed" if failed else f"{float(seconds[0]):.2f}" if seconds else "–"])
    return table(["what it was waiting for", "seconds after the second Ctrl-C"], rows)


def _week(options: argparse.Namespace, folder: Path) -> str:
    days = week(folder, every_hours=options.hours)
    rows = [
        [str(d.number), str(d.campaigns), f"{d.answers:,}", f"{d.memory:.0f} MB", str(d.files)] for d in days
    ]
    return table(["day", "campaigns", "answers scanned", "resident memory", "open files"], rows)


PARTS: dict[str, Callable[[argparse.Namespace, Path], str]] = {
    "writers": _writers,
    "postgres": _postgres,
    "kills": _kills,
    "interrupts": _interrupts,
    "week": _week,
}


def main() -> None:
    """Run the parts that were named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all of them by default")
    parser.add_argument("--seconds", type=float, default=1200.0, help="of writers and postgres")
    parser.add_argument("--every", type=float, default=3.0, help="seconds between kills of writers")
    parser.add_argument("--moments", type=int, default=100, help="kills of each command")
    parser.add_argument("--minutes", type=float, default=math.inf, help="kills: begin none after so many")
    parser.add_argument("--command", action="append", choices=list(COMMANDS), help="kills: only these")
    parser.add_argument("--hours", type=int, default=6, help="week: between campaigns")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE}")
    options = parser.parse_args()
    for name in options.parts or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            text = PARTS[name](options, Path(folder))
        print(f"{name}\n\n{text}\n", flush=True)
        if options.write:
            write_section(PAGE, name, text)


if __name__ == "__main__":
    main()
