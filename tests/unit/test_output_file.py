"""What a command does not write over: a store holds measurements that took hours."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stresstest.errors import ExitCode, UsageError
from stresstest.output_file import refuse_one_file, refuse_overwriting, replace_file
from stresstest.store import open_store
from tests.support.checked_runs import sample, stored
from tests.support.commands import command
from tests.support.scanned_files import write
from tests.support.stored_data import make_run
from tests.support.stories import story

COMMANDS = {
    "report": ("report", "r1", "-o", "link.html"),
    "table": ("export", "generations", "r1", "-o", "s.sqlite3"),
    "verdicts": ("scan", "a.jsonl", "--out", "s.sqlite3"),
    "guard's log": ("guard", "--upstream", "http://h:1", "--log", "s.sqlite3"),
}


@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
def test_what_belongs_to_a_database_is_not_overwritten(end: str, tmp_path: Path) -> None:
    """A store in use has its last writes in a file beside it, whether that is there yet or not."""
    stored(str(tmp_path / "s.sqlite3"), "r1", sample(0))
    with pytest.raises(UsageError, match="is not overwritten"):
        refuse_overwriting(tmp_path / f"s.sqlite3{end}")
    refuse_overwriting(tmp_path / f"other{end}")


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_store_is_not_overwritten(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slip in the name of an output, or a link, cost every run that the store held."""
    monkeypatch.chdir(tmp_path)
    stored("s.sqlite3", "r1", sample(0))
    before = Path("s.sqlite3").read_bytes()
    Path("link.html").symlink_to("s.sqlite3")
    write(Path("a.jsonl"), [{"prompt": "p", "output": story(2)}])
    code, _, err = command("--store", "s.sqlite3", "--display", "none", *words)
    assert code == ExitCode.USAGE
    assert "is a database, such as a store of runs, and is not overwritten" in err
    assert Path("s.sqlite3").read_bytes() == before
    code, out, _ = command("--store", "s.sqlite3", "runs", "list", "--json")
    assert (code, len(json.loads(out)["runs"])) == (ExitCode.DONE, 1)


def test_other_files_are_not_read(tmp_path: Path) -> None:
    """A pipe without a writer would be waited for; what is absent, or a folder, fails where it is opened."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "old.html").write_text("<html>")
    for name in ("pipe", "old.html", "absent.html", "."):
        refuse_overwriting(tmp_path / name)


READING = {
    "picture": ("cost", "log.jsonl", "--picture", "link.svg"),
    "metrics": ("cost", "log.jsonl", "--openmetrics", "log.jsonl"),
    "cost": ("cost", "log.jsonl", "-o", "link.json"),
    "verdicts": ("scan", "log.jsonl", "--out", "link.jsonl"),
    "verdicts of an address": ("scan", "file://{folder}/log.jsonl", "--out", "log.jsonl"),
    "verdicts of a local address": ("scan", "local://{folder}/log.jsonl", "--out", "log.jsonl"),
    "verdicts behind a cache": ("scan", "simplecache::file://{folder}/log.jsonl", "--out", "log.jsonl"),
    "pairs": ("export", "dpo", "log.jsonl", "-o", "link.jsonl"),
    "pairs beside another run's": (
        "export",
        "dpo",
        "latest",
        "--chosen-from",
        "log.jsonl",
        "-o",
        "link.jsonl",
    ),
    "labels": ("export", "kto", "log.jsonl", "-o", "log.jsonl"),
    "unpaired": ("export", "dpo", "log.unpaired.jsonl", "-o", "log.jsonl"),
    "held out": ("export", "kto", "log.held-out.jsonl", "-o", "log.jsonl"),
    "comment": ("check", "--baseline", "log.jsonl", "--candidate", "log.jsonl", "--markdown", "link.md"),
    "tests": ("check", "--baseline", "latest", "--candidate", "log.jsonl", "--junit", "link.xml"),
}


@pytest.mark.parametrize("words", READING.values(), ids=READING)
def test_an_input_is_not_overwritten(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link may lead from an output to the log itself, and so may a name that `export` makes of -o. Nothing
    is read or written before that is known."""
    monkeypatch.chdir(tmp_path)
    write(Path("log.jsonl"), [{"prompt": "p", "output": story(2)}])
    before = Path("log.jsonl").read_bytes()
    for name in ("link.svg", "link.json", "link.jsonl", "link.md", "link.xml"):
        Path(name).symlink_to("log.jsonl")
    for name in ("log.unpaired.jsonl", "log.held-out.jsonl"):
        Path(name).write_bytes(before)
    names = sorted(Path().iterdir())
    given = [each.format(folder=tmp_path) for each in words]
    code, _, err = command("--store", "s.sqlite3", "--display", "none", *given)
    assert code == ExitCode.USAGE
    assert "is also an input file, and is not overwritten" in err
    assert sorted(Path().iterdir()) == names
    assert {path.read_bytes() for path in names} == {before}


