"""Files to chunks: every container, in bounded pieces, with all damage counted and named."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.errors import UsageError
from stresstest.records import FieldMapping, UnreadableError, check_files, parse_line, read_chunks, source
from stresstest.records.json_elements import MAX_ITEMS, MAX_KEYS, MAX_VALUES, json_elements
from stresstest.records.record import as_token_count
from stresstest.records.source import total_size

ROWS: list[dict[str, Any]] = [
    {"id": str(n), "text": f"Answer “{n}”, with [brackets] and }} braces."} for n in range(7)
]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def scan(path: Path | str) -> tuple[list[str], list[str]]:
    """(ids of the records, reasons of the damage) of a file."""
    found, damaged = [], []
    for chunk in read_chunks(str(path)):
        damaged += [f"{d.line}: {d.reason}" for d in chunk.damaged]
        for line, raw in chunk.items:
            try:
                found += [r.id for r in parse_line(raw, chunk.source, line, FieldMapping())]
            except UnreadableError as error:
                damaged.append(f"{line}: {error}")
    return found, damaged


ALL = [row["id"] for row in ROWS]
ARRAY = json.dumps(ROWS).encode()
PRETTY = json.dumps(ROWS, indent=2, ensure_ascii=False).encode()
TAIL = b"\n" + json.dumps(ROWS[2:]).encode()
DOCUMENTS = "\n".join(json.dumps(row, indent=1) for row in ROWS).encode()


CONTAINERS = {
    "jsonl": LINES,
    "bom": b"\xef\xbb\xbf" + LINES,
    "crlf": LINES.replace(b"\n", b"\r\n\r\n"),
    "no last newline": LINES[:-1],
    "array": ARRAY,
    "pretty": PRETTY,
    "documents": DOCUMENTS,
    "no line ends": LINES.replace(b"\n", b""),
    "ends of old Macs": LINES.replace(b"\n", b"\r"),
    "an array behind lines": b"\n".join(LINES.split(b"\n", 2)[:2]) + TAIL,
}


@pytest.mark.parametrize("data", CONTAINERS.values(), ids=CONTAINERS)
@pytest.mark.parametrize("zipped", [False, True])
def test_every_json_container(tmp_path: Path, data: bytes, zipped: bool) -> None:
    """The content tells the format, not the name; gzip is transparent."""
    path = tmp_path / "records.log"
    path.write_bytes(gzip.compress(data[:200]) + gzip.compress(data[200:]) if zipped else data)
    assert scan(path) == (ALL, [])


def test_what_follows_a_record_in_its_line_is_an_answer_that_cannot_be_read(tmp_path: Path) -> None:
    """A process that was killed while it wrote left half a record, and the next one wrote behind it."""
    path = tmp_path / "records.jsonl"
    path.write_bytes(LINES.splitlines()[0] + b'{"id": "1", "te' + b"\n" + LINES.splitlines()[2])
    [chunk] = read_chunks(str(path))
    (line, raw), _ = chunk.items
    whole, half = parse_line(raw, chunk.source, line, FieldMapping())
    assert (whole.id, whole.has_text, half.has_text) == ("0", True, False)


def test_a_line_that_is_a_conversation_holds_no_answers(tmp_path: Path) -> None:
    """Its turns are the user's, too."""
    path = tmp_path / "records.jsonl"
    turns = [{"from": "human", "text": "Well?"}, {"from": "gpt", "text": "It is well."}]
    path.write_bytes(LINES.splitlines()[0] + b"\n" + json.dumps(turns).encode())
    found, damaged = scan(path)
    assert found == ["0"]
    assert damaged == ["2: a list, not an object"]


