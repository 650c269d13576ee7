"""Records behind addresses: read through fsspec from a real HTTP server, in every container."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import json
import socket
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import fsspec
import pyarrow
import pyarrow.parquet
import pytest

from stresstest.errors import UsageError
from stresstest.records import check_files, expand_names, input_file, read_chunks
from stresstest.records.input_file import file_state, label, open_file
from stresstest.records.source import total_size
from tests.support.commands import command
from tests.support.scanned_files import corpus

ROWS = corpus(12)
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
SECRET = "hunter2"
BOT = "123456789:AAabcdefghijklmnopqrstuvwxyz0123456"


@dataclass
class Files:
    """What the server has. ranges: whether it gives parts of a file, and a length; sized: whether it gives a
    length all the same; more: bytes that it gives beyond a part. missing: the status of what it does not
    have; silent: whether it says nothing until `heard`."""

    pages: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    sized: bool = False
    more: int = 0
    missing: int = 404
    silent: bool = False
    heard: threading.Event = field(default_factory=threading.Event)
    url: str = ""


@pytest.fixture
def served() -> Iterator[Files]:
    files = Files()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, *, with_body: bool) -> None:
            data = files.pages.get(self.path.partition("?")[0])
            if files.silent:
                files.heard.wait(20)
                return
            if data is None:
                self.send_error(files.missing)
                return
            first, last = 0, len(data) - 1
            wanted = self.headers.get("Range", "")
            partly = files.ranges and wanted.startswith("bytes=")
            if partly:
                start, _, end = wanted.removeprefix("bytes=").partition("-")
                first, last = int(start), min(int(end or last), last)
                data += b"x" * files.more
                last += files.more
            self.send_response(206 if partly else 200)
            if files.ranges or files.sized:
                self.send_header("Content-Length", str(last - first + 1))
            if files.ranges:
                self.send_header("Accept-Ranges", "bytes")
                self.send_header("ETag", f'"{hash(data)}"')
            if partly:
                self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
            self.end_headers()
            if with_body:
                self.wfile.write(data[first : last + 1])

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    files.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield files
    server.shutdown()
    thread.join()
    server.server_close()


def ids(name: str) -> list[str]:
    found = []
    for chunk in read_chunks(name):
        assert not chunk.damaged
        found += [raw["id"] if isinstance(raw, dict) else json.loads(raw)["id"] for _, raw in chunk.items]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("ranges", [True, False], ids=["with ranges", "a plain stream"])
@pytest.mark.parametrize("kind", ["jsonl", "gzip", "array", "parquet"])
def test_every_container_is_read_from_an_address(
    served: Files, tmp_path: Path, kind: str, ranges: bool
) -> None:
    """The same records as from a file. Parquet is read from its end: without ranges that is said."""
    served.ranges = ranges
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "x")
    pages = {
        "jsonl": LINES,
        "gzip": gzip.compress(LINES),
        "array": json.dumps(ROWS).encode(),
        "parquet": (tmp_path / "x").read_bytes(),
    }
    served.pages["/x"] = pages[kind]
    name = f"{served.url}/x"
    check_files([name])
    assert total_size([name]) == (len(pages[kind]) if ranges else None)
    if kind == "parquet" and not ranges:
        (chunk,) = read_chunks(name)
        assert "Parquet, which cannot be read from a pipe" in chunk.damaged[0].reason
    else:
        assert ids(name) == [row["id"] for row in ROWS]


def test_a_scan_of_an_address_keeps_its_signature_to_itself(served: Files) -> None:
    """The same table as of a file; the query of a signed address and a user's password are shown nowhere."""
    served.pages["/x.jsonl"] = LINES + b'{"cut\n'
    host = served.url.removeprefix("http://")
    code, out, err = command("scan", f"{served.url}/x.jsonl?X-Signature={SECRET}", "--workers", "1", "--json")
    assert code == 0, err
    assert json.loads(out)["requests"] == len(ROWS)
    assert f"http://{host}/x.jsonl:13: not JSON" in err
    assert SECRET not in out + err
    code, out, err = command("scan", f"http://user:{SECRET}@{host}/nothing.jsonl?X-Signature={SECRET}")
    assert (code, out) == (2, "")
    assert f"http://{host}/nothing.jsonl cannot be read" in err
    assert SECRET not in err


def test_a_part_is_no_larger_than_what_was_asked_for(served: Files) -> None:
    """A server that answers with more, or with what unpacks to more, filled the memory."""
    served.pages["/x.jsonl"] = LINES
    served.more = 50_000_000
    with (
        pytest.raises(OSError, match="more of the file than it was asked for"),
        open_file(f"{served.url}/x.jsonl") as file,
    ):
        file.read()


