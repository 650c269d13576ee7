"""The command line: help, fast start, empty states, and the right exit code with one sentence."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from docs.generate_cli_reference import COMMANDS, TARGET, help_of, reference
from stresstest.__main__ import main
from stresstest.errors import ExitCode
from stresstest.output_file import refuse_one_file
from tests.support.commands import called, clean_environment, command, forked, stresstest

HEAVY = (
    "openai",
    "sqlalchemy",
    "alembic",
    "scipy",
    "numpy",
    "pydantic",
    "langdetect",
    "py3langid",
    "tiktoken",
)


def test_help_imports_nothing_heavy() -> None:
    """`--help` must answer at once: no library that costs more than the answer is imported."""
    code = (
        "import sys\nfrom stresstest.cli.app import main\nsys.argv = ['stresstest', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage" in done.stdout
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("where", ["hide_secrets", "guard_streams", "show_warnings_of_the_store"])
def test_ctrl_c_before_the_command_begins(
    where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C in the first half second was told as an internal error, with a traceback to report."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(f"stresstest.cli.app.{where}", interrupt)
    monkeypatch.setattr("stresstest.cli.app.claim_process", lambda: None)
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.value.code == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == "\nInterrupted.\n"


@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in COMMANDS if c], ids=" ".join)
def test_every_command_has_help_with_examples(command: tuple[str, ...]) -> None:
    """A command without a purpose and an example to copy is not finished."""
    text = help_of(command)
    assert "Examples:" in text
    assert f"stresstest {' '.join(command)}" in text
    assert len(text.splitlines()[2].strip()) > 15


@pytest.mark.slow
def test_the_cli_reference_is_what_help_says() -> None:
    """docs/cli-reference.md is generated; nobody may edit a command and forget it."""
    assert TARGET.read_text(encoding="utf-8") == reference()


@pytest.mark.slow
def test_plan_sends_nothing_and_prints_one_document(tmp_path: Path) -> None:
    """`plan --json` needs no server and is one JSON document on stdout."""
    done = stresstest(
        "plan", "--lang", "it", "--json", "--base-url", "http://127.0.0.1:9/v1", tmp_path=tmp_path
    )
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert document["requests"] > 38
    assert document["worst_tokens"] > document["requests"]
    assert document["worst_seconds"] is None


def test_empty_states_say_how_to_begin(tmp_path: Path) -> None:
    """A new user who looks first finds the command that starts things."""
    listed = called("runs", "list", tmp_path=tmp_path)
    assert (listed.returncode, "stresstest run" in listed.stdout) == (0, True)
    recommended = called("recommend", tmp_path=tmp_path)
    assert (recommended.returncode, "stresstest run" in recommended.stderr) == (4, True)
    asked = called("recommend", "--format", "json", tmp_path=tmp_path)
    assert (asked.returncode, json.loads(asked.stdout)) == (
        4,
        {"recommendations": [], "smallest": [], "cheapest": []},
    )
    shown = called("runs", "show", "latest", tmp_path=tmp_path)
    assert (shown.returncode, "No runs are stored yet" in shown.stderr) == (2, True)


SIGNED = "https://bob:hunter2@127.0.0.1:9/x.jsonl?part=1&X-Amz-Signature=hunter2"


@pytest.mark.parametrize(
    "args",
    [
        ("export", "kto", SIGNED, "-o", "o.jsonl"),
        ("check", "--baseline", SIGNED, "--candidate", SIGNED),
        ("recommend", "--like", SIGNED),
        ("run", "--lang", "it", "--prompts", SIGNED),
        ("run", "--lang", "it", "--task", SIGNED),
        ("--config", SIGNED, "runs"),
        ("scan", f"filecache::{SIGNED}"),
        ("doctor", "--log", SIGNED),
    ],
    ids=" ".join,
)
def test_no_error_repeats_what_opens_an_address(tmp_path: Path, args: tuple[str, ...]) -> None:
    """Sources are files, runs and addresses: a name that is not found is quoted, in logs that others read."""
    done = called(*args, tmp_path=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    assert "127.0.0.1" in done.stderr or "No such file" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("run",), 2, "--lang is missing"),
        (("run", "--lang", "it", "--task", "narative"), 2, "narrative"),
        (("recommend", "--model", ""), 2, "--model is empty"),
        (("check", "--baseline", "latest", "--lang", " "), 2, "--lang is empty"),
        (("run", "--lang", "it", "--prompts", ""), 2, "--prompts is empty"),
        (("diagnose", ""), 2, "The name of the run is empty"),
        (("run", "--lang", "nl"), 2, "it, en, fr, es, pt, de"),
        (("run", "--lang", "it", "--rigor", "fast"), 2, "quick, standard, strict"),
        (("run", "--lang", "it", "--prompts", "absent.jsonl"), 2, "absent.jsonl"),
        (("plan", "--lang", "it", "--horizon", "99999999"), 2, "--horizon 99999999 is not valid"),
        (("cost", "absent.jsonl"), 2, "absent.jsonl cannot be read"),
        (("scan", "/dev/null"), 4, "no answer"),
        (("cost", "/dev/null"), 4, "No answer in"),
        (("--store", "/proc/x.sqlite3", "runs", "list"), 2, "cannot be opened"),
        (("--store", "/etc/passwd", "runs", "list"), 2, "is not a SQLite database"),
        (("report", "-o", "no/such/folder/index.html"), 2, "cannot be written: No such file or directory"),
        (("--store", "no/such/store.db", "runs", "list"), 2, "does not exist"),
        (("run", "--lang", "it", "--base-url", "http://127.0.0.1:9/v1"), 3, "127.0.0.1:9"),
        (("run", "--resume", "nonesuch"), 2, "nonesuch"),
        (("report", "latest", "-o", "x.pdf"), 2, ".html, .md, .json, .xml"),
        (("report", "nonesuch"), 2, "nonesuch"),
        (("recommend", "--format", "yaml"), 2, "table, json, vllm"),
        (("runs", "delete", "nonesuch"), 2, "nonesuch"),
        (("guard", "--upstream", "http://127.0.0.1:9", "--host", "."), 2, "--host '.' is no address"),
        (("export", "dpo", "latest", "-o", "a" * 400), 2, "A file's name is too long: aaa"),
        (("frobnicate",), 2, "frobnicate"),
    ],
)
def test_bad_input_is_one_sentence_and_its_exit_code(
    tmp_path: Path, args: tuple[str, ...], code: int, said: str
) -> None:
    """Usage 2, endpoint 3; the sentence names what was wrong; never a traceback; stdout stays empty."""
    done = called(*args, tmp_path=tmp_path)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_odd_files_and_folders_are_a_sentence(tmp_path: Path) -> None:
    """A link that leads to itself, a file of one byte that SQLite would write over, a folder that is gone."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "byte").write_text("\n")
    for store, said in (("loop", "cannot be opened"), ("byte", "is not a SQLite database")):
        done = called("--store", store, "recommend", tmp_path=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr
    assert (tmp_path / "byte").read_text() == "\n"
    refuse_one_file({"--junit": str(tmp_path / "loop"), "--markdown": str(tmp_path / "byte")})
    gone = tmp_path / "gone"
    gone.mkdir()
    with contextlib.chdir(gone):
        gone.rmdir()
        code, _, err = command("--store", "x.sqlite3", "recommend")
        os.chdir(tmp_path)
    assert (code, "The current folder no longer exists" in err) == (2, True)


@pytest.mark.slow
def test_variables_of_other_programs_are_a_sentence_or_nothing(tmp_path: Path) -> None:
    """Wireshark's variable names a file that Python's ssl opens, vLLM's a folder where its processes leave
    their metrics: the one was an "internal error", in the other the guard left its own."""
    doctor = ("doctor", "--base-url", "http://127.0.0.1:9/v1")
    done = stresstest(*doctor, tmp_path=tmp_path, SSLKEYLOGFILE=str(tmp_path / "no" / "keys"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "The file that SSLKEYLOGFILE names cannot be opened" in done.stderr
    shared = tmp_path / "shared"
    shared.mkdir()
    simulated = subprocess.Popen(
        [sys.executable, "-m", "stresstest", "sim", "--scenario", "healthy", "--port", "0"],
        env={**clean_environment(tmp_path), "PROMETHEUS_MULTIPROC_DIR": str(shared)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert simulated.stderr is not None
    assert "http://" in simulated.stderr.readline()  # it serves its metrics by then
    simulated.kill()
    simulated.communicate()
    assert list(shared.iterdir()) == []


@pytest.mark.slow
def test_an_api_key_is_in_no_output_of_a_failed_run(tmp_path: Path) -> None:
    """Keys appear nowhere, whichever way they came in and whatever fails."""
    for start, args, env in (
        (forked, ("--api-key", "sk-very-secret-123"), {}),
        (called, (), {"OPENAI_API_KEY": "sk-very-secret-123"}),
        (called, (), {"STRESSTEST_API_KEY": "sk-very-secret-123"}),
    ):
        url = "http://u:pw-secret@127.0.0.1:9/v1"
        done = start(*args, "run", "--lang", "it", "--base-url", url, tmp_path=tmp_path, **env)
        assert done.returncode == 3
        assert "very-secret" not in done.stdout + done.stderr
        assert "pw-secret" not in done.stdout + done.stderr
