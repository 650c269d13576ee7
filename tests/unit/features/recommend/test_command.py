"""`recommend` from a store that has no limit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from stresstest.campaign.prompt_source import task_digest
from stresstest.errors import ExitCode
from stresstest.model import Diagnosis, PlaneVerdict, RunStatus, Subject, Threshold
from stresstest.store import open_store
from stresstest.tasks.taskfile import load_task
from tests.support.commands import command
from tests.support.stored_data import make_run


def test_without_a_limit_the_command_for_the_language_in_question_is_named(tmp_path: Path) -> None:
    """The hint is pasted: another language in it would be measured for an hour."""
    store = str(tmp_path / "empty.sqlite3")
    code, out, err = command("--store", store, "recommend", "--lang", "fr", "--model", "m")
    assert code == 4
    assert out == ""
    assert (
        f"No limit is stored for m fr yet. To measure one: stresstest --store {store} run --model m --lang fr"
        in err
    )


def test_an_interrupted_run_is_named_as_the_reason(tmp_path: Path) -> None:
    """`--like` an unfinished run: which run it is, why it has no limit, and how to continue it."""
    location = str(tmp_path / "s.sqlite3")
    with open_store(location) as store:
        store.create_run(replace(make_run("r1"), status=RunStatus.INTERRUPTED))
    code, out, err = command("--store", location, "recommend", "--like", "r1")
    assert (code, out) == (4, "")
    assert "Run r1 was interrupted, and an unfinished sample certifies nothing" in err
    assert f"stresstest --store {location} run --resume r1" in err
    assert "No limit is stored" not in err


def test_like_prints_the_limit_of_the_run_that_was_named(tmp_path: Path) -> None:
    """A later run under the same name, on another server or at another load, never lends its limit; one that
    found less is named."""
    location = str(tmp_path / "s.sqlite3")
    made = make_run("r1")
    verdict = PlaneVerdict(None, None, "nothing failed")
    with open_store(location) as store:
        for created, (run_id, url, load, safe) in enumerate(
            [("r1", "http://a/v1", 8, 583), ("r2", "http://b/v1", 8, 1293), ("r3", "http://a/v1", 1, 317)]
        ):
            settings = replace(made.settings, base_url=url, concurrency=load)
            store.create_run(replace(made, id=run_id, settings=settings, created=made.created + created))
            threshold = Threshold(0.1, 0.9, safe + 60, n=40, certified=True)
            store.save_threshold(run_id, threshold, safe, verdict, distinct_prompts=40)
    code, out, err = command("--store", location, "recommend", "--like", "r1", "--format", "json")
    assert code == 0
    assert [row["safe_max_tokens"] for row in json.loads(out)["recommendations"]] == [583]
    assert "the later run r3 at http://a/v1 (concurrency 1) found only 317" in err
    assert "r2" not in err
    _, out, _ = command("--store", location, "recommend", "--format", "json")
    assert {row["safe_max_tokens"] for row in json.loads(out)["recommendations"]} == {583, 1293, 317}


def test_a_task_file_stands_for_the_name_within(tmp_path: Path) -> None:
    """`run --task ./mine.toml` stores the name in the file: the same words find its limit again."""
    file, location = tmp_path / "mine.toml", str(tmp_path / "s.sqlite3")
    file.write_text(
        'name = "notes"\n[languages.en]\ninstruction = "Write {units} notes on {topic}."\ntopics = ["tea"]\n'
    )
    made = make_run("r1", subject=Subject("lab", "notes", "en"))
    made = replace(made, prompts_digest=task_digest(load_task(str(file)), "en"))
    with open_store(location) as store:
        store.create_run(made)
        threshold = Threshold(0.1, 0.9, 643, n=40, certified=True)
        store.save_threshold("r1", threshold, 583, PlaneVerdict(None, None, ""), distinct_prompts=40)
    code, out, err = command("--store", location, "recommend", "--task", str(file), "--format", "json")
    assert code == 0, err
    assert [row["safe_max_tokens"] for row in json.loads(out)["recommendations"]] == [583]
    file.write_text(file.read_text().replace("notes on", "long stories about"))
    code, out, err = command("--store", location, "recommend", "--task", str(file), "--format", "json")
    assert json.loads(out)["recommendations"] == []
    assert "run r1 is left out, because it was measured with another text of the task" in err
    code, _, err = command("--store", location, "recommend", "--task", str(tmp_path / "none.toml"))
    assert code == ExitCode.USAGE
    assert "none.toml" in err


def test_the_run_of_a_better_setting_is_named(tmp_path: Path) -> None:
    """The limit before a diagnosis is the old one: what the diagnosis measured with the setting that it found
    is what a reader wants next, here and after `runs show`."""
    location = str(tmp_path / "s.sqlite3")
    verdict = PlaneVerdict(None, None, "nothing failed")
    with open_store(location) as store:
        for run_id, safe in (("r1", 425), ("r2", 1769)):
            store.create_run(replace(make_run(run_id), status=RunStatus.DONE))
            threshold = Threshold(0.1, 0.9, safe + 60, n=40, certified=True)
            store.save_threshold(run_id, threshold, safe, verdict, distinct_prompts=40)
        store.save_diagnosis(Diagnosis("r1", (), safe_run="r2", complete=True))
    code, out, err = command("--store", location, "recommend", "--like", "r1", "--format", "vllm")
    assert code == 0
    assert "425" in out
    assert "The diagnosis of run r1 found a better setting and measured it: --like r2" in err
    _, _, err = command("--store", location, "recommend", "--like", "r2", "--format", "vllm")
    assert "better setting" not in err
    _, out, _ = command("--store", location, "runs", "show", "r1")
    assert "recommend --format vllm --like r2" in " ".join(out.split())


def test_one_subject_at_two_rigors_is_told_which_limit_counts(tmp_path: Path) -> None:
    """743 and 744 stood in two rows of the same model and decoding, and nothing said which to take."""
    location = str(tmp_path / "s.sqlite3")
    verdict = PlaneVerdict(None, None, "nothing failed")
    with open_store(location) as store:
        for run_id, rigor, alpha, confidence, safe in (
            ("r1", "standard", 0.05, 0.95, 743),
            ("r2", "quick", 0.1, 0.9, 744),
        ):
            made = make_run(run_id)
            settings = replace(made.settings, rigor=rigor)
            store.create_run(replace(made, settings=settings, status=RunStatus.DONE))
            threshold = Threshold(alpha, confidence, safe + 83, n=130, certified=True)
            store.save_threshold(run_id, threshold, safe, verdict, distinct_prompts=130)
    code, out, _ = command("--store", location, "recommend")
    said = " ".join(out.split())
    assert code == 0
    assert "743 (at most 5 % at 95 % confidence)" in said
    assert "744 (at most 10 % at 90 % confidence)" in said
    assert "Take the smallest, 743, as the other formats do" in said
    assert "--max-model-len" not in said
    _, flags, _ = command("--store", location, "recommend", "--format", "env")
    assert "743" in flags
    assert "744" not in flags
    _, flags, err = command("--store", location, "recommend", "--format", "env", "--like", "r2")
    assert "744" in flags
    assert "the run r1 at" in err
    assert "found only 743" in err


def test_what_needs_no_cap_is_said_with_what_is_certified(tmp_path: Path) -> None:
    """The run of the setting that helped got "No cap is recommended for this selection", and no more."""
    location = str(tmp_path / "s.sqlite3")
    threshold = Threshold(
        0.1, 0.9, 1955, 24, 0, 0.09, certified=True, censored_at=1955, withheld="a cap would cut most"
    )
    with open_store(location) as store:
        store.create_run(replace(make_run("r1"), status=RunStatus.DONE))
        store.save_threshold("r1", threshold, None, PlaneVerdict(None, None, ""), distinct_prompts=38)
    code, out, err = command("--store", location, "recommend", "--like", "r1", "--format", "vllm")
    assert (code, out) == (ExitCode.INCONCLUSIVE, "")
    assert "temperature 0.7, top_k 20: certified up to T ≥ 1,955 tokens: with 90 % confidence" in err
    assert "none of 24 in the sample" in err
    assert "No cap is recommended, because a cap would cut most." in err
