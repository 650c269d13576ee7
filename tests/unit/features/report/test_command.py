"""`stresstest report`: the formats, several runs, the index of a store, and what it refuses."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from stresstest import load_run
from stresstest.campaign.conclusion.overruled import diagnosis_beside_others
from stresstest.errors import ExitCode
from stresstest.model import DocumentKind, RunStatus
from stresstest.store import open_store
from tests.support.commands import command
from tests.support.generations import whole
from tests.support.reported_runs import campaign, diagnosis, gpu_samples, result

DIAGNOSED = "20261120-101500-dddd"
FIRST, SECOND = "20261121-173000-aaaa", "20261122-091500-bbbb"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with two runs of two models, one of them with everything that can stand on a run."""
    path = str(tmp_path_factory.mktemp("report") / "store.sqlite3")
    with open_store(path) as store:
        for number, run_id in enumerate((FIRST, SECOND)):
            made = result(campaign(22 + number), run_id=run_id, model=f"lab/model-{number}")
            run = replace(made.run, created=made.run.created + 86_400 * number)
            store.create_run(run)
            for generation in made.generations:
                store.add_generation(run_id, whole(generation))
            store.add_samples(run_id, made.samples)
            store.update_run(run_id, status=RunStatus.DONE, ended=run.ended)
            store.save_threshold(run_id, made.threshold, made.safe_max_tokens, made.verdict)
        store.add_gpu_samples(FIRST, gpu_samples())
        store.save_diagnosis(replace(diagnosis(), run_id=FIRST))
        body = {"cells": [{"values": {"top_p": "0.9"}, "safe_max_tokens": 77, "generations": 38}]}
        store.save_document(DocumentKind.SWEEP, body, runs=(FIRST,))
    return path


def report(store: str, *words: str) -> tuple[int, str, str]:
    return command("--store", store, "report", *words)


@pytest.mark.slow
def test_html_holds_all_that_is_stored_of_the_run(filled: str, tmp_path: Path) -> None:
    """Diagnosis, GPU readings and the sweep come along without being asked for."""
    target = tmp_path / "report.html"
    code, out, err = report(filled, FIRST[:16], "-o", str(target))
    assert (code, out) == (0, ""), err
    page = target.read_text(encoding="utf-8")
    for part in ("lab/model-0", "goes away with repetition_penalty 1.15", "top p", ">77<", "GPU 0"):
        assert part in page
    assert f"Wrote {target}." in err


def test_latest_is_named(filled: str, tmp_path: Path) -> None:
    """After a check, `latest` is the run of another model than the one that was measured before."""
    code, _, err = report(filled, "latest", "-o", str(tmp_path / "report.md"))
    assert code == 0
    assert f"latest: run {SECOND}, " in err
    assert "latest: run" not in report(filled, "latest")[2]


