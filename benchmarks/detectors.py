"""Our repetition detectors and what others use, side by side on the same real outputs, in one run.

    python benchmarks/detectors.py --corpus PATH [--write docs/detectors.md]

PATH holds `*.jsonl.gz` with `id` and `response`, and `loops.jsonl`. Positives: what is labelled in
tests/labels/corpus_loops.jsonl as degenerate, near-loop or recovered loop. Unsure ones count on neither
side; all others are negatives.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.rivals import RIVALS, Rule
from stresstest.detectors.entry import Detector, DetectorSpec
from stresstest.detectors.flooding.online import FloodingDetector
from stresstest.detectors.loop.online import LoopDetector
from stresstest.detectors.near_loop.online import NearLoopDetector
from stresstest.detectors.text.tokens import text_tokens
from stresstest.detectors.verdict import resolve_symptoms
from stresstest.model import Token

LABELS = Path(__file__).parent.parent / "tests" / "labels" / "corpus_loops.jsonl"
FOUND = ("degenerate", "near-loop", "recovered loop")


@dataclass
class Row:
    """One detector's results. onset: None for rules that name no place."""

    name: str
    online: bool
    hits: dict[str, int] = field(default_factory=dict)
    false: list[str] = field(default_factory=list)
    errors: list[int] = field(default_factory=list)
    delays: list[int] = field(default_factory=list)
    seconds: float = 0.0


def outputs(corpus: Path) -> Iterator[tuple[str, str]]:
    """(id, text) of every output."""
    for path in sorted(corpus.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                record = json.loads(line)
                yield record["id"], record["response"] or ""


def ours(tokens: Sequence[Token]) -> tuple[int, int]:
    """(onset, alarm) of loop, near-loop and flooding together, (0, 0) for none."""
    spec = DetectorSpec()
    detectors: tuple[Detector, ...] = (LoopDetector(spec), NearLoopDetector(spec), FloodingDetector(spec))
    for token in tokens:
        for detector in detectors:
            detector.update(token)
    for detector in detectors:
        detector.finish(None)
    symptoms = resolve_symptoms([symptom for detector in detectors for symptom in detector.symptoms()])
    first = next((symptom for symptom in symptoms if symptom.confirmed), None)
    return (first.onset, first.alarm) if first else (0, 0)


def measure(corpus: Path) -> tuple[list[Row], dict[str, int]]:
    """All rows, and how many outputs there are of each kind."""
    labels: dict[str, dict[str, Any]] = {}
    for line in LABELS.read_text("utf-8").splitlines():
        label = json.loads(line)
        labels[label["id"]] = label
    rows = [Row("ours", online=True)] + [Row(rival.name, rival.online) for rival in RIVALS]
    sizes = {"outputs": 0, "words": 0, "bytes": 0, "exact": 0, "near": 0, "unsure": 0}
    for key, text in outputs(corpus):
        tokens = text_tokens(text)
        words = [token.text for token in tokens]
        label = labels.get(key, {"label": "healthy", "kind": None, "onset_word": None})
        sizes["outputs"] += 1
        sizes["words"] += len(words)
        sizes["bytes"] += len(text.encode())
        exact = label["kind"] == "loop"
        sizes["exact" if exact else "near" if label["label"] in FOUND else "unsure"] += (
            label["label"] != "healthy" and label["label"] != "false friend"
        )
        judged: list[Callable[[], tuple[int, int]]] = [partial(ours, tokens)]
        judged += [partial(_rival, rival.rule, words, text) for rival in RIVALS]
        for row, judge in zip(rows, judged, strict=True):
            started = time.process_time()
            onset, alarm = judge()
            row.seconds += time.process_time() - started
            _score(row, key, label, onset, alarm)
    return rows, sizes


def _rival(rule: Rule, words: Sequence[str], text: str) -> tuple[int, int]:
    at = rule(words, text)
    return at, at


def _score(row: Row, key: str, label: dict[str, Any], onset: int, alarm: int) -> None:
    if not onset or label["label"] == "unsure":
        return
    if label["label"] not in FOUND:
        row.false.append(key)
        return
    row.hits[label["kind"]] = row.hits.get(label["kind"], 0) + 1
    if row.online:
        row.errors.append(abs(onset - 1 - label["onset_word"]))
        row.delays.append(alarm - 1 - label["onset_word"])


def table(rows: list[Row], sizes: dict[str, int]) -> str:
    """The page for the documentation."""
    healthy = sizes["outputs"] - sizes["exact"] - sizes["near"] - sizes["unsure"]
    lines = [
        f"{sizes['outputs']} outputs of eight models, {sizes['words'] / 1e6:.1f} M words. Labelled: "
        f"{sizes['exact']} exact loops, {sizes['near']} near-loops, {sizes['unsure']} unsure (not counted); "
        f"{healthy} others. Words are `text_tokens`.",
        "",
        "| detector | exact loops | near-loops | false alarms | onset error (median, words)"
        " | alarm delay (median, words) | µs a word | MB/s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        errors = f"{median(row.errors):.0f}" if row.errors else "–"
        delays = f"{median(row.delays):.0f}" if row.delays else "–"
        lines.append(
            f"| {row.name} | {row.hits.get('loop', 0)} of {sizes['exact']} "
            f"| {row.hits.get('near_loop', 0)} of {sizes['near']} "
            f"| {len(row.false)} ({100 * len(row.false) / healthy:.2f} %) | {errors} | {delays} "
            f"| {1e6 * row.seconds / sizes['words']:.2f} | {sizes['bytes'] / 1e6 / row.seconds:.1f} |"
        )
    return "\n".join(lines)


HEAD = """# Repetition detectors side by side

Generated by `python -m benchmarks.detectors --corpus PATH --write docs/detectors.md`; all rows come from
one run over the same outputs. The labels are in `tests/labels/corpus_loops.jsonl`; how they were made is
described next to them. *Ours* is loop, near-loop and flooding together, as they run online. The rivals are
re-implemented from their published descriptions. None of them reports where a degeneration began. For those
that stop a generation, the point at which they stop counts as the onset: a negative delay means that they
stopped earlier, for another reason. The others judge a whole text. The cost given for vLLM is that of one
search over the whole output with numpy; `benchmarks/detector_cost.py` measures what its own check costs per
token online.

"""


def _rest(page: Path) -> str:
    """The sections of a page that follow what is generated."""
    _, heading, rest = page.read_text(encoding="utf-8").partition("\n## ") if page.exists() else ("", "", "")
    return heading + rest


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    rows, sizes = measure(options.corpus)
    page = table(rows, sizes)
    print(page)
    print("\nours, false alarms:", ", ".join(rows[0].false) or "none")
    if options.write:
        options.write.write_text(f"{HEAD}{page}\n{_rest(options.write)}", encoding="utf-8")


if __name__ == "__main__":
    main()
