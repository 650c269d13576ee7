"""A store that came with somebody else's folder deletes nothing."""

from __future__ import annotations

import os
import sqlite3
import struct
import sys
from contextlib import closing
from pathlib import Path

import pytest

from stresstest.errors import StoreError
from stresstest.store import open_store
from stresstest.store.claim import _locked_file
from tests.support.stored_data import make_run

MAGIC = bytes.fromhex("d9d505f920a163d7")


def with_journal(path: Path, victim: bytes) -> Path:
    """A SQLite file with a hot journal that names `victim` as its super-journal, unless it is empty."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t(a)")
        connection.execute("DROP TABLE t")
        connection.commit()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
    head = MAGIC + struct.pack(">IIIII", 0, 12345, pages, 512, size)
    named = struct.pack(">I", 0x40000000 // size + 1) + victim
    named += struct.pack(">II", len(victim), sum(victim) & 0xFFFFFFFF) + MAGIC
    Path(f"{path}-journal").write_bytes(head.ljust(512, b"\0") + (named if victim else b""))
    return path


def test_a_journal_names_no_file_that_is_then_deleted(tmp_path: Path) -> None:
    """SQLite deletes what the journal of a cloned folder's store names: any file of the user's. The same
    beside a run's lock, and through a link."""
    victim = tmp_path / "victim.txt"
    victim.write_text("mine", "utf-8")
    store = with_journal(tmp_path / "gate.sqlite3", str(victim).encode())
    linked = tmp_path / "linked.sqlite3"
    linked.symlink_to(store)
    for path in (store, linked):
        with pytest.raises(StoreError, match="names another file, which SQLite would delete"):
            open_store(str(path))
    with (
        pytest.raises(StoreError, match="names another file"),
        _locked_file(with_journal(tmp_path / "a.lock", str(victim).encode()), "run"),
    ):
        pass
    assert victim.read_text("utf-8") == "mine"


def test_the_journal_of_a_program_that_was_killed_is_rolled_back(tmp_path: Path) -> None:
    """Without another file's name it is SQLite's own business."""
    with open_store(str(with_journal(tmp_path / "s.sqlite3", b""))) as store:
        assert store.runs() == []


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes")
@pytest.mark.parametrize("suffix", ["", "-journal", "-wal", "-shm"])
def test_a_pipe_or_a_link_in_the_place_of_a_file_is_a_sentence(tmp_path: Path, suffix: str) -> None:
    """SQLite opened the pipe and waited for ever, also after Ctrl-C."""
    store = tmp_path / "s.sqlite3"
    beside = Path(f"{store}{suffix}")
    os.mkfifo(beside)
    with pytest.raises(StoreError, match="it is no ordinary file"):
        open_store(str(store))
    if suffix:
        beside.unlink()
        beside.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(StoreError, match="is no ordinary file"):
            open_store(str(store))
        assert not (tmp_path / "elsewhere").exists()


def test_a_store_that_is_read_as_immutable_lacks_nothing(tmp_path: Path) -> None:
    """SQLite then ignores the journal, in which the newest results may be: an older limit was recommended
    from a copy of a store that was in use, with no word of it."""
    path = tmp_path / "s.sqlite3"
    address = f"sqlite:///file:{path}?immutable=1&uri=true"
    with open_store(str(path)) as store:
        store.create_run(make_run("r1"))
    with open_store(address) as archived:
        assert len(archived.runs()) == 1
    with open_store(str(path)) as store:
        store.create_run(make_run("r2"))
        with pytest.raises(StoreError, match=r"s\.sqlite3-wal beside it holds what was stored last"):
            open_store(address)
    with open_store(address) as archived:
        assert len(archived.runs()) == 2
