"""Documents as JSON text, whole and in pieces."""

from __future__ import annotations

import json

import pytest

from stresstest.render import json_text
from stresstest.render.json_text import LazyRows, dumps, json_pieces


def test_rows_that_are_made_as_they_are_written_are_written_like_a_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The timeline of a log of 381,000 requests took 1 GB as a list."""
    made: list[int] = []
    monkeypatch.setattr(json_text, "_VALUES", 4)

    def row(n: int) -> dict[str, str]:
        made.append(n)
        return {"id": f"##[group]{n}\x1b"}

    pieces = json_pieces(
        {"before": 1, "rows": LazyRows(row, range(3)), "none": LazyRows(row, ()), "after": 2}
    )
    first = next(pieces)
    assert made == []
    while not made:
        first += next(pieces)
    assert made == [0]
    text = first + "".join(pieces)
    plain = {"before": 1, "rows": [row(n) for n in range(3)], "none": [], "after": 2}
    assert text == dumps(plain)
    assert json.loads(text) == plain
