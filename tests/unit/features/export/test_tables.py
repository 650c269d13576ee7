"""`export generations | runs`: what is stored, in three formats with the same rows."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest

import stresstest
from stresstest.model import Token
from stresstest.render.rows import GENERATION_COLUMNS, RUN_COLUMNS
from stresstest.store import open_store
from tests.support.commands import command
from tests.support.reported_runs import dossier, healthy
from tests.support.stored_data import make_run

Stored = tuple[str, str]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """(store, id of its run), with loops, losses and hostile text."""
    path = str(tmp_path_factory.mktemp("tables") / "s.sqlite3")
    result = dossier("Un [red]racconto[/red] \x1b[2J <script>").result
    with open_store(path) as store:
        store.create_run(result.run)
        for each in result.generations:
            store.add_generation(result.run.id, each.with_tokens(getattr(each, "tokens", ())))
    return path, result.run.id


def export(stored: Stored, *words: str, code: int = 0) -> str:
    found, out, err = command("--store", stored[0], "export", *words)
    assert (found, out) == (code, ""), err
    return err


@pytest.mark.slow
def test_generations_are_the_same_rows_in_every_format(stored: Stored, tmp_path: Path) -> None:
    """One row a generation, with prompt and answer; what was not measured is null or empty."""
    names = {ending: str(tmp_path / f"g.{ending}") for ending in ("jsonl", "csv", "parquet")}
    told = [export(stored, "generations", stored[1], "-o", name) for name in names.values()]
    lines = [json.loads(line) for line in Path(names["jsonl"]).read_text().splitlines()]
    assert list(lines[0]) == [*GENERATION_COLUMNS, "prompt", "reasoning", "text"]
    assert pyarrow.parquet.read_table(names["parquet"]).to_pylist() == lines
    with Path(names["csv"]).open(newline="", encoding="utf-8") as file:
        cells = list(csv.DictReader(file))
    assert [row["text"] for row in cells] == [row["text"].replace("\x1b", "␛") for row in lines]
    assert f"{len(lines)} rows" in told[0]
    with open_store(stored[0]) as store:
        texts = {each.key: each.text for each in store.generations(stored[1])}
    assert {row["key"]: row["text"] for row in lines} == texts
    assert {row["degenerate"] for row in lines} == {True, False}


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_loop_in_the_reasoning_is_in_the_table(tmp_path: Path, ending: str) -> None:
    """A table without it was scanned as one of healthy answers."""
    store, name = str(tmp_path / "s.sqlite3"), str(tmp_path / f"g.{ending}")
    thought = [Token(text, reasoning=True) for text in (" Wait", ",", " let", " me", " see", ".") * 60]
    with open_store(store) as opened:
        opened.create_run(make_run("r1"))
        opened.add_generation("r1", replace(healthy(0, 20), tokens=(*thought, Token("The sea is calm."))))
    export((store, ""), "generations", "r1", "-o", name)
    [row] = stresstest.scan(name, language="en").groups
    assert row.degenerate == 1


def test_texts_can_be_left_out(stored: Stored, tmp_path: Path) -> None:
    """Prompts of production are nobody's business in a table of numbers."""
    name = tmp_path / "g.jsonl"
    export(stored, "generations", "latest", "--no-text", "-o", str(name))
    kept = [column for column in GENERATION_COLUMNS if column != "system_prompt"]
    assert list(json.loads(name.read_text().splitlines()[0])) == kept


def test_runs_are_a_row_each(stored: Stored, tmp_path: Path) -> None:
    """All of them, or those that are named."""
    for words in ([], [stored[1]]):
        name = tmp_path / "runs.parquet"
        export(stored, "runs", *words, "-o", str(name))
        [row] = pyarrow.parquet.read_table(name).to_pylist()
        assert list(row) == list(RUN_COLUMNS)
        assert row["run_id"] == stored[1]


def test_an_empty_store_has_no_runs(tmp_path: Path) -> None:
    """Exit 4, and a file with its header all the same."""
    name = tmp_path / "runs.csv"
    export((str(tmp_path / "s.sqlite3"), ""), "runs", "-o", str(name), code=4)
    assert name.read_text().startswith("run_id,model,")