def test_the_cost_of_an_address_keeps_its_signature_to_itself(served: Files) -> None:
    """Its account names the log that it was made from."""
    rows = ({"response": "It ends.", "start": n, "end": n + 1, "completion_tokens": 3} for n in range(20))
    served.pages["/t.jsonl"] = "\n".join(map(json.dumps, rows)).encode()
    name = f"{served.url}/t.jsonl?code={SECRET}".replace("//", f"//user:{SECRET}@", 1)
    for options in ([], ["--json"]):
        code, out, err = command("cost", name, *options)
        assert code in (0, 4), err
        assert "/t.jsonl" in out + err
        assert SECRET not in out + err


def test_patterns_are_expanded_where_there_is_no_shell(tmp_path: Path) -> None:
    """s3://logs/*.jsonl: no shell lists a bucket. A query is no pattern, and a path is the shell's."""
    memory = fsspec.filesystem("memory")
    for name in ("b", "a", "c.txt"):
        memory.pipe(f"/logs/{name}" + ("" if "." in name else ".jsonl"), LINES)
    try:
        found = expand_names(["memory://logs/*.jsonl", "https://host/x?a=[1]", "local*.jsonl", "-"])
        assert found == ["memory:///logs/a.jsonl", "memory:///logs/b.jsonl", *found[2:]]
        assert found[2:] == ["https://host/x?a=[1]", "local*.jsonl", "-"]
        assert [ids(name) for name in found[:2]] == [[row["id"] for row in ROWS]] * 2
        with pytest.raises(UsageError, match=r"No file matches memory://logs/\*\.csv"):
            expand_names(["memory://logs/*.csv"])
        before = file_state("memory://logs/a.jsonl")
        memory.pipe("/logs/a.jsonl", LINES)
        assert before != file_state("memory://logs/a.jsonl"), "written again, of the same size"
    finally:
        memory.rm("/logs", recursive=True)


def test_what_cannot_be_read_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown file system, a missing library for one, no fsspec at all, a server that is not there."""
    for name, said in (
        ("nosuch://x/y.jsonl", "Protocol not known"),
        ("hdfs3://x/y.jsonl", "cannot be read"),
        ("http://127.0.0.1:9/y.jsonl", "cannot be read"),
        ("memory://logs/", "memory://logs/ is a folder. Name the files in it: memory://logs/*.jsonl"),
        ("s3://logs", "s3://logs is a folder. Name the files in it: s3://logs/*.jsonl"),
    ):
        code, out, err = command("scan", name)
        assert (code, out) == (2, ""), name
        assert said in " ".join(err.split())
        assert "Traceback" not in err
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    code, _, err = command("scan", "s3://x/y.jsonl")
    assert code == 2
    assert "reading from an address needs fsspec" in " ".join(err.split())
    assert "pip install fsspec" in err


def test_a_library_that_takes_a_password_for_a_bucket_does_not_show_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """botocore quotes what is before the first slash: s3://user:password@logs/x."""

    def refused(url: str, **_: object) -> object:
        raise ValueError(f'Parameter validation failed:\nInvalid bucket name "{url[5:].partition("/")[0]}"')

    monkeypatch.setattr("fsspec.core.url_to_fs", refused)
    code, _, err = command("scan", f"s3://user:{SECRET}@logs/x.jsonl")
    assert code == 2
    assert "s3://logs/x.jsonl cannot be read" in " ".join(err.split())
    assert SECRET not in err
    assert "user" not in err


@pytest.mark.parametrize("scheme", ["ftp", "http", "zip://x::ftp"])
@pytest.mark.parametrize("sign", ["/", "#", "?"])
def test_no_part_of_a_password_that_nobody_has_encoded_is_shown(scheme: str, sign: str) -> None:
    """Such a sign ends the password for the libraries, and they quote what is before it."""
    code, _, err = command("scan", f"{scheme}://bob:{SECRET}{sign}PW9@127.0.0.1:9/x.jsonl")
    assert code == 2
    assert "cannot be read" in " ".join(err.split())
    assert SECRET not in err
    assert "bob" not in err
    assert "PW9" not in err


