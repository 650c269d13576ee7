"""`recommend` from a store that has no limit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stresstest.model import RunStatus
from stresstest.store import open_store
from tests.support.commands import command
from tests.support.stored_data import make_run


def test_without_a_limit_the_command_for_the_language_in_question_is_named(tmp_path: Path) -> None:
    """The hint is pasted: another language in it would be measured for an hour."""
    store = str(tmp_path / "empty.sqlite3")
    code, out, err = command("--store", store, "recommend", "--lang", "fr", "--model", "m")
    assert code == 4
    assert out == ""
    assert "No limit is stored for m fr yet. To measure one: stresstest run --model m --lang fr" in err


def test_an_interrupted_run_is_named_as_the_reason(tmp_path: Path) -> None:
    """`--like` an unfinished run: which run it is, why it has no limit, and how to continue it."""
    location = str(tmp_path / "s.sqlite3")
    with open_store(location) as store:
        store.create_run(replace(make_run("r1"), status=RunStatus.INTERRUPTED))
    code, out, err = command("--store", location, "recommend", "--like", "r1")
    assert (code, out) == (4, "")
    assert "Run r1 was interrupted, and an unfinished sample certifies nothing" in err
    assert "stresstest run --resume r1" in err
    assert "No limit is stored" not in err
