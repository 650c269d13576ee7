"""A week of traffic in one process: a campaign every few hours, a scan of every hour's log, in virtual time.

What a leak would show: resident memory and open files after each day, from the second on.
"""

from __future__ import annotations

import gc
import json
import os
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from benchmarks.input_kinds import text_of
from stresstest import clock
from tests.support.commands import command
from tests.support.fake_campaign import Behaviour, campaign_server

DAYS = 7
_HOUR = 3600.0
_ANSWERS = 200
"""Recorded answers an hour."""
_KINDS = ("prose", "unique words", "JSON", "one sentence", "Chinese", "code", "list items", "template")


@dataclass(frozen=True)
class Day:
    """After a day. memory: resident MB; files: open file descriptors."""

    number: int
    campaigns: int
    answers: int
    memory: float
    files: int


def week(folder: Path, *, every_hours: int = 6, scan_hours: int = 1, days: int = DAYS) -> list[Day]:
    """Campaigns against a scripted server and scans, in this process, each every so many hours.

    folder: for the store and the logs.
    """
    found: list[Day] = []
    store, now = str(folder / "week.sqlite3"), clock.now
    campaigns = answers = 0
    with campaign_server(Behaviour(onset=60)) as (fake, _):
        for hour in range(24 * days):
            passed = hour * _HOUR
            with patch.object(clock, "now", lambda passed=passed: now() + passed):
                if hour % every_hours == 0:
                    options = ("--lang", "it", "--rigor", "quick", "--horizon", "120", "--seed", str(hour))
                    _done("--store", store, "run", *options, "--gpus", "none", "--base-url", fake.url)
                    campaigns += 1
                if hour % scan_hours == 0:
                    log = _log(folder / "hour.jsonl", hour)
                    _done("--store", store, "scan", str(log), "--lang", "en", "--workers", "1")
                    answers += _ANSWERS
            if hour % 24 == 23:
                gc.collect()
                found.append(Day(hour // 24 + 1, campaigns, answers, _resident_mb(), _open_files()))
                print(found[-1], flush=True)
    return found


def _done(*words: str) -> None:
    code, _, err = command("--display", "none", *words)
    if code not in (0, 4):
        raise RuntimeError(f"{words}: exit {code}: {err[-500:]}")


def _log(path: Path, hour: int) -> Path:
    """An hour's answers, of many kinds, each hour's its own."""
    rows = (
        {"id": f"{hour}/{i}", "response": text_of(_KINDS[i % len(_KINDS)], 1200, seed=hour * _ANSWERS + i)}
        for i in range(_ANSWERS)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
