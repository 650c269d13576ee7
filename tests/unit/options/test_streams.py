"""Readers that go away, and encodings that lack what is written: no traceback, no loss."""

from __future__ import annotations

import codecs
import io
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.errors import UsageError
from stresstest.model import RunStatus
from stresstest.options.streams import ENCODING_ERRORS, replace_unencodable, write_lines
from stresstest.store import open_store
from tests.support.commands import called
from tests.support.fake_campaign import Behaviour, campaign_server
from tests.support.forking import start

COMMAND = [sys.executable, "-m", "stresstest"]


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("STRESSTEST_")}
    return {**kept, "XDG_DATA_HOME": str(home), "XDG_CONFIG_HOME": str(home), **more}


@pytest.mark.slow
def test_a_result_that_nobody_reads_is_no_error(tmp_path: Path) -> None:
    """`stresstest plan … | true`: the exit code is the command's own, and stderr stays empty."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*COMMAND, "plan", "--lang", "it"],
        stdout=write,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
        timeout=60,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.slow
def test_a_closed_stdout_is_no_error(tmp_path: Path) -> None:
    """`stresstest plan … >&-`, as some schedulers start a command: Python has no stdout then."""
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "plan", "--lang", "it"],
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.slow
def test_a_closed_stderr_is_no_error(tmp_path: Path) -> None:
    """As some daemons start a command: neither a line of progress nor the question for a terminal fails."""
    log = tmp_path / "log.jsonl"
    log.write_text('{"prompt": "Say hello.", "response": "Hello, and welcome to the harbour."}\n')
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- 2>&-', "sh", *COMMAND, "scan", str(log)],
        stdout=subprocess.PIPE,
        env=environment(tmp_path),
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert b"Answers read from: 'response' (1)" in done.stdout


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_line_on_stderr_is_written_at_once(tmp_path: Path, unbuffered: str) -> None:
    """Images for containers set PYTHONUNBUFFERED so that a log shows what happens while it happens."""
    waiting = (
        "import sys\n"
        "from stresstest.options.streams import guard_streams\n"
        "guard_streams()\n"
        "sys.stderr.write('measuring\\n')\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", waiting],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path, PYTHONUNBUFFERED=unbuffered),
    ) as process:
        assert process.stderr is not None
        read, _, _ = select.select([process.stderr], [], [], 60)
        assert read
        assert process.stderr.readline() == b"measuring\n"


@pytest.mark.slow
@pytest.mark.parametrize("args", [("plan", "--lang", "it"), ("runs", "list", "--json")])
def test_a_full_disk_is_a_sentence(tmp_path: Path, args: tuple[str, ...]) -> None:
    """`stresstest … > report.txt` where nothing can be written: exit 2 and why, no traceback."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, *args],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(tmp_path),
            timeout=60,
            check=False,
        )
    said = b"stresstest: stdout cannot be written: No space left on device.\n"
    assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.parametrize("module", ["typer", "stresstest.features.sweep.command"])
