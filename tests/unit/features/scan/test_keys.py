"""`scan --group-by` with a key that is not there: said at once, with what may have been meant, and exit 2."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from stresstest.features.scan.keys import is_key_absent, survey_keys
from stresstest.records import FieldMapping
from stresstest.scanning.job import ScanJob
from tests.support.commands import called
from tests.support.scanned_files import corpus, write


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
    assert is_key_absent(key, [path], ScanJob()) is sure
    assert not is_key_absent(key, [path, "-"], ScanJob())
    (tmp_path / "packed").write_bytes(gzip.compress(Path(path).read_bytes()))
    assert is_key_absent(key, [str(tmp_path / "packed")], ScanJob()) is sure
    done = called("scan", path, "--group-by", key, "--out", "v.jsonl", tmp_path=tmp_path)
    assert done.returncode == (2 if sure else 0)
    assert (tmp_path / "v.jsonl").exists() is not sure


def test_a_key_that_only_later_records_have_is_no_mistake(tmp_path: Path) -> None:
    """A warning costs nothing; refusing would forbid a group that is there."""
    made = rows(203)
    made[202]["late"] = "yes"
    path = write(tmp_path / "a.jsonl", made)
    look = survey_keys(
        [str(path)], ScanJob(mapped=FieldMapping({}, ("late", "model")), keys=("late", "model"))
    )
    assert (look.read, look.found_keys) == (200, frozenset({"model"}))
    assert "about.shade" in look.available_keys
    assert "late" not in look.available_keys


def test_what_cannot_be_read_gives_no_keys_and_stdin_is_left_alone(tmp_path: Path) -> None:
    """A glance decides nothing: damage is the scan's to name, and stdin can be read only once."""
    path = tmp_path / "a.jsonl"
    path.write_text('nonsense\n[1]\n{"id": 1}\n' + json.dumps({"text": "fine", "team": "x"}) + "\n")
    look = survey_keys([str(path), "-"], ScanJob(keys=("team",), mapped=FieldMapping({}, ("team",))))
    assert look.read == 1
    assert set(look.available_keys) == {"id", "text", "team"}
    assert look.hint("temp") == "Did you mean 'team'?"
    assert look.hint("text") == "The records have 'text', but as the answer itself, which is no group."


def test_a_key_that_holds_lists_is_no_group(tmp_path: Path) -> None:
    """It is there, and the list of keys that the records have would say that it is not."""
    path = write(tmp_path / "a.jsonl", [{"response": "fine", "model": ["m"], "about": {"team": "x"}}] * 3)
    look = survey_keys([str(path)], ScanJob(keys=("model",), mapped=FieldMapping({}, ("model",))))
    assert "model" not in look.found_keys
    assert "lists or objects" in str(look.hint("model"))
    assert look.hint("team") == "Did you mean 'about.team'?"


def test_keys_may_be_given_one_by_one(tmp_path: Path) -> None:
    """`--group-by model --group-by temperature` grouped by the last alone."""
    path = write(tmp_path / "a.jsonl", rows(4))
    options = ("--group-by", "model", "--group-by", "temperature,about.shade")
    done = called("scan", str(path), *options, "--json", tmp_path=tmp_path)
    assert done.returncode == 0, done.stderr
    group = json.loads(done.stdout)["groups"][0]["key"]
    assert group == {"model": "a", "temperature": "0.7", "about.shade": "blue"}
