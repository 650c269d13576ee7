"""What readers wrote about the answers they read blind (see INSTRUCTIONS.md), and what was settled from it.

`labels/a.jsonl` and `b.jsonl` hold two readers' labels, `c.jsonl` those of a third for what the first two
disagree about. Words are numbered from 1, at white space.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LABELS = Path(__file__).parent / "labels"
SAME_PLACE = 16
"""Two onsets this many words apart, or fewer, are one."""


@dataclass(frozen=True, slots=True)
class Label:
    """One reader's word on one answer. onset: the first degenerate word; None when healthy."""

    degenerate: bool
    symptom: str | None
    onset: int | None
    others: tuple[str, ...] = ()
    sure: bool = True
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Settled:
    """What an answer counts as. unanimous: both readers said so, without the third."""

    label: Label
    unanimous: bool


Labels = Mapping[str, Label]


def read_labels(reader: str, folder: Path = LABELS) -> dict[str, Label]:
    """Key of the recording → label; empty where the reader has no file."""
    path = folder / f"{reader}.jsonl"
    if not path.exists():
        return {}
    return {row["key"]: _label(row) for row in map(json.loads, path.read_text("utf-8").splitlines())}


def _label(row: dict[str, Any]) -> Label:
    return Label(
        row["degenerate"],
        row["symptom"],
        row["onset"],
        tuple(row.get("others", ())),
        row.get("sure", True),
        row.get("remark", ""),
    )


def same_place(one: Label, other: Label) -> bool:
    """Whether both are healthy, or both fail at one place."""
    if one.onset is None or other.onset is None:
        return one.degenerate == other.degenerate
    return abs(one.onset - other.onset) <= SAME_PLACE


def disputed(first: Labels, second: Labels) -> list[str]:
    """Keys that the two readers disagree about: degenerate or not, or where."""
    return [key for key in sorted(first.keys() & second.keys()) if not same_place(first[key], second[key])]


def settle(first: Labels, second: Labels, third: Labels) -> dict[str, Settled]:
    """Every answer that both read: what they agree on, at the earlier onset; else the third reader's word.

    What is disputed and was not read by the third is left out.
    """
    found = {}
    for key in sorted(first.keys() & second.keys()):
        one, other = first[key], second[key]
        if same_place(one, other):
            earlier = min((one, other), key=lambda label: label.onset or 0)
            found[key] = Settled(earlier, unanimous=True)
        elif key in third:
            found[key] = Settled(third[key], unanimous=False)
    return found


def kappa(first: Labels, second: Labels) -> float:
    """Cohen's kappa of "degenerate or not" (1960). Raises ZeroDivisionError where nobody ever differs."""
    keys = first.keys() & second.keys()
    agree = sum(first[k].degenerate == second[k].degenerate for k in keys) / len(keys)
    p, q = (sum(labels[k].degenerate for k in keys) / len(keys) for labels in (first, second))
    chance = p * q + (1 - p) * (1 - q)
    return (agree - chance) / (1 - chance)


def main() -> None:
    """Turn a reader's numbered lines into labels by key."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lines", type=Path)
    parser.add_argument("key", type=Path)
    parser.add_argument("reader", choices=["a", "b", "c"])
    args = parser.parse_args()
    names: dict[str, str] = json.loads(args.key.read_text("utf-8"))
    rows: dict[str, dict[str, Any]] = {}
    for line in args.lines.read_text("utf-8").splitlines():
        row = json.loads(line)
        key = names[str(row.pop("n"))]
        rows[key] = {"key": key, **row}
    LABELS.mkdir(exist_ok=True)
    text = "".join(f"{json.dumps(rows[key], ensure_ascii=False)}\n" for key in sorted(rows))
    (LABELS / f"{args.reader}.jsonl").write_text(text, "utf-8")
    print(f"{len(rows)} labels")


if __name__ == "__main__":
    main()
