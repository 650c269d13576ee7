"""Similar names for a mistyped one."""

from __future__ import annotations

import difflib

import pytest

from stresstest.config.suggestions import closest_names, did_you_mean


def test_the_most_similar_name_is_suggested() -> None:
    """Also among more names than most servers list."""
    names = [f"org/model-{n}b" for n in range(2000)]
    assert closest_names("org/modle-1999b", names) == ["org/model-1999b"]
    assert did_you_mean("temprature", ["top_p", "temperature"]) == "Did you mean 'temperature'?"
    assert did_you_mean("seed", ["top_p", "temperature"]) is None


def test_of_very_many_names_only_the_first_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of 23 MB of names that were like the one that was asked for held a command up for 43 s."""
    compared: list[str] = []
    closest = difflib.get_close_matches

    def counted(given: str, known: list[str], n: int, cutoff: float) -> list[str]:
        compared.extend(known)
        return closest(given, known, n, cutoff)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    names = ["name", *("n" * 300 for _ in range(10_000))]
    assert closest_names("nmae", names) == ["name"]
    assert len(compared) < 300
