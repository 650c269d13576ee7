"""Stores that somebody has edited: a sentence for any value, and no limit that contradicts itself."""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stresstest.config.settings import _toml
from stresstest.errors import StoreError, UnreadableRunWarning, UsageError
from stresstest.model import PlaneVerdict, Threshold
from stresstest.store import open_store
from stresstest.store.codec import unpack_tokens
from stresstest.store.repository import Store
from tests.support.stored_data import make_generation, make_run

READS: tuple[Callable[[Store], Any], ...] = (
    lambda store: store.runs(),
    lambda store: store.run("r1"),
    lambda store: store.thresholds(),
    lambda store: list(store.generations("r1")),
    lambda store: store.requests("r1"),
    lambda store: store.wall_seconds("r1"),
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    name = str(tmp_path / "s.db")
    with open_store(name) as store:
        store.create_run(make_run())
        store.add_session("r1", 1000.0)
        store.add_generation("r1", make_generation())
        certified = Threshold(0.05, 0.95, tokens=900, n=60, onsets=0, upper=0.0487, certified=True)
        store.save_threshold("r1", certified, 810, PlaneVerdict(None, None, ""), distinct_prompts=60)
    return name


def _edit(path: str, change: str, *values: object) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(change, values)
    connection.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "column",
    [
        *("run.status", "run.created", "run.settings", "run.profile", "session.started", "generation.rung"),
        *("generation.body", "generation.tokens", "threshold.body", "threshold.saved"),
        "threshold.safe_max_tokens",
    ],
)
@pytest.mark.parametrize(
    "value",
    ["7", b"\xff", 1e308, -5, "[1]", "[" * 100_000 + "]" * 100_000, '{"a":' + "1" * 5000 + "}"],
    ids=["text", "bytes", "huge", "negative", "list", "deep", "long number"],
)
def test_any_value_in_any_column_is_read_or_a_sentence(path: str, column: str, value: object) -> None:
    """SQLite takes every type in every column; none may end a command with a traceback."""
    table, name = column.split(".")
    _edit(path, f"UPDATE {table} SET {name} = ?", value)
    with open_store(path) as store:
        for read in READS:
            try:
                read(store)
            except StoreError as error:
                assert len(str(error)) < 1000  # noqa: PT017  (what else it raises fails the test)


@pytest.mark.parametrize("column", ["run.settings", "run.profile", "threshold.body"])
def test_lists_leave_out_what_cannot_be_read(path: str, column: str) -> None:
    """One damaged row must not take every other run and limit with it; the warning names the run."""
    with open_store(path) as store:
        store.create_run(make_run("r2"))
        certified = Threshold(0.05, 0.95, tokens=700, n=60, onsets=0, upper=0.0487, certified=True)
        store.save_threshold("r2", certified, 630, PlaneVerdict(None, None, ""), distinct_prompts=60)
    table, name = column.split(".")
    _edit(path, f"UPDATE {table} SET {name} = '[1]' WHERE {'id' if table == 'run' else 'run_id'} = 'r1'")
    with open_store(path) as store:
        with pytest.warns(UnreadableRunWarning, match="run r1 cannot be read and is left out"):
            assert [row.id for row in store.runs()] == ["r2"]
        with pytest.warns(UnreadableRunWarning, match="stresstest runs delete r1"):
            assert [row.run_id for row in store.thresholds()] == ["r2"]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE threshold SET safe_max_tokens = 99999",
        "UPDATE threshold SET tokens = 99999",
        "UPDATE threshold SET body = replace(body, '900', '99999')",
        "UPDATE threshold SET certified = 0",
        "UPDATE run SET model = 'another'",
    ],
)
def test_a_limit_that_was_raised_by_hand_is_refused(path: str, change: str) -> None:
    """Columns and documents say the same thing twice: where they differ, neither is believed."""
    _edit(path, change)
    with open_store(path) as store, pytest.raises(StoreError, match="contradicts itself"):
        store.thresholds()


