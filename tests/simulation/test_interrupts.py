"""Two Ctrl-C end every command, whatever it waits for: a server, a stalled stream, stdin, a database."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stresstest.errors import ExitCode
from tests.support.campaign_commands import document, run
from tests.support.commands import clean_environment
from tests.support.fake_campaign import Behaviour, campaign_server
from tests.support.fake_vllm import Events, FakeVllm, Hang, answer
from tests.support.forking import ForkedProcess, start

pytestmark = pytest.mark.simulated

ENOUGH_S = 60.0
"""Far more than any command needs, on any machine: only a hang takes so long."""

MEASURING = {
    "run": ("run", "--lang", "it"),
    "resume": ("run", "--resume", "UNFINISHED", "--budget-tokens", "1M"),
    "diagnose": ("diagnose", "FAILING"),
    "sweep": ("sweep", "--lang", "it", "--param", "temperature=0.1,0.2"),
    "cost": ("cost", "--lang", "it"),
    "check": ("check", "--baseline", "FAILING", "--lang", "it"),
    "check a project": ("check", "--config", "project.toml"),
}
READING = {
    "scan": ("scan", "-"),
    "cost": ("cost", "-"),
    "recommend": ("recommend", "--repetition-detection", "-"),
    "doctor": ("doctor", "--log", "-"),
}
STORED = {"report": ("report", "latest"), "run": ("run", "--lang", "it")}


@dataclass(frozen=True)
class Place:
    """A folder with a store of a failing and an unfinished run, and a project file."""

    folder: Path
    failing: str
    unfinished: str

    def start(self, *words: str, stdin: int | None = None) -> ForkedProcess:
        named = {"FAILING": self.failing, "UNFINISHED": self.unfinished}
        words = tuple(named.get(word, word) for word in words)
        options = () if "--store" in words else ("--store", str(self.folder / "s.sqlite3"))
        environment = clean_environment(self.folder)
        return start(
            *options, "--display", "plain", *words, env=environment, cwd=self.folder, merged=True, stdin=stdin
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("interrupted")
    (folder / "project.toml").write_text('lang = "it"\nrigor = "quick"\n[check]\nmodels = ["lab"]\n')
    with campaign_server(Behaviour(onset=60)) as (fake, _):
        # An open task: of a numbered one, 60 tokens have no room for a paragraph, and are no baseline.
        done = run(folder / "s.sqlite3", fake.url, "--horizon", "120", "--task", "narrative:open")
        cut = run(folder / "s.sqlite3", fake.url, "--horizon", "120", "--budget-tokens", "50")
    return Place(folder, document(done)["run_id"], document(cut, 4)["run_id"])


@pytest.fixture(scope="module")
def silent() -> Iterator[FakeVllm]:
    """A server that takes every request and answers none."""
    with campaign_server(Behaviour()) as (fake, _):
        fake.everything = Hang()
        yield fake


@pytest.fixture(scope="module")
def stalling() -> Iterator[FakeVllm]:
    """A server that passes every probe, and whose answers stop after a few tokens."""
    begun = Events(answer([" una"] * 8, finish=None, done=False), end="stall")
    with campaign_server(Behaviour(fault=lambda _: begun)) as (fake, _):
        yield fake


@pytest.fixture
def deaf_database() -> Iterator[socket.socket]:
    """A database server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


Record = Callable[[str, object], None]


def interrupted(process: ForkedProcess, is_busy: Callable[[], bool], record: Record) -> tuple[int, str]:
    """The exit code and all output after two Ctrl-C, sent once the command is busy.

    record: is given the seconds from the second one to the end, for docs/results/reliability.md.
    """
    deadline = time.monotonic() + ENOUGH_S
    while not is_busy() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert is_busy()
    for _ in range(2):
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
    began = time.monotonic()
    output, _ = process.communicate(ENOUGH_S)
    record("seconds", time.monotonic() - began)
    return process.wait(), output


def check_ending(code: int, output: str, expected: int = ExitCode.INTERRUPTED) -> None:
    # A second signal that comes while the interpreter ends kills it; a shell calls that 130 too.
    assert code in {expected, -signal.SIGINT}, output
    assert "Traceback" not in output
    assert "internal error" not in output
    assert "never retrieved" not in output


@pytest.mark.parametrize("words", [*MEASURING.values(), ("doctor",)], ids=[*MEASURING, "doctor"])
def test_a_server_that_never_answers(
    words: tuple[str, ...], place: Place, silent: FakeVllm, record_property: Record
) -> None:
    """The first request of every command may hang; nobody waits for its limit after a second Ctrl-C."""
    before = len(silent.asked)
    process = place.start(*words, "--base-url", silent.url)
    check_ending(*interrupted(process, lambda: len(silent.asked) > before, record_property))


@pytest.mark.parametrize("words", MEASURING.values(), ids=list(MEASURING))
def test_a_stream_that_stands_still(
    words: tuple[str, ...], place: Place, stalling: FakeVllm, record_property: Record
) -> None:
    """In the middle of answers, where the first Ctrl-C waits for nothing that the server may withhold."""
    before = stalling.open
    process = place.start(*words, "--base-url", stalling.url)
    check_ending(*interrupted(process, lambda: stalling.open > before, record_property))