@pytest.fixture(scope="module")
def overruled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with a certified run, which has measured the remedy of an older one's diagnosis, and a later
    run of the same model that was unfit."""
    limits: list[int | None] = []
    path = str(tmp_path_factory.mktemp("overruled") / "s.sqlite3")
    with open_store(path) as store:
        for number, run_id in enumerate((DIAGNOSED, FIRST, SECOND)):
            made = result(campaign(22), run_id=run_id)
            store.create_run(replace(made.run, created=made.run.created + number))
            for generation in made.generations:
                store.add_generation(run_id, whole(generation))
            store.update_run(run_id, status=RunStatus.DONE, ended=made.run.ended)
            threshold, safe = made.threshold, made.safe_max_tokens
            if run_id == SECOND:
                threshold, safe = replace(threshold, unfit=True, withheld="it would be 7 tokens"), None
            store.save_threshold(run_id, threshold, safe, made.verdict)
            limits.append(safe)
        found = replace(diagnosis(), run_id=DIAGNOSED, safe_run=FIRST, safe_max_tokens=limits[1])
        link = replace(found.chain[0], run_id=DIAGNOSED)
        store.save_diagnosis(replace(found, chain=(link,), unmasked=True, explained=True))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("output", ["html", "md", "json", "xml"])
def test_a_limit_that_does_not_hold_is_not_recommended(overruled: str, tmp_path: Path, output: str) -> None:
    """A later run of the same model was unfit: the older one, asked for by its id, names that run."""
    target = tmp_path / f"report.{output}"
    code, _, err = report(overruled, FIRST, "-o", str(target))
    assert code == 0, err
    text = target.read_text(encoding="utf-8")
    assert f"does not hold, since run {SECOND}" in " ".join(text.split()).replace("&#34;", '"')
    if output == "json":
        assert json.loads(text)["safe_max_tokens"] is None
    if output == "xml":
        assert 'failures="1"' in text


def test_no_command_shows_a_limit_that_does_not_hold(overruled: str, tmp_path: Path) -> None:
    """`runs show` said "set max_tokens to" a limit that `report` and `recommend` took back."""
    said = f"does not hold, since run {SECOND} of the same model, task and decoding found no safe length"
    shown = " ".join(command("--store", overruled, "runs", "show", FIRST)[1].replace("│", " ").split())
    assert said in shown
    assert "set max_tokens to" not in shown
    document = json.loads(command("--store", overruled, "runs", "show", FIRST, "--json")[1])
    assert (document["safe_max_tokens"], document["cap_withheld"]) == (None, True)
    assert document["overruled_by"] == SECOND
    rows = json.loads(command("--store", overruled, "runs", "list", "--json")[1])["runs"]
    assert {(row["run_id"], row["safe_max_tokens"], row["overruled_by"]) for row in rows} == {
        (DIAGNOSED, None, SECOND),
        (FIRST, None, SECOND),
        (SECOND, None, None),
    }
    assert f"does not hold: see run {SECOND}" in " ".join(
        command("--store", overruled, "runs", "list")[1].split()
    )
    target = tmp_path / "runs.jsonl"
    assert command("--store", overruled, "export", "runs", "-o", str(target))[0] == 0
    exported = {row["run_id"]: row for row in map(json.loads, target.read_text("utf-8").splitlines())}
    assert exported[FIRST]["safe_max_tokens"] is None
    assert said in exported[FIRST]["withheld"]
    assert load_run(FIRST, store=overruled).safe_max_tokens is None


def test_a_later_run_that_certified_less_is_noted(tmp_path: Path) -> None:
    """The server was replaced: "set max_tokens to" the old limit stood without a word on the new one."""
    path = str(tmp_path / "s.sqlite3")
    with open_store(path) as store:
        for number, run_id in enumerate((FIRST, SECOND)):
            made = result(campaign(22), run_id=run_id)
            store.create_run(replace(made.run, created=made.run.created + number))
            for generation in made.generations:
                store.add_generation(run_id, whole(generation))
            store.update_run(run_id, status=RunStatus.DONE, ended=made.run.ended)
            store.save_threshold(run_id, made.threshold, 79 if number else made.safe_max_tokens, made.verdict)
    first, second = (
        " ".join(command("--store", path, "runs", "show", run)[1].split()) for run in (FIRST, SECOND)
    )
    assert f"The later run {SECOND} at" in first
    assert "certified a safe max_tokens of only 79 for the same model, task and decoding" in first
    assert "The later run" not in second
    with open_store(path) as store:
        found = replace(diagnosis(), run_id=FIRST, safe_run=FIRST, safe_max_tokens=made.safe_max_tokens)
        of_remedy = diagnosis_beside_others(store, found, made.run.settings.subject)
    assert (of_remedy.safe_max_tokens, of_remedy.safe_run) == (79, SECOND)


def test_a_remedys_limit_that_does_not_hold_is_not_recommended(overruled: str, tmp_path: Path) -> None:
    """`diagnose` had measured its better setting in a run that another one has spoken against since."""
    target = tmp_path / "report.md"
    assert report(overruled, DIAGNOSED, "-o", str(target))[0] == 0
    texts = [
        command("--store", overruled, "runs", "show", DIAGNOSED)[1],
        command("--store", overruled, "diagnose", DIAGNOSED)[1],
        target.read_text("utf-8"),
    ]
    for text in texts:
        plain = " ".join(text.replace("│", " ").replace("\\", "").split())
        assert "use repetition_penalty 1.15" in plain
        assert "With it, the safe max_tokens is" not in plain
        assert f"Run {FIRST} measured that, and recommends no cap" in plain
    document = json.loads(command("--store", overruled, "diagnose", DIAGNOSED, "--json")[1])
    assert document["recommended_max_tokens"] is None
    with open_store(overruled) as store:
        found = store.diagnosis(DIAGNOSED)
    assert found is not None
    assert found.safe_max_tokens is not None, "as it was measured"


def test_the_run_of_a_remedy_may_be_deleted(overruled: str, tmp_path: Path) -> None:
    """What a diagnosis found can be read after the run that measured its remedy is gone."""
    path = str(shutil.copy(overruled, tmp_path / "s.sqlite3"))
    assert command("--store", path, "runs", "delete", FIRST, "--yes")[0] == 0
    code, out, err = command("--store", path, "runs", "show", DIAGNOSED)
    assert code == 0, err
    assert "use repetition_penalty 1.15" in " ".join(out.split())


def test_a_folder_gets_every_format(filled: str, tmp_path: Path) -> None:
    """`--output-dir` without `-o`: one measurement for readers, wikis, scripts and CI; `-o` selects one."""
    code, out, err = report(filled, FIRST, "--output-dir", str(tmp_path / "all"))
    assert (code, out) == (0, ""), err
    written = sorted(path.name for path in (tmp_path / "all").iterdir())
    assert written == ["report.html", "report.json", "report.md", "report.xml"]
    assert report(filled, FIRST, "-o", "x.md", "--output-dir", str(tmp_path / "one"))[0] == 0
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["x.md"]


def test_a_folder_that_holds_other_pages_keeps_them(filled: str, tmp_path: Path) -> None:
    """Nobody typed index.html: a website's stays, and what we wrote before, in every format, is replaced."""
    folder = ("--output-dir", str(tmp_path))
    for _ in range(2):
        assert report(filled, FIRST, *folder)[0] == 0
        assert report(filled, *folder)[0] == 0
    (tmp_path / "index.html").write_text("<h1>My site</h1>")
    code, _, err = report(filled, *folder)
    assert (code, (tmp_path / "index.html").read_text()) == (ExitCode.USAGE, "<h1>My site</h1>"), err


