"""`recommend` from a store that has no limit."""

from __future__ import annotations

from pathlib import Path

from tests.support.commands import command


def test_without_a_limit_the_command_for_the_language_in_question_is_named(tmp_path: Path) -> None:
    """The hint is pasted: another language in it would be measured for an hour."""
    store = str(tmp_path / "empty.sqlite3")
    code, out, err = command("--store", store, "recommend", "--lang", "fr", "--model", "m")
    assert code == 4
    assert out == ""
    assert "No limit is stored for m fr yet. To measure one: stresstest run --model m --lang fr" in err