SETTINGS = """
base_url = "http://127.0.0.1:9/v1"
lang = "en"

[check]
models = ["m"]
tasks = ["./task.toml"]
budgets = { min_safe_tokens = 10 }
"""
BESIDE_SETTINGS = {
    "settings that nobody named": ("scan", "log.jsonl", "--out", "stresstest.toml"),
    "settings that were named": ("--config", "mine.toml", "scan", "log.jsonl", "--out", "mine.toml"),
    "settings of a gate": ("check", "--config", "mine.toml", "--junit", "mine.toml"),
    "a task of a gate": ("check", "--markdown", "task.toml"),
    "settings of an export": ("--config", "mine.toml", "export", "runs", "-o", "mine.toml"),
}


@pytest.mark.parametrize("words", BESIDE_SETTINGS.values(), ids=BESIDE_SETTINGS)
def test_settings_and_tasks_are_not_overwritten(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistyped name replaced the project file with its report; the next command could not read it."""
    monkeypatch.chdir(tmp_path)
    write(Path("log.jsonl"), [{"prompt": "p", "output": story(2)}])
    for name in ("stresstest.toml", "mine.toml"):
        Path(name).write_text(SETTINGS, encoding="utf-8")
    Path("task.toml").write_text('instruction = "Write about {topic}."\ntopics = ["a"]\n', encoding="utf-8")
    before = {path: path.read_bytes() for path in Path().glob("*.toml")}
    with open_store("s.sqlite3") as store:
        store.create_run(make_run("r1"))
    code, _, err = command("--store", "s.sqlite3", "--display", "none", *words)
    assert code == ExitCode.USAGE
    assert "is also an input file, and is not overwritten" in " ".join(err.split())
    assert {path: path.read_bytes() for path in Path().glob("*.toml")} == before


def test_what_export_adds_is_written_through_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of the held-out prompts is made of -o: nobody looked whether it is a link."""
    monkeypatch.chdir(tmp_path)
    write(Path("log.jsonl"), [{"prompt": "p", "output": story(2)}])
    Path("pairs.held-out.jsonl").symlink_to("absent")
    code, _, err = command("--display", "none", "export", "dpo", "log.jsonl", "-o", "pairs.jsonl")
    assert code == ExitCode.USAGE
    assert "pairs.held-out.jsonl is a symbolic link" in err
    assert not Path("absent").exists()


@pytest.mark.parametrize("name", ["stresstest-demo.html", "stresstest-demo.md", "stresstest-demo.sqlite3"])
def test_the_demo_writes_through_no_link(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody typed these names: a link of that name in the current folder leads to a file of its choice."""
    monkeypatch.chdir(tmp_path)
    Path(name).symlink_to("absent")
    code, _, err = command("--display", "none", "demo")
    assert code == ExitCode.USAGE
    assert f"{name} is a symbolic link" in err
    assert not Path("absent").exists()


def test_a_report_in_a_folder_is_written_through_no_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder was named, its report.md was not; a name that was typed may be a link."""
    monkeypatch.chdir(tmp_path)
    stored("s.sqlite3", "r1", sample(0))
    Path("reports").mkdir()
    Path("reports/report.md").symlink_to("../absent")
    code, _, err = command("--store", "s.sqlite3", "report", "r1", "--output-dir", "reports")
    assert code == ExitCode.USAGE
    assert "report.md is a symbolic link" in err
    assert not Path("absent").exists()
    code, _, err = command("--store", "s.sqlite3", "report", "r1", "-o", "reports/report.md")
    assert (code, Path("absent").exists()) == (ExitCode.DONE, True), err


def test_a_half_written_file_is_not_begun_in_a_link(tmp_path: Path) -> None:
    """Its name can be guessed: who made a link of it would have it written through."""
    path = tmp_path / "metrics.prom"
    (tmp_path / f"metrics.prom.{os.getpid()}.tmp").symlink_to("absent")
    with pytest.raises(FileExistsError):
        replace_file(path, ["text"])
    assert not (tmp_path / "absent").exists()
    assert not path.exists()


def test_a_dash_is_no_file_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`export … -o -` wrote a file of that name where standard output was meant."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="names no file"):
        refuse_overwriting("-")
    assert not list(tmp_path.iterdir())


def test_two_options_do_not_write_one_file(tmp_path: Path) -> None:
    """The metrics of `cost` were overwritten by its table, without a word."""
    (tmp_path / "link.md").symlink_to(tmp_path / "a.md")
    with pytest.raises(UsageError, match=r"--output and --openmetrics name the same file\."):
        refuse_one_file({"--output": str(tmp_path / "a.md"), "--openmetrics": str(tmp_path / "link.md")})
    refuse_one_file({"--output": "/dev/null", "--openmetrics": "/dev/null", "--picture": None})
