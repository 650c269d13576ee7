"""`Judge` on a batch as Ray Data hands it over; Ray itself is not needed for that."""

from __future__ import annotations

import json

import pyarrow
import pytest

from stresstest import detect_many
from stresstest.integrations.ray import Judge
from tests.support.scanned_files import LOOPING
from tests.support.stories import story


def test_lines_become_verdicts_and_damage_stays_a_row() -> None:
    """Every line is accounted for, in order, several answers and damage too, and columns keep their types."""
    rows = [
        {"id": "healthy", "response": story(4, seed=1)},
        {"response": story(2, seed=2) + LOOPING},
        {"id": "two", "output": [story(3, seed=3), story(3, seed=4)]},
    ]
    lines = [*map(json.dumps, rows), '{"id": ']
    batch = pyarrow.table({"text": lines, "path": ["a", "b", "c", "d"]})
    found = Judge(line="text", language="en", keep=["path"])(batch)
    assert [(row["path"], row["id"], row["degenerate"]) for row in found.to_pylist()] == [
        ("a", "healthy", False),
        ("b", None, True),
        ("c", "two#0", False),
        ("c", "two#1", False),
        ("d", None, None),
    ]
    assert found["symptom"].to_pylist()[1] == "loop"
    assert found["damaged"].to_pylist()[4].startswith("not JSON")
    assert found.schema.field("onset_char").type == pyarrow.int64()


def test_rows_are_records_where_no_column_of_lines_is_named() -> None:
    """Parquet and other tables: each row is read as `scan` reads it."""
    found = Judge(fields=["response=answer"], language="en")(pyarrow.table({"answer": [story(4, seed=1)]}))
    assert found["degenerate"].to_pylist() == [False]


def test_times_in_nanoseconds_are_read_and_kept(pandas_times: pyarrow.Array) -> None:
    """pandas writes them so; Python's times have none, and Arrow's own error came instead of verdicts."""
    batch = pyarrow.table({"response": [story(4, seed=1), LOOPING * 9], "created_at": pandas_times})
    found = Judge(language="en", keep=["created_at"])(batch)
    assert found["degenerate"].to_pylist() == [False, True]
    assert found["created_at"].chunk(0).equals(pandas_times)
    assert [each.degenerate for each in detect_many(batch, language="en")] == [False, True]


@pytest.fixture
def pandas_times() -> pyarrow.Array:
    return pyarrow.array([1_700_000_000_000_000_001] * 2, pyarrow.timestamp("ns"))


@pytest.mark.parametrize("keep", [["id"], ["damaged"], ["model", "model"]])
def test_a_column_that_a_verdict_has_too_is_refused(keep: list[str]) -> None:
    """Ray failed on the second of that name with a KeyError."""
    with pytest.raises(ValueError, match="two columns of one name"):
        Judge(language="en", keep=keep)
