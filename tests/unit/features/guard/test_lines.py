"""The guard's log where nobody reads it, or where it cannot be written: nothing else waits or fails."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from stresstest.features.guard import lines
from stresstest.features.guard.lines import LineWriter, LogFile, ends_within_line
from tests.support.fake_vllm import DONE, Events
from tests.support.guarded import CHAT, HEALTHY, LOOP, chat_events, guarded

FAILING = Events([*chat_events(HEALTHY + LOOP), DONE])
DROPPED = "stresstest_guard_log_lines_dropped_total"


class Unread(io.BytesIO):
    """Like a pipe that nobody reads until `goes_on` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.goes_on = threading.Event(), threading.Event()

    def write(self, data: Any, /) -> int:
        self.asked.set()
        self.goes_on.wait()
        return super().write(data)


class Full(io.BytesIO):
    """A disk with room for `room` bytes, if that."""

    room = 0

    def write(self, data: Any, /) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = super().write(bytes(data[: self.room]))
        self.room -= written
        return written


class Lost:
    """Counts the lines that were dropped."""

    count = 0

    def add(self, number: int) -> None:
        self.count += number


def until(done: Any) -> None:
    """Wait for the other thread; a minute at most."""
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("bound", ["MAX_LINES", "MAX_BYTES"])
def test_what_waits_is_bounded_and_what_is_dropped_is_told_once(
    bound: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In lines and in bytes: a reader that stands still costs lines, and no memory without end."""
    line = b"x" * 9 + b"\n"
    monkeypatch.setattr(lines, bound, 5 if bound == "MAX_LINES" else 5 * len(line))
    out, lost = Unread(), Lost()
    writer = LineWriter(out.write, lost.add)
    for _ in range(12):
        writer.put(line)
    assert lost.count == 7
    out.goes_on.set()
    until(lambda: "7 lines of the log were dropped" in capsys.readouterr().err)
    writer.put(line)
    writer.close()
    assert out.getvalue() == line * 6
    assert (lost.count, capsys.readouterr().err) == (7, "")


def test_a_line_that_is_alone_always_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long an answer is, it can be logged."""
    monkeypatch.setattr(lines, "MAX_BYTES", 3)
    out, lost = io.BytesIO(), Lost()
    writer = LineWriter(out.write, lost.add)
    writer.put(b"long\n")
    writer.close()
    assert (out.getvalue(), lost.count) == (b"long\n", 0)


def test_the_end_does_not_wait_for_a_reader(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log that nobody reads keeps no process from ending; what was not written counts as dropped."""
    monkeypatch.setattr(lines, "PATIENCE", 0.05)
    out, lost = Unread(), Lost()
    writer = LineWriter(out.write, lost.add)
    writer.put(b"a\n")
    writer.put(b"b\n")
    writer.close()
    writer.put(b"c\n")
    assert lost.count == 3
    assert "2 lines of the log were dropped" in capsys.readouterr().err
    out.goes_on.set()


def test_a_log_that_cannot_be_written_is_told_once_and_goes_on_where_it_can(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One sentence, not one a line; a line that was cut by a full disk does not spoil the next one."""
    out, lost = Full(), Lost()
    writer = LineWriter(out.write, lost.add)
    out.room = 3
    for expected in (1, 2, 3):
        writer.put(b"first\n")
        until(lambda expected=expected: lost.count == expected)
    out.room = 100
    writer.put(b"last\n")
    writer.close()
    assert out.getvalue() == b"fir\nlast\n"
    told = capsys.readouterr().err.splitlines()
    assert told[0].endswith("its lines are dropped: No space left on device")
    assert told[1].startswith("warning: 3 lines of the log were dropped")
    assert len(told) == 2


async def test_a_log_that_nobody_reads_stops_no_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pager, or Ctrl-S: the write waited in the event loop, and with it every request."""
    monkeypatch.setattr(lines, "PATIENCE", 0.05)
    monkeypatch.setattr(lines, "MAX_LINES", 1)
    out = Unread()
    async with guarded(FAILING, out=out) as here:
        for asked in (1, 2, 3):
            assert (await here.ask()).status == 200
            found = await here.judged(asked)
        assert out.asked.wait(60)
        assert found[DROPPED] == 2
    assert out.getvalue() == b""
    out.goes_on.set()


async def test_what_is_counted_does_not_depend_on_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    """With a full disk, nothing was counted as degenerate any more."""
    script = Events([*chat_events(HEALTHY + LOOP), DONE], pause=0.0005)
    async with guarded(script, {"policy": "abort"}, out=Full()) as here:
        await here.ask()
        found = await here.judged(1)
        while (await here.series())[DROPPED] < 1:
            await asyncio.sleep(0.01)
    assert found[f"stresstest_guard_requests_total{{lab,degenerate,{CHAT}}}"] == 1
    for name in ("degenerate_total", "actions_total"):
        assert sum(number for series, number in found.items() if name in series) == 1
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "expected"),
    [(b"", b"new\n"), (b"old\n", b"old\nnew\n"), (b"old\nto", b"old\nto\nnew\n")],
)
def test_a_line_that_an_earlier_guard_did_not_finish_swallows_no_other(
    before: bytes, expected: bytes, tmp_path: Path
) -> None:
    """After a full disk or a kill -9, the log continues in a new line: one line is damaged, not two."""
    log = tmp_path / "guard.jsonl"
    log.write_bytes(before)
    with log.open("ab", buffering=0) as out:
        writer = LineWriter(out.write, Lost().add, torn=ends_within_line(log))
        writer.put(b"new\n")
        writer.close()
    assert log.read_bytes() == expected


def test_what_has_no_end_to_look_at_ends_in_no_line(tmp_path: Path) -> None:
    """Pipes are not waited for, and a log that is not there yet is written from its beginning."""
    os.mkfifo(tmp_path / "pipe")
    assert not ends_within_line(tmp_path / "pipe")
    assert not ends_within_line(tmp_path / "none.jsonl")


def test_a_log_that_was_rotated_is_opened_again(tmp_path: Path) -> None:
    """logrotate renames it, or removes it: every line after that was lost, and none counted as dropped."""
    log = tmp_path / "traffic.jsonl"
    with LogFile(log) as out:
        out.write(memoryview(b"one\n"))
        log.rename(tmp_path / "traffic.jsonl.1")
        out.write(memoryview(b"two\n"))
        log.unlink()
        out.write(memoryview(b"three\n"))
        log.write_bytes(b"")  # copytruncate
        out.write(memoryview(b"four\n"))
    assert (tmp_path / "traffic.jsonl.1").read_bytes() == b"one\n"
    assert log.read_bytes() == b"four\n"


def test_a_log_whose_folder_is_gone_for_a_while_is_written_again(tmp_path: Path) -> None:
    """Lines in between are dropped and told of, as on a full disk."""
    folder, lost = tmp_path / "logs", Lost()
    folder.mkdir()
    with LogFile(folder / "a.jsonl") as out:
        writer = LineWriter(out.write, lost.add)
        folder.rename(tmp_path / "moved")
        writer.put(b"one\n")
        until(lambda: lost.count == 1)
        folder.mkdir()
        writer.put(b"two\n")
        writer.close()
    assert (folder / "a.jsonl").read_bytes() == b"two\n"


def test_a_line_that_comes_after_the_end_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing may be lost in silence."""
    out, lost = io.BytesIO(), Lost()
    writer = LineWriter(out.write, lost.add)
    writer.put(b"a\n")
    writer.close()
    writer.put(b"b\n")
    assert (out.getvalue(), lost.count) == (b"a\n", 1)
    assert "1 line of the log was dropped" in capsys.readouterr().err


def test_a_pipe_that_nobody_reads_yet_holds_up_nothing(tmp_path: Path) -> None:
    """The guard listened only once a log shipper had opened its end: until then, no request was answered.
    What waits is written when it does, and again to the next reader."""
    pipe, lost = tmp_path / "pipe", Lost()
    os.mkfifo(pipe)
    with LogFile(pipe) as out:
        writer = LineWriter(out.write, lost.add)
        writer.put(b"one\n")
        for line in (b"one\n", b"two\n"):
            reader = os.open(pipe, os.O_RDONLY)
            assert os.read(reader, 100) == line
            os.close(reader)
            writer.put(b"two\n" if line == b"one\n" else b"three\n")
        writer.close(0.3)
    assert lost.count == 1