def test_several_runs_make_one_page(filled: str, tmp_path: Path) -> None:
    """`report A B -o x.html`: both, in the order given."""
    target = tmp_path / "both.html"
    code, _, err = report(filled, SECOND, FIRST, "-o", str(target))
    assert code == 0, err
    page = target.read_text(encoding="utf-8")
    assert "2 runs compared" in page
    assert 0 < page.index("lab/model-1") < page.index("lab/model-0")


@pytest.mark.slow
def test_several_runs_as_json_and_markdown(filled: str, tmp_path: Path) -> None:
    """Every format takes several runs; a single one keeps the document it always had."""
    target = tmp_path / "both.json"
    assert report(filled, FIRST, SECOND, "-o", str(target))[0] == 0
    documents = json.loads(target.read_text(encoding="utf-8"))["runs"]
    assert [d["run_id"] for d in documents] == [FIRST, SECOND]
    assert report(filled, FIRST, "-o", str(target))[0] == 0
    assert json.loads(target.read_text(encoding="utf-8"))["run_id"] == FIRST
    code, out, _ = report(filled, FIRST, SECOND)
    assert code == 0
    assert out.count("# lab/model") == 2


def test_without_a_run_the_whole_store_is_one_page(filled: str, tmp_path: Path) -> None:
    """`report --store X -o index.html`: every subject, and the swap of models between the two runs."""
    target = tmp_path / "index.html"
    code, _, err = command("report", "--store", filled, "-o", str(target))
    assert code == 0, err
    page = target.read_text(encoding="utf-8")
    assert "All measured subjects" in page
    assert "lab/model-0 → lab/model-1, 299 → 299 tokens" in page


def test_an_empty_store_has_an_index_too(tmp_path: Path) -> None:
    """It says how to begin."""
    target = tmp_path / "index.html"
    code, _, err = command("--store", str(tmp_path / "empty.sqlite3"), "report", "-o", str(target))
    assert code == 0, err
    assert "Nothing is stored yet." in target.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "RUN is missing"),
        (("-o", "index.md"), "RUN is missing"),
        ((FIRST, "-o", "report.pdf"), "which selects the format"),
        ((FIRST, "-o", "nowhere/report.html"), "cannot be written"),
        (("no-such-run", "-o", "report.html"), "no-such-run"),
    ],
)
def test_what_cannot_work_is_one_sentence(
    filled: str, words: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 2, no traceback, no file."""
    monkeypatch.chdir(tmp_path)
    code, out, err = report(filled, *words)
    assert code == ExitCode.USAGE
    assert sentence in " ".join(err.split())
    assert "Traceback" not in err
    assert out == ""
    assert list(tmp_path.iterdir()) == []
