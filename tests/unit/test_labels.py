"""The labels of the development corpus are well-formed: benchmarks stand on them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

LABELS = Path(__file__).parent.parent / "labels" / "corpus_loops.jsonl"
KINDS = {"degenerate", "near-loop", "recovered loop", "false friend", "unsure"}


def test_labels_are_complete_and_unique() -> None:
    """Every label has an id of its own and a known meaning; what counts as found has an onset."""
    labels = [json.loads(line) for line in LABELS.read_text("utf-8").splitlines()]
    assert {label["label"] for label in labels} == KINDS
    assert max(Counter(label["id"] for label in labels).values()) == 1
    for label in labels:
        found = label["label"] not in ("false friend", "unsure")
        assert (label["onset_word"] is not None) == found
        assert (label["kind"] in ("loop", "near_loop")) or not found
        assert 0 < len(label["note"]) <= 120