def test_parquet_rows(tmp_path: Path) -> None:
    """Parquet columns become records; timestamps and lists come along."""
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "x.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
    assert scan(path) == (ALL, [])
    path.write_bytes(path.read_bytes()[:-10])
    found, damaged = scan(path)
    assert (found, len(damaged)) == ([], 1)
    assert "Parquet file is damaged" in damaged[0]


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra that is missing is named before anything is read."""
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1....")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError) as refused:
        check_files([str(path)])
    assert refused.value.hint == "Install it with: pip install pyarrow"


def test_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` reads a pipe, gzip included."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(LINES))))
    assert scan("-") == (ALL, [])


def test_parquet_on_a_pipe_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read from its end, which a pipe does not have."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"PAR1\xff\xfe" * 9)))
    assert scan("-") == ([], ["0: Parquet, which cannot be read from a pipe: name the file"])


def test_a_cut_gzip_keeps_what_arrived(tmp_path: Path) -> None:
    """A download that broke off is judged as far as it goes, and says so once."""
    path = tmp_path / "cut.jsonl.gz"
    many = LINES * 400
    packed = gzip.compress(many, compresslevel=0)
    path.write_bytes(packed[: len(packed) // 2])
    found, damaged = scan(path)
    assert 1200 < len(found) < 1500
    assert len(damaged) == 1
    assert "the gzip stream is cut" in damaged[0]
    assert damaged[0].startswith(f"{len(found) + 1}: ")


def test_blank_lines_are_passed_over_and_counted(tmp_path: Path) -> None:
    """A file of line ends held the scan up for minutes; a line is named by its number all the same."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"\n" * 300_000 + b' {"response": "a"}\n \r\n\t\n' + b"\n" * 10 + b'\n {"response": }\n')
    found = [line for chunk in read_chunks(str(path)) for line, _ in chunk.items]
    assert found == [300_001, 300_015]


def test_bad_lines_are_named_and_skipped(tmp_path: Path) -> None:
    """Damage in the middle costs its own lines only, and each is named with its number."""
    lines = LINES.splitlines()
    lines[1:1] = [b'{"id": "x", "text": "cut', b"", b"\xff\xfe", b'{"id": "y"}']
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b"\n".join(lines))
    found, damaged = scan(path)
    assert found == ALL
    assert [d.split(":")[0] for d in damaged] == ["2", "4", "5"]


def test_a_line_without_end_is_skipped_without_being_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line beyond the limit is no record; it is read in pieces and the next line is found."""
    monkeypatch.setattr(source, "MAX_LINE", 4096)
    monkeypatch.setattr(source, "CHUNK_BYTES", 1000)
    path = tmp_path / "long.jsonl"
    first, *rest = LINES.splitlines(keepends=True)
    path.write_bytes(first + b'{"text": "' + b"a" * 50_000 + b'"}\n' + b"".join(rest))
    found, damaged = scan(path)
    assert found == ALL
    assert len(damaged) == 1
    assert damaged[0].startswith("2: a line of more than")


@pytest.mark.slow
@pytest.mark.parametrize("array", [False, True])
def test_a_record_that_would_fill_the_memory_is_damaged(tmp_path: Path, array: bool) -> None:
    """275 KB of gzip, a line of 60 MB of empty lists, took 1.7 GB as Python objects."""
    record = b'{"response": "a", "x": [' + b"[]," * (MAX_ITEMS + 1) + b"1]}"
    text = b"[" + LINES.splitlines()[0] + b"," + record + b"]" if array else LINES + b"\n" + record + b"\n"
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(text, 1))
    tracemalloc.start()
    try:
        found, damaged = scan(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == (ALL[:1] if array else ALL)
    assert "more than 1,000,000 lists and objects" in damaged[0]
    assert peak < 250 << 20


@pytest.mark.parametrize("cut", [1, 30, 200, -2])
def test_a_cut_array_keeps_its_whole_elements(tmp_path: Path, cut: int) -> None:
    """An array that was not finished is read as far as it goes and named as damaged."""
    path = tmp_path / "cut.json"
    path.write_bytes(ARRAY[:cut])
    found, damaged = scan(path)
    assert found == ALL[: len(found)]
    assert len(damaged) == 1


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(
    st.lists(st.dictionaries(st.text(max_size=4), _JSON, max_size=3), max_size=6),
    st.integers(1, 40),
    st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_elements_do_not_depend_on_how_they_are_read(rows: list[Any], piece: int, indent: bool) -> None:
    """Whatever is in the strings and wherever the reads end, an array's elements are its elements."""
    data = io.BytesIO(json.dumps(rows, indent=2 if indent else None, ensure_ascii=False).encode())
    found = [json.loads(each) for each in json_elements(lambda n: data.read(min(n, piece)), 1 << 20)]
    assert found == rows


