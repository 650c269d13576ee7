"""Results as rows: every column stated, nothing absent written as zero."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import stresstest
from stresstest.render.rows import GENERATION_COLUMNS, RUN_COLUMNS
from tests.support.reported_runs import dossier
from tests.support.scanned_files import corpus, write


def test_verdicts_are_rows_with_the_keys_of_scan() -> None:
    [row] = stresstest.to_rows([stresstest.detect("A short answer.")])
    assert row["degenerate"] is False
    assert row["onset_token"] is None
    json.dumps(row)


def test_a_scan_is_a_row_for_each_group(tmp_path: Path) -> None:
    """The key's values are columns, so that two scans can be joined."""
    rows = stresstest.to_rows(
        stresstest.scan(write(tmp_path / "a.jsonl", corpus(16)), group_by=["model"], language="en", workers=1)
    )
    assert [(row["model"], row["requests"], row["degenerate"]) for row in rows] == [("a", 8, 0), ("b", 8, 2)]
    assert rows[1]["rate_low"] < rows[1]["rate"] < rows[1]["rate_high"]


def test_a_run_is_a_row_of_stated_columns_and_types() -> None:
    """What a Parquet file declares is what a row holds, for runs and their generations."""
    result = dossier().result
    for rows, columns in (
        (stresstest.to_rows([result]), RUN_COLUMNS),
        (stresstest.to_rows(result), GENERATION_COLUMNS),
    ):
        assert rows
        for row in rows:
            assert list(row) == list(columns)
            wrong = {k: v for k, v in row.items() if v is not None and not isinstance(v, _kind(columns[k]))}
            assert not wrong


def _kind(column: type) -> type | tuple[type, ...]:
    return (int, float) if column is float else column


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_a_missing_library_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are no dependencies: a sentence says what to install, and what works without."""
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(stresstest.UsageError, match=f"to_{name} needs {name}") as caught:
        getattr(stresstest, f"to_{name}")([])
    assert caught.value.hint is not None
    assert "to_rows" in caught.value.hint
