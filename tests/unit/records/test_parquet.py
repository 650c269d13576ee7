"""Parquet files that describe more than any machine holds."""

from __future__ import annotations

import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from stresstest.records import parquet
from stresstest.records.parquet import parquet_rows
from stresstest.records.record import UnreadableError
from stresstest.records.source import read_chunks

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")

LIMIT = 1 << 20
LONG = "the mill turns " * (LIMIT // 12)


@pytest.fixture(autouse=True)
def _small_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "MAX_ROW", LIMIT)


def write(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    pyarrow.parquet.write_table(pyarrow.table(columns), path, compression="zstd", **options)
    pyarrow.default_memory_pool().release_unused()  # else what writing took may serve reading
    return path


def rows(path: Path) -> list[dict[str, Any] | None]:
    with path.open("rb") as file:
        return [row for _, _, row in parquet_rows(file)]


def repeated(times: int, value: str = LONG) -> Any:
    """A column that holds one text once and names it `times` times."""
    return pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * times, pyarrow.int32()), [value])


@pytest.mark.parametrize("store_schema", [True, False])
def test_a_text_that_a_dictionary_repeats_is_in_memory_once(tmp_path: Path, store_schema: bool) -> None:
    """Ten kilobytes that name one text of 100 MB in 256 rows took 25 GB: a row above the limit is damaged,
    and no object is made of it."""
    ids = [str(n) for n in range(256)]
    path = write(tmp_path / "x", {"id": ids, "response": repeated(256)}, store_schema=store_schema)
    assert path.stat().st_size < 20_000
    assert rows(path) == [None] * 256
    (chunk,) = read_chunks(str(path))
    assert not chunk.items
    assert {damaged.reason for damaged in chunk.damaged} == {"a row of more than 64 MiB"}


