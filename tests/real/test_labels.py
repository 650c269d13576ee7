"""How two readers' labels become one, and what is kept of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.real.cells import mild_plan, plan
from tests.real.labels import Label, disputed, kappa, read_labels, settle

HEALTHY = Label(False, None, None)


def loop(onset: int) -> Label:
    return Label(True, "loop", onset)


class TestSettling:
    def test_what_both_say_stands_at_the_earlier_onset(self) -> None:
        found = settle({"a": loop(20), "b": HEALTHY}, {"a": loop(12), "b": HEALTHY}, {})
        assert [(key, each.label.onset, each.unanimous) for key, each in found.items()] == [
            ("a", 12, True),
            ("b", None, True),
        ]

    def test_a_third_reader_decides_what_is_disputed(self) -> None:
        """About whether, and about where; what only two read and disagree on is left out."""
        first = {"a": loop(20), "b": loop(9), "c": loop(1)}
        second = {"a": HEALTHY, "b": loop(90), "c": HEALTHY}
        assert disputed(first, second) == ["a", "b", "c"]
        found = settle(first, second, {"a": HEALTHY, "b": loop(88)})
        assert {key: (each.label.onset, each.unanimous) for key, each in found.items()} == {
            "a": (None, False),
            "b": (88, False),
        }

    def test_agreement_beyond_chance(self) -> None:
        first = {str(n): HEALTHY if n < 5 else loop(1) for n in range(10)}
        assert kappa(first, first) == 1.0
        second = {key: HEALTHY if int(key) % 2 else loop(1) for key in first}
        assert kappa(first, second) == pytest.approx(-0.2)


def test_labels_are_of_the_plan_and_well_formed(tmp_path: Path) -> None:
    """A healthy answer has no onset, a degenerate one has one and a symptom."""
    line = {"key": "k", "degenerate": True, "symptom": "loop", "onset": 3, "others": [], "sure": False}
    (tmp_path / "a.jsonl").write_text(json.dumps(line) + "\n", "utf-8")
    assert read_labels("a", tmp_path) == {"k": Label(True, "loop", 3, (), False)}
    keys = {planned.key for planned in (*plan(), *mild_plan())}
    for reader in "abc":
        for key, label in read_labels(reader).items():
            assert key in keys
            assert label.degenerate == (label.onset is not None) == (label.symptom is not None)
