"""Files of recorded answers for `scan`, and a listener that keeps what was reported."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from stresstest.records import DamagedLine
from tests.support.stories import LOOP, story

LOOPING = f" {LOOP}" * 30


class Heard:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.lines: list[str] = []

    def advanced(self, done: int, requests: int, degenerate: int) -> None:
        self.done.append(done)

    def damaged(self, damaged: DamagedLine) -> None:
        self.lines.append(str(damaged))

    def noticed(self, note: str) -> None:
        self.lines.append(note)

    def unwritten(self, why: str) -> None:
        self.lines.append(why)


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def corpus(n: int, seed: int = 1) -> list[dict[str, Any]]:
    """Stories of two models; every fourth of the second one loops after its second unit."""
    rng = random.Random(seed)
    rows = []
    for i in range(n):
        model = "ab"[i % 2]
        text = story(rng.randint(3, 6), seed=i)
        if i % 8 == 1:
            text = story(2, seed=i) + LOOPING
        rows.append({"id": f"r{i}", "model": model, "response": text, "finish_reason": "length"})
    return rows