@pytest.mark.parametrize("words", READING.values(), ids=list(READING))
def test_a_stdin_that_never_ends(words: tuple[str, ...], place: Place, record_property: Record) -> None:
    """`… | stresstest scan -` behind a command that hangs."""
    read, write = os.pipe()
    try:
        os.write(write, b'{"response": "Il faro si accese, e il mare tacque.", "model": "m"}\n')
        process = place.start(*words, stdin=read)
        code, output = interrupted(process, lambda: _unread(read) == 0, record_property)
    finally:
        os.close(read)
        os.close(write)
    check_ending(code, output)


@pytest.mark.parametrize("words", STORED.values(), ids=list(STORED))
def test_a_database_that_never_answers(
    words: tuple[str, ...], place: Place, deaf_database: socket.socket, record_property: Record
) -> None:
    """A store on a PostgreSQL server that hangs behind its port."""
    process = place.start("--store", f"postgresql://127.0.0.1:{deaf_database.getsockname()[1]}/x", *words)
    check_ending(
        *interrupted(process, lambda: bool(select.select([deaf_database], [], [], 0)[0]), record_property)
    )


@pytest.mark.parametrize("words", [MEASURING["run"], MEASURING["diagnose"]], ids=["run", "diagnose"])
def test_a_store_that_stops_answering(
    words: tuple[str, ...], place: Place, stalling: FakeVllm, tmp_path: Path, record_property: Record
) -> None:
    """Another process holds the store's lock, as a frozen database does: what the end of a measurement writes
    waited for it, in the thread that hears Ctrl-C."""
    store = tmp_path / "s.sqlite3"
    store.write_bytes((place.folder / "s.sqlite3").read_bytes())
    before = stalling.open
    process = place.start("--store", str(store), *words, "--base-url", stalling.url)
    other = sqlite3.connect(store, isolation_level=None)

    def is_busy() -> bool:
        if stalling.open > before and not other.in_transaction:
            other.execute("BEGIN IMMEDIATE")
        return other.in_transaction

    code, output = interrupted(process, is_busy, record_property)
    other.close()
    check_ending(code, output)
    assert "ended at once: the store, the network, the terminal or its own work took too long" in output


LOCKED = {
    "runs delete": ("runs", "delete", "FAILING", "--yes"),
    "recommend": ("recommend",),
    "report": ("report", "latest"),
    "export": ("export", "runs", "-o", "runs.csv"),
}


@pytest.mark.parametrize("words", LOCKED.values(), ids=list(LOCKED))
def test_a_store_that_another_program_has_locked(
    words: tuple[str, ...], place: Place, tmp_path: Path, record_property: Record
) -> None:
    """While SQLite waits for the lock, for 15 s, Python's own handler of Ctrl-C does not run."""
    store = tmp_path / "s.sqlite3"
    store.write_bytes((place.folder / "s.sqlite3").read_bytes())
    with contextlib.closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        process = place.start("--store", str(store), *words)
        opened = Path(f"/proc/{process.pid}/fd")

        def is_busy() -> bool:
            with contextlib.suppress(OSError):
                return any(each.resolve() == store for each in opened.iterdir())
            return False

        code, output = interrupted(process, is_busy, record_property)
    check_ending(code, output)
    assert "ended at once: the store" in output


def test_output_that_nobody_reads(place: Place, stalling: FakeVllm, tmp_path: Path) -> None:
    """`stresstest run 2>&1 | less`, and less waits for a key: every write waits, that of the end too."""
    read, write = os.pipe()
    before = stalling.open
    words = ("--store", str(tmp_path / "s.sqlite3"), "--display", "plain", *MEASURING["run"])
    process = subprocess.Popen(
        [sys.executable, "-m", "stresstest", *words, "--base-url", stalling.url],
        stdout=write,
        stderr=write,
        env=clean_environment(place.folder),
        cwd=place.folder,
    )
    deadline = time.monotonic() + ENOUGH_S
    while stalling.open == before and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    filling = os.open(f"/proc/self/fd/{write}", os.O_WRONLY | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(filling, b" ")
    for _ in range(2):
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
    assert process.wait(ENOUGH_S) == ExitCode.INTERRUPTED
    for end in (read, write, filling):
        os.close(end)


def test_a_demo_in_the_middle(place: Place, record_property: Record) -> None:
    """It measures a simulator of its own, which ends with it."""
    process = place.start("demo", "-o", "demo.html")
    while (line := process.stdout.readline()) and "climb" not in line:
        pass
    check_ending(*interrupted(process, lambda: True, record_property))


def test_a_simulator_that_is_serving(place: Place, record_property: Record) -> None:
    """Ctrl-C is how it is meant to end: exit 0, also while a request is being answered."""
    process = place.start("sim", "--scenario", "healthy", "--port", "0", "--speed", "0.01")
    line = process.stdout.readline()
    port = int(line.split(":")[2].split("/")[0])
    with socket.create_connection(("127.0.0.1", port)) as client:
        body = b'{"model": "healthy", "prompt": "x", "max_tokens": 4000, "stream": true}'
        client.sendall(
            b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%s" % (len(body), body)
        )
        assert client.recv(1)
        check_ending(*interrupted(process, lambda: True, record_property), expected=ExitCode.DONE)


def _unread(pipe: int) -> int:
    """Bytes that nobody has read yet."""
    found: tuple[int] = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0\0\0\0"))
    return found[0]