def test_ctrl_c_while_it_loads_is_no_traceback(tmp_path: Path, module: str) -> None:
    """The first tenths of a second go into imports; whoever changes his mind then gets exit 130."""
    interrupting = f"""
import sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
sys.argv = ["stresstest", "--help"]
import stresstest.__main__ as entry
entry.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", interrupting], capture_output=True, env=environment(tmp_path), check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"\nInterrupted.\n")


@pytest.mark.simulated
def test_a_run_that_nobody_watches_stops_in_good_order(tmp_path: Path) -> None:
    """`stresstest run … 2>&1 | head -1`: as after Ctrl-C, what was measured is kept and can be resumed."""
    store = tmp_path / "runs.sqlite3"
    with campaign_server(Behaviour()) as (server, _):
        options = ("--base-url", server.url, "--lang", "it", "--rigor", "quick", "--horizon", "256")
        words = ("--store", str(store), "run", *options, "--concurrency", "2")
        run = start(*words, env=environment(tmp_path), merged=True)
        said: list[str] = []
        while not said or " tokens, " not in said[-1]:  # a first generation to keep
            said.append(run.stdout.readline())
            assert said[-1]
        run.stdout.close()
        assert run.wait(60) == 130, said
    with open_store(str(store)) as kept:
        (found,) = kept.runs()
        assert found.status is RunStatus.INTERRUPTED
        assert found.generations > 0


@pytest.mark.slow
def test_a_dead_stderr_takes_no_result_away(tmp_path: Path) -> None:
    """`stresstest scan --json > rates.json` with a dead stderr: the answer is still wanted, and comes."""
    read, write = os.pipe()
    os.close(read)
    log = tmp_path / "a.jsonl"
    log.write_text("damaged\n" * 5 + json.dumps({"response": "Una storia breve."}) + "\n", encoding="utf-8")
    done = subprocess.run(
        [*COMMAND, "scan", str(log), "--lang", "it", "--workers", "1", "--json"],
        stdout=subprocess.PIPE,
        stderr=write,
        env=environment(tmp_path),
        timeout=100,
        check=False,
    )
    os.close(write)
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert (document["requests"], document["damaged"]) == (1, 5)


@pytest.mark.slow
def test_a_terminal_without_unicode_shows_everything_in_ascii(tmp_path: Path) -> None:
    """No UnicodeEncodeError: signs are written by what stands for them."""
    done = subprocess.run(
        [*COMMAND, "plan", "--lang", "it"],
        capture_output=True,
        env=environment(tmp_path, PYTHONIOENCODING="ascii", COLUMNS="120"),
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"whichever model is served | narrative | Italian" in done.stdout


@given(st.text(), st.sampled_from(["ascii", "latin-1", "cp1252", "utf-8"]))
def test_a_json_document_survives_every_encoding(text: str, encoding: str) -> None:
    """Letters become JSON escapes, so the document still says the same; the few signs that are
    transliterated instead are no letters."""
    codecs.register_error(ENCODING_ERRORS, replace_unencodable)
    out = io.BytesIO()
    with io.TextIOWrapper(out, encoding=encoding, errors=ENCODING_ERRORS) as stream:
        stream.write(json.dumps({"text": text}, ensure_ascii=False))
        stream.flush()
        written = out.getvalue().decode(encoding)
    found = json.loads(written)["text"]
    if not set(text) & set("–—−·…→≥≤≈×α‘’“”"):
        assert found == text
    assert len(found) >= len(text)


@pytest.mark.parametrize("columns", ["0", "00", "1", "-5", "wide"])
def test_results_are_printed_at_any_width(columns: str, tmp_path: Path) -> None:
    """A width of 0, as some CI runners set it, printed nothing and ended with exit code 0."""
    result = called("sim", "--list", tmp_path=tmp_path, COLUMNS=columns)
    listed = called("runs", "list", tmp_path=tmp_path, COLUMNS=columns)
    assert result.stdout.strip()
    assert (listed.stdout + listed.stderr).strip()


def test_a_file_is_written_whole_or_what_was_there_stays(tmp_path: Path) -> None:
    """A full disk replaced a good report by its first kilobytes."""

    def lines() -> Iterator[str]:
        yield "new"
        raise OSError(28, "No space left on device")

    good = tmp_path / "report.html"
    good.write_text("old", encoding="utf-8")
    with pytest.raises(UsageError, match="No space left on device"):
        write_lines(lines(), str(good))
    assert [(path.name, path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()] == [
        ("report.html", "old")
    ]
    long = tmp_path / ("n" * 250)
    write_lines(["whole"], str(long))
    assert long.read_text(encoding="utf-8") == "whole"
    link = tmp_path / "link.html"
    link.symlink_to(good)
    write_lines(["through"], str(link))
    assert link.is_symlink()
    assert good.read_text(encoding="utf-8") == "through"