def test_many_values_in_one_row(tmp_path: Path) -> None:
    """A list of repeated texts or of millions of nulls is no smaller for being written compactly."""
    offsets = pyarrow.array([0, 100], pyarrow.int32())
    texts = pyarrow.ListArray.from_arrays(offsets, repeated(100, LONG[: LIMIT // 64]))
    many = pyarrow.array([0, 5_000_000], pyarrow.int32())
    nulls = pyarrow.ListArray.from_arrays(many, pyarrow.nulls(5_000_000))
    for column in (texts, nulls):
        path = write(tmp_path / "x", {"id": ["a"], "x": column})
        assert rows(path) == [None]


def test_the_neighbours_of_a_large_row_are_read(tmp_path: Path) -> None:
    """One row that is too large costs that row alone, whatever the types of the others."""
    written = [
        {"response": text, "tags": [("k", "v")], "nested": {"a": [1, None]}, "none": None}
        for text in ("the first", LONG, "the third")
    ]
    schema = {
        "response": pyarrow.string(),
        "tags": pyarrow.map_(pyarrow.string(), pyarrow.string()),
        "nested": pyarrow.struct({"a": pyarrow.list_(pyarrow.int64())}),
        "none": pyarrow.null(),
    }
    table = pyarrow.Table.from_pylist(written, pyarrow.schema(schema))
    pyarrow.parquet.write_table(table, tmp_path / "x", compression="zstd")
    first, _, third = ({**row, "tags": {"k": "v"}} for row in written)
    assert rows(tmp_path / "x") == [first, None, third]


def test_a_chunk_is_bounded_by_all_columns(tmp_path: Path) -> None:
    """Rows with a short answer beside a long column make small chunks too."""
    path = write(tmp_path / "x", {"response": ["short"] * 64, "other": repeated(64, LONG[:200_000])})
    assert max(len(chunk.items) for chunk in read_chunks(str(path))) < 10


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit on memory is Linux's")
def test_reading_has_a_limit_on_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is unpacked before a row of it is seen, whatever its size: that ends with a sentence, and the
    process can use its memory again."""
    path = write(tmp_path / "x", {"response": [LONG * 64]}, use_dictionary=False)
    monkeypatch.setattr(parquet, "_LEAST_MEMORY", 32 << 20)
    monkeypatch.setattr(parquet, "is_own_process", lambda: False)
    assert rows(path) == [None], "a user's program has no such limit: it would meet its other threads"
    monkeypatch.setattr(parquet, "is_own_process", lambda: True)
    with pytest.raises(UnreadableError, match="more than 32 MiB of memory after row 0: the rest is not read"):
        rows(path)
    assert len(bytearray(128 << 20)) == 128 << 20


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit on memory is Linux's")
def test_a_small_file_takes_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty kilobytes that hold 480 MB of text took 700 MB: what may be taken depends on the file's size."""
    answer = [{"role": "assistant", "content": "word " * 960_000}]
    path = write(tmp_path / "x", {"messages": [answer] * 100}, use_dictionary=False)
    assert path.stat().st_size < 60_000
    monkeypatch.setattr(parquet, "is_own_process", lambda: True)
    with pytest.raises(UnreadableError, match="more than 384 MiB of memory"):
        rows(path)


def test_texts_that_repeat_nothing_are_not_kept(tmp_path: Path) -> None:
    """A dictionary of texts that were written without one grew until the row group's end: 128 MB of file took
    1.7 GB."""
    text = "the mill turns " * 300
    texts = [f"{n} {text}" for n in range(10_000)]
    path = write(tmp_path / "x", {"response": texts}, use_dictionary=False)
    pools = pyarrow.system_memory_pool(), pyarrow.default_memory_pool()
    held = 0
    with path.open("rb") as file:
        for _ in parquet_rows(file):
            held = max(held, sum(pool.bytes_allocated() for pool in pools))
    assert held < 8 << 20


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
def test_every_encoding_of_texts_is_read(tmp_path: Path, encoding: str) -> None:
    """DuckDB's second version of the format writes lengths apart, which pyarrow cannot read as a dictionary:
    the file was called damaged."""
    texts = [f"answer {n}" for n in range(500)]
    nested = [[{"content": text}] for text in texts]
    found = rows(
        write(
            tmp_path / "x",
            {"response": texts, "messages": nested},
            use_dictionary=False,
            column_encoding={"response": encoding, "messages.list.element.content": encoding},
            data_page_version="2.0",
        )
    )
    assert found == [{"response": a, "messages": b} for a, b in zip(texts, nested, strict=True)]


def test_messages_of_several_row_groups_are_read(tmp_path: Path) -> None:
    """A batch across two groups has two dictionaries, which pyarrow cannot join within a list: a sound file
    was called damaged after its first group."""
    answers = [[{"role": "assistant", "content": f"answer {i}"}] for i in range(1_000)]
    found = rows(write(tmp_path / "x", {"messages": answers}, row_group_size=300))
    assert found == [{"messages": each} for each in answers]


def test_values_that_json_does_not_know_are_what_they_mean(tmp_path: Path) -> None:
    """Texts that Spark marks as bytes, exact numbers of databases, maps; other bytes stay what they are."""
    columns = {
        "response": pyarrow.array([b"One answer.", b"\xff\xfe"], pyarrow.binary()),
        "completion_tokens": pyarrow.array([Decimal(334), Decimal("1.5")], pyarrow.decimal128(9, 1)),
        "metadata": pyarrow.array([[("team", "a")], []], pyarrow.map_(pyarrow.string(), pyarrow.string())),
    }
    assert rows(write(tmp_path / "x", columns)) == [
        {"response": "One answer.", "completion_tokens": 334, "metadata": {"team": "a"}},
        {"response": b"\xff\xfe", "completion_tokens": 1.5, "metadata": []},
    ]


@pytest.mark.parametrize(
    "kind", [pyarrow.date32(), pyarrow.timestamp("us"), pyarrow.timestamp("us", "UTC"), pyarrow.duration("s")]
)
def test_times_that_python_does_not_know_cost_no_other_value(tmp_path: Path, kind: Any) -> None:
    """DuckDB's and PostgreSQL's infinite dates ended `scan` in an internal error, whatever their column."""
    bits = 32 if kind == pyarrow.date32() else 62
    far = pyarrow.array([2**bits // 2 - 1, 1], pyarrow.int32() if bits == 32 else pyarrow.int64()).cast(kind)
    spans = pyarrow.StructArray.from_arrays([far, pyarrow.array(["A text.", "Another."])], ["until", "text"])
    many = pyarrow.LargeListArray.from_arrays([0, 1, 2], spans)
    first, second = rows(write(tmp_path / "x", {"text": ["One.", "Two."], "until": far, "spans": many}))
    assert first == {"text": "One.", "until": None, "spans": [{"until": None, "text": "A text."}]}
    assert second is not None
    assert second["text"] == "Two."
    assert second["until"] == second["spans"][0]["until"] is not None


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    """`Table.join` makes them of two models' tables: the last one was judged, and the first one looped."""
    table = pyarrow.table([["One."], ["Two."]], names=["response", "response"])
    pyarrow.parquet.write_table(table, tmp_path / "x")
    with pytest.raises(UnreadableError, match="two columns 'response'"):
        rows(tmp_path / "x")


def test_times_are_read_as_a_json_log_has_them(tmp_path: Path) -> None:
    """pandas writes nanoseconds; Python's times have none, and the file was called damaged. `--group-by` on a
    day said that no record had it."""
    kind = pyarrow.timestamp("ns", "UTC")
    times = pyarrow.array([1_764_374_400_123_456_789], kind)
    span = pyarrow.StructArray.from_arrays([times], ["end"])
    polars = pyarrow.LargeListArray.from_arrays([0, 1], times)
    day = pyarrow.array([date(2025, 11, 29)])
    columns = {"response": ["It ends."], "start": times, "span": span, "steps": polars, "day": day}
    (row,) = rows(write(tmp_path / "x", columns))
    assert row is not None
    assert row["steps"] == [row["start"]]
    assert row["day"] == "2025-11-29"
    assert row["start"] == row["span"]["end"] == "2025-11-29T00:00:00.123456+00:00"
