"""The labels of the development corpus are well-formed: benchmarks stand on them."""

from __future__ import annotations

import json
from collections import Counter

from tests.support.paths import ROOT

FOLDER = ROOT / "tests" / "labels"
LABELS = FOLDER / "corpus_loops.jsonl"
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


def test_languages_read_again_are_corrections() -> None:
    """An answer is corrected once, to another label, with a reason: a slip would change the figures."""
    lines = (FOLDER / "corpus_language.jsonl").read_text("utf-8").splitlines()
    labels = [json.loads(line) for line in lines]
    assert len({(each["model"], each["language"], each["digest"]) for each in labels}) == len(labels)
    for label in labels:
        assert {label["given"], label["label"]} == {"good", "bad"}
        assert len(label["digest"]) == 16
        assert 0 < len(label["note"]) <= 120