def test_chunks_are_bounded_and_tell_how_far_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory does not grow with the file; the last chunk ends at the file's size."""
    monkeypatch.setattr(source, "CHUNK_BYTES", 1000)
    path = tmp_path / "big.jsonl"
    path.write_bytes(LINES * 50)
    pieces = list(read_chunks(str(path)))
    assert len(pieces) > 20
    assert max(sum(len(raw) for _, raw in c.items) for c in pieces) < 1200
    assert pieces[-1].done == path.stat().st_size
    assert [line for c in pieces for line, _ in c.items] == list(range(1, 351))


def test_a_file_that_is_cut_while_it_is_read_is_not_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """logrotate's copytruncate takes the rest away: two thirds of the answers were missing without a word."""
    monkeypatch.setattr(source, "CHUNK_BYTES", 200)
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINES * 400)
    chunks = read_chunks(str(path))
    next(chunks)
    os.truncate(path, 0)
    *_, last = chunks
    assert [each.reason for each in last.damaged] == [
        "it was cut while it was read (rotated?): the rest is lost"
    ]
    assert last.damaged[0].rest


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named(tmp_path: Path, encoding: str) -> None:
    """PowerShell writes it: one sentence with the remedy, not a damaged line for each line."""
    path = tmp_path / "a.jsonl"
    path.write_bytes('{"response": "x"}\n{"response": "y"}\n'.encode(encoding))
    (chunk,) = read_chunks(str(path))
    (damaged,) = chunk.damaged
    assert damaged.reason == "UTF-16: convert it first, with iconv -f UTF-16 -t UTF-8"


