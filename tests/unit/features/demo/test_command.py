"""`stresstest demo`: from an empty machine to a report, and nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stresstest.errors import ExitCode
from stresstest.features.demo.command import _activation
from stresstest.features.demo.console import summary_text
from tests.support.commands import command
from tests.support.forking import start
from tests.support.report_agreement import plain_text
from tests.support.terminal_scenes import run_result

SHORT = """
name = "short"
summary = "Loops at about token 150"
[model]
max_model_len = 640
[[hazard]]
symptom = "loop"
plane = "decoding"
onset = { distribution = "lognormal", median = 150, sigma = 0.2 }
requires = { repetition_penalty = "<1.15" }
"""
STUCK = """
[[hazard]]
symptom = "stall"
plane = "system"
probability = 0.3
seconds = 3600
onset = { distribution = "uniform", low = 20, high = 60 }
"""
"""Added to a scenario, it keeps the demo from being over before a test interrupts it."""
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/v1")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home and an empty folder for temporary files, beside a scenario that is soon over."""
    (tmp_path / "short.toml").write_text(SHORT, encoding="utf-8")
    for name in ("home", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def processes_in(folder: Path) -> list[str]:
    """Other processes that work in a folder; the demo's simulator does. Empty without /proc."""
    own = str(os.getpid())
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if link.readlink() == folder and link.parent.name != own:
                found.append((link.parent / "cmdline").read_text().replace("\0", " "))
        except OSError:  # it ended, or another user's
            continue
    return found


def nothing_left(home: Path, said: str) -> None:
    """No server, no temporary file, nothing in the user's data folder."""
    assert not any(listening(int(port)) for port in ADDRESS.findall(said))
    assert processes_in(home) == []
    assert list((home / "home").iterdir()) == []
    assert list((home / "temporary").iterdir()) == []


def test_a_shell_that_does_not_find_the_program_gets_the_way_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After `make demo` the commands that the demo prints were "command not found"."""
    script = tmp_path / "bin" / "activate"
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _activation() is None  # no virtual environment
    script.parent.mkdir()
    script.touch()
    assert _activation() == script
    assert f"  . {script}\n" in summary_text(run_result(), None, [], "stresstest", script)
    program = tmp_path / "stresstest"
    program.touch(mode=0o755)
    assert _activation() is None


@pytest.mark.simulated
def test_the_demo_measures_explains_writes_a_report_and_cleans_up(home: Path) -> None:
    """The whole command on a known truth: the verdict, the text around an onset, the words, the report."""
    code, out, err = command("--display", "plain", "demo", "--scenario", "./short.toml", "-o", "seen.html")
    assert code == 0, err
    said = plain_text(out)
    assert "What it should find (scenario short): Loops at about token 150." in said
    assert "SIMULATED: these numbers do not measure a real model" in said
    found = re.search(r"[Cc]ertified up to T = (\d+) tokens", said)
    assert found is not None
    assert 90 <= int(found[1]) <= 158
    assert "caused by decoding; confirmed: it goes away with repetition_penalty 1.15" in said
    assert "Better: use repetition_penalty 1.15, which clears the loop" in said
    assert "To test the cause" not in said
    assert re.search(r"around the onset in certifying answer \d+, at token \d+: … .+ ▶ .+ …", said)
    counted = r"(All \d+ answers of the sample|\d+ of the sample's \d+ answers) stopped making sense"
    assert re.search(f"{counted} on a server that looked healthy", said)
    assert re.search(r"^  \S+ --store seen\.sqlite3 runs show \S+$", out, re.MULTILINE), (
        "a command on one line"
    )
    assert "max_tokens" in said
    report = (home / "seen.md").read_text(encoding="utf-8")
    assert "SIMULATED" in report.upper()
    assert f"{int(found[1])}" in report
    page = (home / "seen.html").read_text(encoding="utf-8")
    assert "Simulated. These numbers come from the simulator" in page
    assert f"certified threshold T</dt><dd>{int(found[1])}" in page
    assert ADDRESS.search(err)
    nothing_left(home, err)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--output", "seen.txt"), "end the name in .html or .md"),
        (("--output", "nowhere/seen.md"), "'nowhere' is not a folder"),
        (("--output", "folder.md"), "'folder.md' is a folder"),
        (("--scenario", "no-such-thing"), "no-such-thing"),
        (("--scenario", "./broken.toml"), "broken.toml"),
    ],
)
def test_what_cannot_work_is_one_sentence_before_anything_starts(
    home: Path, words: tuple[str, ...], sentence: str
) -> None:
    """Exit 2, no traceback, no simulator, no report."""
    (home / "folder.md").mkdir()
    (home / "broken.toml").write_text("name = 1", encoding="utf-8")
    code, out, err = command("demo", *words)
    assert code == ExitCode.USAGE
    assert sentence in " ".join(err.split())
    assert "Traceback" not in err
    assert out == ""
    assert [path.name for path in (*home.glob("*.md"), *home.glob("*.html"))] == ["folder.md"]


def test_a_file_that_nobody_named_is_not_replaced(home: Path) -> None:
    """`-o notes.html` writes a notes.md too: yours stays, and the sentence says why nothing began."""
    (home / "notes.md").write_text("mine", encoding="utf-8")
    code, out, err = command("demo", "-o", "notes.html")
    assert (code, out) == (ExitCode.USAGE, "")
    assert "'notes.md' exists, and the demo would replace it" in " ".join(err.split())
    assert (home / "notes.md").read_text(encoding="utf-8") == "mine"
    (home / "runs.sqlite3").write_bytes(b"")
    code, out, err = command("demo", "-o", "runs.html")
    assert (code, out) == (ExitCode.USAGE, "")
    assert "would add its runs to yours" in " ".join(err.split())


@pytest.mark.simulated
def test_ctrl_c_in_the_middle_tells_what_was_measured_and_leaves_no_server(home: Path) -> None:
    """SIGINT once answers have come: exit 130, a report of what there is, and the simulator is gone."""
    (home / "short.toml").write_text(SHORT + STUCK, encoding="utf-8")
    process = start("--display", "plain", "demo", "--scenario", "./short.toml")
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if " tokens, " in line:
            break
    process.send_signal(signal.SIGINT)
    out, rest = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED, rest
    assert "Traceback" not in rest
    assert "The run is not complete" in plain_text(out)
    assert (home / "stresstest-demo.md").exists()
    nothing_left(home, said)


@pytest.mark.slow
def test_ctrl_c_before_the_server_is_ready_leaves_no_server(home: Path) -> None:
    """SIGINT while the simulator starts: exit 130 and one line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "stresstest", "--display", "plain", "demo", "--scenario", "./short.toml"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    assert first.startswith("This demo starts a simulated vLLM server")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED, err
    assert "Traceback" not in err
    nothing_left(home, err)