@pytest.mark.parametrize("column", range(6))
def test_tokens_that_unpack_without_end_are_damage(column: int) -> None:
    """Half a megabyte of zeros became half a gigabyte, in whichever column."""
    sizes = [1, 8, 4, 4, 8, 1]
    columns = [b'["a"]', *map(bytes, sizes[1:])]
    assert len(unpack_tokens(_block(1, columns))) == 1
    columns[column] += b" " * (40 * 1024 * 1024 if column == 0 else 1)
    with pytest.raises(StoreError, match="too large"):
        unpack_tokens(_block(1, columns))


@pytest.mark.parametrize(
    "texts", [b'["a","b"]', b"[[]]", b'["a",[]]', b'[["a"]]', b'{"a":"b"}', b"[1]", b'["']
)
def test_what_is_no_list_of_so_many_texts_is_damage(texts: bytes) -> None:
    """It is refused before Python makes objects of it: empty lists take twenty times their size."""
    with pytest.raises(StoreError, match="something else"):
        unpack_tokens(_block(1, [texts, *map(bytes, (8, 4, 4, 8, 1))]))


def test_more_tokens_than_any_answer_has_are_damage() -> None:
    """A store of 1.7 MB that came with a folder held 33 million of one answer, and `report` took 2.8 GB."""
    with pytest.raises(StoreError, match="too many"):
        unpack_tokens(_block(1_300_001, []))


def _block(tokens: int, columns: list[bytes]) -> bytes:
    squeezed = [zlib.compress(column, 1) for column in columns]
    return struct.pack("<2sBI", b"ST", 1, tokens) + b"".join(struct.pack("<I", len(s)) + s for s in squeezed)


def test_a_number_too_long_for_python_in_the_settings_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "stresstest.toml"
    file.write_text("concurrency = " + "1" * 5000)
    with pytest.raises(UsageError, match="not valid TOML"):
        _toml(file)


@pytest.mark.parametrize(
    ("held", "statements"),
    [
        ("trigger", "CREATE TRIGGER t AFTER INSERT ON generation BEGIN DELETE FROM generation; END"),
        (
            "view",
            "ALTER TABLE generation RENAME TO hidden; CREATE VIEW generation AS WITH RECURSIVE c(x) AS "
            "(SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS id, 'r1' AS run_id FROM c",
        ),
        (
            "computed",
            "ALTER TABLE run ADD COLUMN more TEXT GENERATED ALWAYS AS (hex(zeroblob(400000000))) VIRTUAL",
        ),
        ("computed", "ALTER TABLE run ADD COLUMN more TEXT AS (model)"),
        ("computed", "CREATE TABLE more (id INTEGER, text TEXT DEFAULT (hex(randomblob(9))))"),
        ("computed", "ALTER TABLE run ADD COLUMN more TEXT CHECK (length(model) < 9)"),
        ("computed", "CREATE INDEX i ON run (hex(model))"),
        ("computed", "CREATE INDEX i ON run (model || task)"),
        ("computed", "CREATE INDEX i ON run (model) WHERE model > 'a'"),
        ("computed", "CREATE VIRTUAL TABLE v USING rtree(id, a, b)"),
    ],
)
def test_a_store_with_programs_is_refused(path: str, held: str, statements: str) -> None:
    """A view may have rows without an end, a trigger may delete what was just measured; a generated column
    took 5 GB when runs were listed, or a computation that no Ctrl-C ended."""
    connection = sqlite3.connect(path)
    connection.executescript(statements)
    connection.close()
    with pytest.raises(StoreError, match=rf"holds (a )?{held} .*: stresstest creates none"):
        open_store(path)


def test_the_table_of_the_version_may_be_a_program_as_well(path: str) -> None:
    """What a store holds is looked at before anything of it is read."""
    connection = sqlite3.connect(path)
    connection.executescript(
        "DROP TABLE stresstest_schema; CREATE VIEW stresstest_schema AS WITH RECURSIVE c(x) AS "
        "(SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) AS version_num FROM c"
    )
    connection.close()
    with pytest.raises(StoreError, match=r"holds a view .*: stresstest creates none"):
        open_store(path)