def test_a_named_pipe_is_refused_and_a_process_substitution_is_read(tmp_path: Path) -> None:
    """The first would wait for ever; of the second no byte is lost to the look at its beginning."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="named pipe"):
        check_files([str(pipe)])
    reading, writing = os.pipe()
    os.write(writing, b'{"response": "x"}\n')
    os.close(writing)
    name = f"/dev/fd/{reading}"
    check_files([name])
    assert total_size([name]) is None
    (chunk,) = read_chunks(name)
    os.close(reading)
    assert len(chunk.items) == 1
    assert not chunk.damaged


@pytest.mark.parametrize(
    ("magic", "what"), [(b"\x28\xb5\x2f\xfd", "zstd"), (b"PK\x03\x04", "zip"), (b"BZh9", "bzip2")]
)
def test_other_compressions_are_named(tmp_path: Path, magic: bytes, what: str) -> None:
    """A file that cannot be read says what it is, once, not once a line of noise."""
    path = tmp_path / "x"
    path.write_bytes(magic + b"\n" * 20)
    found, damaged = scan(path)
    assert found == []
    assert len(damaged) == 1
    assert what in damaged[0]


@pytest.mark.parametrize("data", [b"", b"\n\n \n", b"[]", gzip.compress(b"", mtime=0)])
def test_nothing_in_it_is_no_damage(tmp_path: Path, data: bytes) -> None:
    """Empty files hold no requests and nothing broken."""
    path = tmp_path / "empty"
    path.write_bytes(data)
    assert scan(path) == ([], [])


def test_missing_files_and_folders_are_usage(tmp_path: Path) -> None:
    """Found out before the first file is read."""
    with pytest.raises(UsageError, match="cannot be read"):
        check_files([str(tmp_path / "absent.jsonl")])
    with pytest.raises(UsageError, match="is a folder"):
        check_files([str(tmp_path)])


_PREFIX = "(APIServer pid=7) INFO 11-21 20:00:01 "
LOG = "".join(
    f"{_PREFIX}{line}\n"
    for line in (
        "[utils.py:299] vLLM API server version 0.15.0",
        "[logger.py:66] Received request chatcmpl-1: prompt: 'Say \"hi\"\\n', params: SamplingParams(n=1, "
        "temperature=0.7, max_tokens=64, min_tokens=0), prompt_token_ids: None, lora_request: None.",
        "[loggers.py:123] Engine 000: Avg prompt throughput: 1.0 tokens/s",
        "[logger.py:99] Generated response chatcmpl-1 (streaming delta): output: 'Hi', "
        "output_token_ids: [5], finish_reason: None",
        "[logger.py:99] Generated response chatcmpl-1: output: 'Hi, \"you\"\\nthere', "
        "output_token_ids: [5, 6, 7], finish_reason: length",
        '[logger.py:99] Generated response chatcmpl-2 (streaming complete): output: "It\'s done", '
        "finish_reason: streaming_complete",
        "[logger.py:99] Generated response chatcmpl-3: output: 'cut",
    )
)


@pytest.mark.parametrize("as_json", [False, True])
def test_vllm_request_log(tmp_path: Path, as_json: bool) -> None:
    """Answers are joined with the caps of their requests; deltas and other lines are neither."""
    path = tmp_path / "vllm.log"
    text = LOG
    if as_json:
        text = "".join(json.dumps({"level": "INFO", "message": line}) + "\n" for line in LOG.splitlines())
    path.write_text(text, encoding="utf-8")
    found = []
    damaged = []
    for chunk in read_chunks(str(path)):
        damaged += [d.reason for d in chunk.damaged]
        for line, raw in chunk.items:
            found += parse_line(raw, "vllm.log", line, FieldMapping())
    first, second = found
    assert (first.id, first.text, first.finish_reason) == ("chatcmpl-1", 'Hi, "you"\nthere', "length")
    assert (first.max_tokens, first.completion_tokens, first.prompt_text) == (64, 3, 'Say "hi"\n')
    assert (second.text, second.finish_reason, second.completion_tokens) == ("It's done", None, None)
    assert damaged == ["a logged response that is cut or of another format"]


def test_a_record_in_a_vllm_log_is_read(tmp_path: Path) -> None:
    """One container's output with vLLM and the application in it: the records were passed over in silence."""
    path = tmp_path / "container.log"
    path.write_bytes(LOG.encode().replace(b"output: 'cut", b"output: 'whole', finish_reason: stop") + LINES)
    found, damaged = scan(path)
    assert sorted(found)[: len(ALL)] == ALL
    assert "chatcmpl-1" in found
    assert damaged == []


def test_a_vllm_log_without_answers_says_what_it_needs(tmp_path: Path) -> None:
    """The most likely mistakes: a log of requests only, and one of neither."""
    path = tmp_path / "vllm.log"
    engine = "INFO 11-22 06:00:01 [loggers.py:123] Engine 000: Avg prompt throughput: 12.3 tokens/s\n" * 3
    composed = "vllm-1  | INFO 11-22 06:00:01 [__init__.py:239] Automatically detected platform cuda.\n"
    own_layout = "2026-11-22T06:00:01Z INFO vllm.engine.core: started\n"
    servers = (engine, f"(APIServer pid=4711) {engine}", composed, own_layout)
    for log in ("\n".join(LOG.splitlines()[:3]), *servers):
        path.write_text(log, encoding="utf-8")
        found, damaged = scan(path)
        assert found == []
        assert len(damaged) == 1
        assert "--enable-log-outputs" in damaged[0]


def test_a_page_about_vllm_is_no_log_of_it(tmp_path: Path) -> None:
    """A README was "a vLLM log without answers", with a hint on the options of a server."""
    path = tmp_path / "README.md"
    path.write_text("# notes\n\nA model served by vLLM can look healthy.\n`vllm serve` has more info.\n")
    found, damaged = scan(path)
    assert found == []
    assert all("not JSON" in reason for reason in damaged)