def test_a_large_file_of_a_server_without_ranges_is_read_to_its_end(served: Files) -> None:
    """`python -m http.server`: of a log larger than a block, the first five megabytes were all."""
    row = json.dumps(ROWS[0]).encode() + b"\n"
    served.pages["/x.jsonl"] = row * (6_000_000 // len(row))
    served.ranges, served.sized = False, True
    chunks = list(read_chunks(f"{served.url}/x.jsonl"))
    assert not any(chunk.damaged for chunk in chunks)
    assert sum(len(chunk.items) for chunk in chunks) == 6_000_000 // len(row)


def test_why_a_web_server_gives_no_file(served: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that has expired, and a server that is silent, were files that were not there."""
    name = f"{served.url}/x.jsonl"
    for status, said in ((404, "No such file"), (403, "the server refuses it with HTTP 403")):
        served.missing = status
        with pytest.raises(UsageError, match=said):
            check_files([name])
    monkeypatch.setattr(input_file, "_SILENT", 0.2)
    served.silent = True
    with pytest.raises(UsageError, match=r"the server has not answered for 0\.2 s"):
        check_files([name])
    served.heard.set()
    with pytest.raises(UsageError, match="the server cannot be reached"):
        check_files(["http://127.0.0.1:9/x.jsonl"])


def test_answers_are_exported_from_an_address(served: Files, tmp_path: Path) -> None:
    """An address is a log and never the name of a run."""
    rows = [
        {"id": n, "prompt": "p", "response": "a b c d e " * 400, "finish_reason": "length"} for n in (1, 2)
    ]
    rows[1] |= {"response": "In the beginning there was a word, and it was short.", "finish_reason": "stop"}
    served.pages["/x.jsonl"] = "".join(json.dumps(row) + "\n" for row in rows).encode()
    out = tmp_path / "kto.jsonl"
    code, _, err = command(
        "export", "kto", f"{served.url}/x.jsonl", "--lang", "en", "--held-out", "0", "-o", str(out)
    )
    assert code == 0, err
    assert [json.loads(line)["label"] for line in out.read_text().splitlines()] == [False, True]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (f"https://u:{SECRET}@host/x.jsonl?sig={SECRET}", "https://host/x.jsonl"),
        (f"sftp://u:{SECRET}@host/x.jsonl", "sftp://host/x.jsonl"),
        (f"HTTPS://u:{SECRET}@host/x.jsonl?code={SECRET}", "https://host/x.jsonl"),
        (f"simplecache::https://host/x.jsonl?code={SECRET}", "simplecache::https://host/x.jsonl"),
        (f"https://host/file/bot{BOT}/x.jsonl", "https://host/file/…/x.jsonl"),
        ("abfs://box@account.dfs.core.windows.net/x", "abfs://box@account.dfs.core.windows.net/x"),
        ("logs/2026-11-24?.jsonl", "logs/2026-11-24?.jsonl"),
    ],
)
def test_labels(name: str, shown: str) -> None:
    """What is not a credential stays: an `@` names the container of an Azure address."""
    assert label(name) == shown


def test_files_within_an_archive_are_read_by_name_and_by_pattern(tmp_path: Path) -> None:
    """`zip://…::file://…` closed with its file system, and a pattern forgot where the archive lies."""
    archive = tmp_path / "logs.zip"
    with zipfile.ZipFile(archive, "w") as pack:
        for name in ("a.jsonl", "b.jsonl"):
            pack.writestr(name, LINES)
    outer = f"::file://{archive}"
    names = expand_names([f"zip://*.jsonl{outer}"])
    assert names == [f"zip://a.jsonl{outer}", f"zip://b.jsonl{outer}"]
    assert [open_file(name).read() for name in names] == [LINES, LINES]
    assert file_state(names[0]).mark


@pytest.mark.parametrize(
    ("name", "path", "server"),
    [
        ("ftp://box:2121/logs/*.jsonl", "/logs/*.jsonl", "box:2121"),
        ("sftp://me@box/logs/*.jsonl", "/logs/*.jsonl", "me@box"),
        ("s3://bucket/logs/*.jsonl", "bucket/logs/*.jsonl", ""),
        ("memory://logs/*.jsonl", "/logs/*.jsonl", ""),
        ("file:///logs/*.jsonl", "/logs/*.jsonl", ""),
        ("zip://*.jsonl::file:///logs.zip", "*.jsonl", ""),
    ],
)
def test_the_server_of_a_pattern_is_not_forgotten(name: str, path: str, server: str) -> None:
    """fsspec names what an FTP server lists ``ftp:///logs/a.jsonl``, which nobody can open."""
    assert input_file._lost_server(name, path) == server


def test_a_library_that_fails_at_the_end_is_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cached::file://…` raises AttributeError as it is closed."""
    (tmp_path / "a.jsonl").write_bytes(LINES)
    file = open_file(f"file://{tmp_path}/a.jsonl")
    assert file.read(4) == LINES[:4]
    raw = file.raw  # type: ignore[attr-defined]

    def close() -> None:
        raise AttributeError("property 'closed'")

    monkeypatch.setattr(raw._file, "close", close)
    with pytest.raises(OSError, match="property 'closed'"):
        file.close()


def test_a_server_that_sends_a_byte_a_second_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is never silent for long, so that no limit of the client's ends it: a scan waited without a word."""
    monkeypatch.setattr(input_file, "_LONGEST_ANSWER", 0.6)
    ended = threading.Event()

    def drip(listening: socket.socket) -> None:
        connected, _ = listening.accept()
        with connected, contextlib.suppress(OSError):
            while not ended.wait(0.1):
                connected.sendall(b"H")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=drip, args=(listening,), daemon=True).start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/a.jsonl"
        with pytest.raises(OSError, match="the server has not answered in"):
            input_file.open_file(address)
        ended.set()
