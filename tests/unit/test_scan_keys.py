"""`scan --group-by` with a key that is not there: said at once, with what may have been meant, and exit 2."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from stresstest.records import Mapped
from stresstest.workflows.scan_judge import Job
from stresstest.workflows.scan_keys import glance, nowhere
from tests.commands import called
from tests.unit.test_scan import corpus, write


def rows(number: int) -> list[dict[str, object]]:
    return [{**row, "about": {"shade": "blue"}, "temperature": 0.7} for row in corpus(number)]


@pytest.mark.parametrize(
    ("key", "meant"),
    [("mdoel", "'model'"), ("shade", "'about.shade'"), ("zzz", "They have: ")],
)
def test_a_key_that_no_record_has_is_a_mistake_with_a_suggestion(
    tmp_path: Path, key: str, meant: str
) -> None:
    """One group of everything under a key that does not exist would look like an answer."""
    path = write(tmp_path / "a.jsonl", rows(3))
    done = called("scan", str(path), "--group-by", f"model,{key}", "--json", tmp_path=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert f"No record has the key {key!r}" in done.stderr
    assert done.stderr.index("warning: none of the first 3 records") < done.stderr.index("No record has")
    assert meant in done.stderr


@pytest.mark.parametrize(
    ("key", "sure"), [("zzz", True), ("about.zzz", True), ("late", False), ("model", False)]
)
def test_a_key_that_is_nowhere_is_refused_before_anything_is_judged(
    tmp_path: Path, key: str, sure: bool
) -> None:
    """Hours of a scan end in no refusal: a name that is nowhere in the files is a mistake at once."""
    made = rows(3)
    made[2]["late"] = "yes"
    path = write(tmp_path / "a.jsonl", made)
    assert nowhere(key, [path], Job()) is sure
    assert not nowhere(key, [path, "-"], Job())
    (tmp_path / "packed").write_bytes(gzip.compress(Path(path).read_bytes()))
    assert nowhere(key, [str(tmp_path / "packed")], Job()) is sure
    done = called("scan", path, "--group-by", key, "--out", "v.jsonl", tmp_path=tmp_path)
    assert done.returncode == (2 if sure else 0)
    assert (tmp_path / "v.jsonl").exists() is not sure


def test_a_key_that_only_later_records_have_is_no_mistake(tmp_path: Path) -> None:
    """A warning costs nothing; refusing would forbid a group that is there."""
    made = rows(203)
    made[202]["late"] = "yes"
    path = write(tmp_path / "a.jsonl", made)
    look = glance([str(path)], Job(mapped=Mapped({}, ("late", "model")), keys=("late", "model")))
    assert (look.read, look.seen) == (200, frozenset({"model"}))
    assert "about.shade" in look.there
    assert "late" not in look.there


def test_what_cannot_be_read_gives_no_keys_and_stdin_is_left_alone(tmp_path: Path) -> None:
    """A glance decides nothing: damage is the scan's to name, and stdin can be read only once."""
    path = tmp_path / "a.jsonl"
    path.write_text('nonsense\n[1]\n{"id": 1}\n' + json.dumps({"text": "fine", "team": "x"}) + "\n")
    look = glance([str(path), "-"], Job(keys=("team",), mapped=Mapped({}, ("team",))))
    assert look.read == 1
    assert set(look.there) == {"id", "text", "team"}
    assert look.hint("temp") == "Did you mean 'team'?"