@pytest.mark.parametrize("mark", ["Received request 7: ", "Generated response 7: output: 'x'"])
@pytest.mark.parametrize("form", ["lines", "array", "pretty"])
def test_an_answer_about_vllms_log_is_no_log(tmp_path: Path, mark: str, form: str) -> None:
    """Answers that quote the log's own words are records: taken for a log, the whole file was dropped."""
    rows = [{**row, "message": f"why {mark}?", "text": f"{row['text']} {mark}"} for row in ROWS]
    texts = {"lines": "\n".join(map(json.dumps, rows)), "array": json.dumps(rows)}
    path = tmp_path / "a.jsonl"
    path.write_text(texts.get(form, json.dumps(rows, indent=1)), encoding="utf-8")
    assert scan(path) == (ALL, [])


def test_a_line_of_the_vllm_log_may_quote_the_log(tmp_path: Path) -> None:
    """Prompts and answers hold what users write: a quoted line of the log is neither an answer nor a cap, and
    many of them cost no more than other text."""
    quoted = "Generated response a: output: , output_token_ids: [, finish_reason: max_tokens=7 prompt: '"
    many = quoted * 4_000
    lines = [
        f"INFO 11-21 20:00:00 [logger.py:40] Received request r1: prompt: {many!r}, params: "
        "SamplingParams(max_tokens=90), lora_request: None.",
        f"INFO 11-21 20:00:01 [logger.py:62] Generated response r1: output: {many!r}, "
        "output_token_ids: [1, 2, 3], finish_reason: stop",
        f"INFO 11-21 20:00:02 [logger.py:62] Generated response r2: output: {many}",
    ]
    path = tmp_path / "vllm.log"
    path.write_text("\n".join(lines))
    (read,) = read_chunks(str(path))
    ((line, raw),) = read.items
    (record,) = parse_line(raw, read.source, line, FieldMapping())
    assert (record.id, record.text, record.prompt_text) == ("r1", many, many)
    assert (record.max_tokens, record.completion_tokens, record.finish_reason) == (90, 3, "stop")
    assert len(read.damaged) == 1


def test_a_line_of_very_many_values_is_damaged(tmp_path: Path) -> None:
    """Sixty megabytes of short strings took 2.4 GB as Python objects."""
    path = tmp_path / "many.jsonl"
    record = b'{"response": "a", "messages": [' + b'"a",' * (MAX_VALUES + 1) + b'"a"]}'
    path.write_bytes(record + b"\n" + LINES)
    found, damaged = scan(path)
    assert found == ALL
    assert "more than 3,000,000 values" in damaged[0]


@pytest.mark.parametrize("colon", [b":", b" :", b"\t :"])
def test_a_line_of_very_many_keys_is_damaged(colon: bytes, tmp_path: Path) -> None:
    """Jackson's pretty printer writes `"key" : value`: 27 MB of such keys took a gigabyte."""
    path = tmp_path / "many.jsonl"
    record = b'{"response": "a", "more": {' + b'"a"%b1,' % colon * (MAX_KEYS + 1) + b'"b": 1}}'
    path.write_bytes(record + b"\n" + LINES)
    found, damaged = scan(path)
    assert found == ALL
    assert "more than 1,500,000 keys" in damaged[0]


@pytest.mark.parametrize(
    ("written", "count"), [("1,000", 1_000), ("12,345", 12_345), (" 1 000 ", 1_000), ("480", 480), (7.0, 7)]
)
def test_counts_with_a_thousands_separator_are_counts(written: object, count: int) -> None:
    """Only the answers of a thousand tokens or more were left out: the loops."""
    assert as_token_count(written) == count


@pytest.mark.parametrize("written", ["1,00", "1.000", "1,000.5", "-1", "many"])
def test_what_may_be_another_number_is_no_count(written: object) -> None:
    """In some countries a dot groups figures, in others it begins a fraction."""
    with pytest.raises(UnreadableError):
        as_token_count(written)


def test_a_line_with_what_is_no_number_is_read() -> None:
    """Loggers in Python write NaN where a model overflows: the floods were in damaged lines."""
    raw = b'{"response": "!!!!", "logprobs": [NaN, -Infinity], "half": "\\ud83d"}'
    [record] = parse_line(raw, "f", 1, FieldMapping())
    assert record.text == "!!!!"
