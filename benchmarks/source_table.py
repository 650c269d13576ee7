"""The source case's table on the simulator: what was seen there, and what `run --no-abort` shows here.

python -m benchmarks.source_table [--write]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median

from benchmarks.pages import table, write_section
from tests.simulation.campaigns import Campaign, Truth, truths
from tests.simulation.source_case import CONSTRAINED, ROWS, Row, asked_units

_HEAD = [
    "setting",
    "published",
    "first symptoms",
    "first onset",
    "T",
    "KV peak",
    "correctly identified",
]


def cells(row: Row, found: Campaign, known: dict[str, Truth]) -> list[str]:
    """A row of the page. The last cell: of the answers that truly fail, how many are told where and how."""
    onsets = sorted(found.onsets)
    where = f"{median(onsets):,.0f} ({onsets[0]:,}–{onsets[-1]:,})" if onsets else "–"
    threshold = found.document["threshold"]
    reach = "≥ " if threshold["censored_at"] else ""
    failing = [(known[g.key], g.verdict) for g in found.generations]
    failing = [(t, v) for t, v in failing if t.onset is not None and t.onset <= v.tokens]
    told = sum(str(v.symptom) == t.symptom and abs((v.onset or 0) - (t.onset or 0)) <= 60 for t, v in failing)
    shown = ", ".join(f"{kind} {n}" for kind, n in found.document["symptoms"].items()) or "none"
    return [
        row.name,
        row.source,
        f"{shown} (of {len(found.generations)})",
        where,
        f"{reach}{threshold['tokens']:,}",
        f"{found.kv_peak:.0%}",
        f"{told} of {len(failing)}" if failing else "–",
    ]


def whatever_is_asked(found: Campaign) -> str:
    """Onset, and the flood that follows, by the paragraphs that were asked for."""
    rows = []
    for units in CONSTRAINED.asked:
        failing = [g for g in found.failing if asked_units(g.prompt_text) == units]
        onsets = [g.verdict.onset or 0 for g in failing]
        floods = [
            min(s.onset for s in g.verdict.symptoms if s.kind in ("flooding", "loop") and s.confirmed)
            for g in failing
        ]
        spans = [f"{median(each):,.0f} ({min(each):,}–{max(each):,})" for each in (onsets, floods)]
        rows.append([str(units), str(len(failing)), *spans])
    return table(["paragraphs asked", "answers", "first onset", "flooding from"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write docs/simulated.md")
    options = parser.parse_args()
    rows, by_length, system = [], "", Counter[str]()
    for row in ROWS:
        with tempfile.TemporaryDirectory() as folder:
            found = row.run(Path(folder))
            rows.append(cells(row, found, truths(found)))
        print(rows[-1], flush=True)
        system.update(found.system_facts)
        if row is CONSTRAINED:
            by_length = whatever_is_asked(found)
    text = "\n\n".join(
        [
            "## A published case",
            "The scenarios imitate the measurements of [When Good GPUs Produce Bad Tokens]"
            "(https://dielabs.github.io/papers/when-good-gpus-produce-bad-tokens.html) "
            "(Qwen2.5-7B-Instruct-AWQ and Mistral-7B-Instruct-v0.3-FP8 on an RTX 4070 Super). Each row is "
            "a whole `run --no-abort --rigor quick` (`python -m benchmarks.source_table --write`). Onsets "
            "in output tokens: median (earliest–latest). T: certified for a risk of at most 10 % at 90 % "
            "confidence. Last column: of the answers that truly fail, those whose symptom is the true one "
            "and whose onset is within 60 tokens of it.",
            table(_HEAD, rows),
            f"System evidence in all rows together: {sum(system.values())} facts.",
            "Row 3, by what was asked for:",
            by_length,
        ]
    )
    print(text)
    if options.write:
        write_section("simulated.md", "source", text)
    sys.exit(1 if system else 0)


if __name__ == "__main__":
    main()
