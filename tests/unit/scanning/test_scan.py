"""`scan` as a workflow: verdicts in order, the same with any number of workers, on the right scale."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.detectors.screening.screen import OPEN_TAIL
from stresstest.errors import UsageError
from stresstest.model import RIGORS, Message, SymptomKind
from stresstest.model.scanned import OTHER_LANGUAGE, Extent, ScanResult, ScanVerdict
from stresstest.records import FieldMapping, Record, RecordChunk, parse_fields, parse_line, source
from stresstest.records.record import RawRecord
from stresstest.scanning import detect_chunk as scan_chunk
from stresstest.scanning import pool as scan_pool
from stresstest.scanning.answer.verdict import detect_records
from stresstest.scanning.detect_chunk import ChunkVerdicts
from stresstest.scanning.interrupts import hold_interrupts
from stresstest.scanning.job import GroupKey, GroupLanguages, ScanJob
from stresstest.scanning.position_scale import is_implausible
from stresstest.scanning.scan import ScanSettings, extract_with_verdicts, scan
from stresstest.scanning.scan_state import ScanState
from stresstest.scanning.tally import GroupTally, ScanTally
from stresstest.scanning.texts_read import TextsRead
from tests.support.foreign_texts import ITALIAN
from tests.support.paths import ROOT
from tests.support.scanned_files import LOOPING, Heard, corpus, write
from tests.support.stories import LOOP, story


def run(*files: str, **more: Any) -> ScanResult:
    job = more.pop("job", ScanJob(language="en"))
    return scan(ScanSettings(files=files, job=job, **{"workers": 1, **more}), Heard())


def test_groups_rates_and_verdicts_in_order(tmp_path: Path) -> None:
    """The whole way: groups by key, lowest rate first, one verdict line a request in input order."""
    path = write(tmp_path / "a.jsonl", corpus(160))
    out = tmp_path / "verdicts.jsonl"
    result = run(
        path, job=ScanJob(parse_fields([], ["model"]), ("model",), "en"), out=str(out), rigor="quick"
    )
    assert (result.requests, result.damaged) == (160, 0)
    healthy, failing = result.groups
    assert (healthy.key, healthy.degenerate, healthy.rate) == ({"model": "a"}, 0, 0.0)
    assert (failing.key, failing.degenerate, failing.rate) == ({"model": "b"}, 20, 0.25)
    assert failing.rate_ci == pytest.approx((0.1599, 0.3594), abs=1e-3)
    assert failing.symptoms == {"loop": 20}
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [line["id"] for line in lines] == [f"r{i}" for i in range(160)]
    keys = "id degenerate symptom onset_char onset_token alarm_char loops_to_end recovered score"
    assert list(lines[1]) == keys.split()
    first = lines[1]
    start = len(story(2, seed=1)) + len(f" {LOOP}") + 1
    assert first["onset_char"] == start
    assert (first["degenerate"], first["symptom"], first["loops_to_end"]) == (True, "loop", True)
    assert first["onset_token"] is None
    assert first["alarm_char"] > start


@pytest.mark.slow
def test_any_number_of_workers_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes change the time, never the answer nor the order."""
    monkeypatch.setattr(source, "CHUNK_BYTES", 4000)
    monkeypatch.setattr(scan_pool, "MAX_SERIAL_CHUNKS", 1)
    path = write(tmp_path / "a.jsonl", corpus(60))
    outs = [tmp_path / "1", tmp_path / "2"]
    results = [run(path, workers=n, out=str(out)) for n, out in zip((1, 3), outs, strict=True)]
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert results[0].groups == results[1].groups


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "heavy"), [(2, 1), (3, scan_pool.MAX_BYTES_IN_FLIGHT)])
def test_workers_tell_the_groups_languages_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, heavy: int
) -> None:
    """What a group is written in is told by whoever is free, file by file, with the same outcome: from fresh
    processes and from forked ones, with many chunks handed out and with one at a time."""
    monkeypatch.setattr(source, "CHUNK_BYTES", 4000)
    monkeypatch.setattr(scan_pool, "MAX_BYTES_IN_FLIGHT", heavy)
    italian = "Il mare era calmo e la barca tornava piano verso il porto, mentre le donne aspettavano. "
    rows = corpus(24)
    rows += [{"model": "c", "text": italian.replace("calmo", f"calmo {n}") * 3} for n in range(8)]
    files = [write(tmp_path / f"{n}.jsonl", rows[n::4]) for n in range(4)]
    job = ScanJob(FieldMapping(keys=("model",)), ("model",))
    alone, together = (run(*files, job=job, workers=n) for n in (1, workers))
    assert alone.groups == together.groups
    assert {group.key["model"]: set(group.languages) for group in alone.groups}["c"] == {"it"}


def test_no_line_is_parsed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records that tell a file's languages are the ones that are judged, and what a feature needs of them
    is extracted where they are."""
    monkeypatch.setattr(source, "CHUNK_BYTES", 4000)
    parsed: list[int] = []

    def counted(raw: RawRecord, name: str, line: int, mapped: FieldMapping) -> list[Record]:
        parsed.append(line)
        return parse_line(raw, name, line, mapped)

    monkeypatch.setattr(scan_chunk, "parse_line", counted)
    path = write(tmp_path / "a.jsonl", corpus(24))
    found = extract_with_verdicts([path], ScanJob(), extracted, Heard(), workers=1)
    assert [line for line, _ in found] == parsed == list(range(1, 25))


def extracted(record: Record, verdict: ScanVerdict) -> tuple[int, bool]:
    return record.line, verdict.degenerate


@pytest.mark.slow
def test_what_is_extracted_in_workers_comes_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pairs from any number of workers."""
    monkeypatch.setattr(source, "CHUNK_BYTES", 4000)
    path = write(tmp_path / "a.jsonl", corpus(24))
    alone, together = (
        list(extract_with_verdicts([path], ScanJob(), extracted, Heard(), workers=n)) for n in (1, 3)
    )
    assert alone == together
    assert len(together) == 24


@pytest.mark.slow
def test_a_group_that_begins_late_is_told_by_its_first_answers_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of several models one after the other: the later ones' languages are told once a chunk, not once
    an answer, with any number of workers."""
    monkeypatch.setattr(source, "CHUNK_BYTES", 4000)
    rows = [{"model": model, "text": story(3, seed=n)} for model in "ab" for n in range(12)]
    path, job = write(tmp_path / "a.jsonl", rows), ScanJob(FieldMapping(keys=("model",)), ("model",))
    alone, together = (run(path, job=job, workers=n) for n in (1, 3))
    assert alone.groups == together.groups
    for group in alone.groups:
        assert group.languages == {"en": 12}
        assert group.language_sources.get("answer", 0) < 3


@pytest.mark.slow
def test_who_only_counts_holds_no_language_model(tmp_path: Path) -> None:
    """Memory is bounded by the workers: this process neither loads models nor starts itself again in them."""
    path = write(tmp_path / "a.jsonl", corpus(24))
    code = (
        "import sys\n"
        "from stresstest.records import source\n"
        "from stresstest.scanning.scan import ScanSettings, scan\n"
        "from tests.support.scanned_files import Heard\n"
        "if __name__ != '__main__': raise SystemExit('loaded again')\n"
        "source.CHUNK_BYTES = 4000\n"
        f"print(scan(ScanSettings(files=({path!r},), workers=2), Heard()).requests)\n"
        "print(sorted({'py3langid', 'langdetect'} & set(sys.modules)))\n"
    )
    script = tmp_path / "counting.py"
    script.write_text(code, encoding="utf-8")
    root = ROOT
    env = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=env, check=False)
    assert done.stdout == "24\n[]\n", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 3])
def test_workers_leave_with_a_parent_that_is_killed(tmp_path: Path, workers: int) -> None:
    """Out of memory or `kill -9`: no process with models in it may stay behind, fresh or forked."""
    code = (
        "import multiprocessing as mp\n"
        "from stresstest.records import RecordChunk\n"
        "from stresstest.scanning.job import ScanJob\n"
        "from stresstest.scanning.pool import detect_chunks\n"
        "work = ((RecordChunk('a', ((1, b'{}'),) * 5000), False) for _ in iter(int, 1))\n"
        "told = False\n"
        f"for _ in detect_chunks(work, ScanJob(), {workers}):\n"
        "    children = mp.active_children()\n"
        f"    if not told and len(children) == {workers}:\n"  # they are started as they are needed
        "        print(*(child.pid for child in children), flush=True)\n"
        "        told = True\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env=env, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        children = [int(pid) for pid in process.stdout.readline().split()]
        process.kill()
    assert len(children) == workers
    ended = time.monotonic() + 60
    while any(map(_runs, children)) and time.monotonic() < ended:
        time.sleep(0.05)
    assert not any(map(_runs, children))


@pytest.mark.slow
def test_an_interrupted_scan_leaves_no_worker_at_work(tmp_path: Path) -> None:
    """Workers ignore Ctrl-C: a script that was interrupted hung at its end until long answers were judged."""
    words = [f"the keeper of lamp {n * 7} climbed stair {n * n % 997} and wrote" for n in range(30_000)]
    rows = [{"response": " ".join(words[n:]), "finish_reason": "stop"} for n in range(8)]
    path = write(tmp_path / "long.jsonl", rows)
    code = (
        "import multiprocessing as mp, os, signal, stresstest, threading, time\n"
        "workers = []\n"
        "def stop():\n"
        "    while len(mp.active_children()) < 2: time.sleep(0.05)\n"
        "    workers.extend(child.pid for child in mp.active_children())\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "    threading.Thread(target=stop, daemon=True).start()\n"
        f"    print(stresstest.scan({path!r}, language='en', workers=2).interrupted, *workers, flush=True)\n"
        "    input()\n"
    )
    script = tmp_path / "s.py"
    script.write_text(code)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    ) as process:
        assert process.stdout is not None
        interrupted, *workers = process.stdout.readline().split()
        ended = time.monotonic() + 5
        while any(_runs(int(pid)) for pid in workers) and time.monotonic() < ended:
            time.sleep(0.02)
        at_work = [pid for pid in workers if _runs(int(pid))]
        process.kill()
    assert (interrupted, len(workers), at_work) == ("True", 2, [])


@pytest.mark.slow
def test_groups_by_how_answers_ended_certify_nothing(tmp_path: Path) -> None:
    """No loop ends by itself: the group of those that did certified 999 tokens where T was 200."""
    rows = [{**row, "finish_reason": "length" if n % 4 == 1 else "stop"} for n, row in enumerate(corpus(120))]
    path = write(tmp_path / "a.jsonl", rows)
    by_model = run(path, rigor="quick", job=ScanJob(keys=("model",), language="en"))
    assert any(group.threshold.certified for group in by_model.groups)
    by_end = run(path, rigor="quick", job=ScanJob(keys=("model", "finish_reason"), language="en"))
    assert len(by_end.groups) > 2
    assert {(group.threshold.certified, group.safe_max_tokens) for group in by_end.groups} == {(False, None)}
    assert all("grouping by finish_reason" in str(group.threshold.lacking) for group in by_end.groups)


def test_a_slow_input_is_judged_as_it_comes() -> None:
    """Every chunk that was read is judged while the next one is not there yet: a pipe may stay silent."""
    judged_already = threading.Event()

    def slow() -> Iterator[scan_pool.ChunkWork]:
        for n in range(5):
            yield RecordChunk(f"c{n}", ((1, b'{"text": "Good."}'),)), False
        assert judged_already.wait(60), "nothing is judged before there is more to read"
        yield RecordChunk("last", ((1, b'{"text": "Good."}'),)), False

    batches = scan_pool.detect_chunks(slow(), ScanJob(language="en"), 3)
    assert [next(batches).source for _ in range(5)] == [f"c{n}" for n in range(5)]
    judged_already.set()
    assert [batch.source for batch in batches] == ["last"]


def test_ctrl_c_keeps_what_is_judged() -> None:
    """The batches that are done are given out before it is raised again, up to the first that is not."""

    def stop() -> scan_pool.ChunkWork | None:
        raise KeyboardInterrupt

    running: scan_pool._Running = deque((1, Future()) for _ in range(4))
    for n in (0, 1, 3):
        running[n][1].set_result(ChunkVerdicts((), (), 0, 0, str(n), TextsRead()))
    found = []
    with pytest.raises(KeyboardInterrupt):
        for batch in scan_pool._parallel(iter(stop, None), running, ScanJob(), 2):
            found.append(batch.source)
    assert found == ["0", "1"]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C is heard here, also where these tests run as a shell's background job, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("lines", [1, 5, 20, 60, 150, 400, 1000])
def test_ctrl_c_never_halves_an_answer(tmp_path: Path, lines: int) -> None:
    """Wherever in the adding of a batch it arrives, every count holds the whole batch, and the file too."""
    path = write(tmp_path / "a.jsonl", corpus(20))
    traced = 0

    def inside(frame: Any, event: str, _: Any) -> Any:
        nonlocal traced
        traced += event == "line"
        if traced == lines and event == "line":
            signal.raise_signal(signal.SIGINT)
        return inside

    def calls(frame: Any, _event: str, _: Any) -> Any:
        callers = frame
        while callers is not None and callers.f_code is not ScanState.add_batch.__code__:
            callers = callers.f_back
        return inside if callers is not None and "stresstest" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(calls)
    try:
        result = run(path, job=ScanJob(keys=("model",), language="en"), out=str(tmp_path / "out.jsonl"))
    finally:
        sys.settrace(before)
    assert traced > lines
    assert result.interrupted
    assert result.requests == sum(group.requests for group in result.groups) == 20
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 20


@pytest.mark.usefixtures("interruptible")
def test_a_second_ctrl_c_does_not_wait() -> None:
    """The first is held until the step is done; a step that hangs can still be ended."""
    steps = []
    with pytest.raises(KeyboardInterrupt), hold_interrupts():
        signal.raise_signal(signal.SIGINT)
        steps.append("held")
        signal.raise_signal(signal.SIGINT)
        steps.append("not reached")
    assert steps == ["held"]


def test_what_cannot_be_read_is_raised_where_it_is_waited_for() -> None:
    """The thread that reads keeps no error for itself."""

    def broken() -> Iterator[scan_pool.ChunkWork]:
        yield RecordChunk("c", ()), False
        raise UsageError("broken")

    with pytest.raises(UsageError, match="broken"):
        list(scan_pool.detect_chunks(broken(), ScanJob(), 3))


def _runs(pid: int) -> bool:
    """A process that nobody has waited for yet does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return not stat.rpartition(")")[2].startswith(" Z")


def test_started_processes_do_not_hear_ctrl_c() -> None:
    """Not even while they load: the mask is inherited. Afterwards this process hears it as before."""
    main = sys.modules["__main__"]
    with scan_pool._signals_blocked():
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert sys.modules["__main__"] is main


@given(
    sizes=st.lists(st.integers(0, 4), max_size=6), look=st.integers(0, 5), slow=st.sets(st.integers(0, 24))
)
def test_reading_ahead_changes_no_language(sizes: list[int], look: int, slow: set[int]) -> None:
    """Every chunk once, in order, with what the files up to its own have told; the first to tell counts.

    Where the input is slow (None), all that came before is out.
    """
    chunks = [(n, i) for n, size in enumerate(sizes) for i in range(size)]
    works: list[tuple[RecordChunk, bool] | None] = [(RecordChunk(f"{n}.{i}", ()), i == 0) for n, i in chunks]
    for at in sorted(slow, reverse=True):
        works[at:at] = [None]

    def tell(
        chunk: RecordChunk, known: Collection[GroupKey]
    ) -> Callable[[], tuple[GroupLanguages, RecordChunk]]:
        file = int(chunk.source.split(".")[0])
        told = {("all",): f"l{file}", (str(file),): "it"}
        return lambda: ({group: language for group, language in told.items() if group not in known}, chunk)

    told = list(scan_pool._with_languages(iter(works), tell, look))
    for at in (n for n, each in enumerate(works) if each is None):
        assert [each is None for each in told[: at + 1]] == [each is None for each in works[: at + 1]]
    found = [each for each in told if each is not None]
    named = [chunk.source for chunk, _ in found if isinstance(chunk, RecordChunk)]
    assert named == [f"{n}.{i}" for n, i in chunks]
    first = chunks[0][0] if chunks else 0
    for (n, _), (_, languages) in zip(chunks, found, strict=True):
        seen = {m for m, _ in chunks if m <= n}
        assert languages == {("all",): f"l{first}", **{(str(m),): "it" for m in seen}}


def test_all_groups_together_stay_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many groups must not keep many times what one may: the largest is thinned, and every rate stands."""
    monkeypatch.setattr("stresstest.scanning.tally.MAX_KEPT_OUTPUTS", 100)
    monkeypatch.setattr("stresstest.scanning.tally._TRIM_INTERVAL", 10)
    tallies = ScanTally(("model",), 0)
    for n in range(1000):
        group = "large" if n % 4 else str(n % 3)
        failing = SymptomKind.LOOP if n % 5 == 0 else None
        onset = 7 if failing else None
        extent = Extent(50, 6 if failing else 50, onset)
        tallies.add(ScanVerdict(str(n), (group,), extent, symptom=failing, identity=n + 1))
    results = {group.key["model"]: group for group in tallies.results(RIGORS["quick"], 0.1, by_length=False)}
    assert sum(group.sampled or group.requests for group in results.values()) <= 110
    assert (results["large"].requests, results["large"].degenerate) == (750, 150)
    assert results["large"].sampled


def test_damage_is_counted_named_and_never_fatal_unless_strict(tmp_path: Path) -> None:
    """The first few by file and line; --strict stops at the first."""
    path = tmp_path / "a.jsonl"
    good = json.dumps({"text": "Good."})
    path.write_text("\n".join([good, "{", *["nonsense"] * 8, good]), encoding="utf-8")
    heard = Heard()
    result = scan(ScanSettings((str(path),), ScanJob(language="en"), workers=1), heard)
    assert (result.requests, result.damaged) == (2, 9)
    assert len(heard.lines) == len(result.damaged_examples) == 5
    assert heard.lines[0].startswith(f"{path}:2: not JSON")
    assert heard.done == [path.stat().st_size]
    with pytest.raises(UsageError, match=r"a\.jsonl:2: not JSON"):
        run(str(path), strict=True)


def test_out_must_not_be_an_input(tmp_path: Path) -> None:
    """Writing verdicts over the records would destroy what cannot be generated again."""
    path = write(tmp_path / "a.jsonl", corpus(3))
    before = Path(path).read_bytes()
    with pytest.raises(UsageError, match="also an input file"):
        run(path, out=path)
    assert Path(path).read_bytes() == before


def test_dharma_needs_to_know_the_cap(tmp_path: Path) -> None:
    """Their rate: ended by the cap and the tail stands four times; known caps only."""
    text = story(2) + LOOPING
    rows: list[dict[str, Any]] = [
        {"text": text, "finish_reason": "length"},
        {"text": text, "finish_reason": "stop"},
        {"text": text, "completion_tokens": 600, "max_tokens": 600},
        {"text": text, "completion_tokens": 500, "max_tokens": 600},
        {"text": text},
    ]
    (group,) = run(write(tmp_path / "a.jsonl", rows)).groups
    assert (group.dharma_known, group.dharma_rate, group.degenerate) == (4, 0.5, 5)
    (unknown,) = run(write(tmp_path / "b.jsonl", rows[-1:])).groups
    assert unknown.dharma_rate is None


def judged(text: str, **more: Any) -> Any:
    return detect_records([Record("x", "f", 1, text, **more)], ScanJob(language="en"), {})[0]


@pytest.mark.parametrize(
    ("finish", "factor", "unresolved"),
    [
        pytest.param("length", 1.0, False, id="as much text as tokens"),
        pytest.param("length", 2.1, True, id="half of the text is gone"),
        pytest.param("stop", 2.1, False, id="it ended by itself"),
    ],
)
def test_what_the_log_cut_off_is_not_healthy(finish: str, factor: float, unresolved: bool) -> None:
    """A log that keeps the first characters of every answer keeps no loop that follows: its count tells that
    the text is not whole, and nothing beyond the text is certified."""
    text = story(12)
    counted = int(len(text) / 4 * factor)
    found = judged(text, completion_tokens=counted, finish_reason=finish)
    assert (found.degenerate, found.unresolved) == (False, unresolved)
    assert found.tokens.observed <= len(text) // 4


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"text": story(4) + "\n"}, {"text": story(4)}, True),
        ({"text": story(4).replace("\n", "\r\n")}, {"text": story(4)}, True),
        ({"text": story(4), "reasoning": "I think."}, {"text": story(4)}, True),
        ({"text": "Yes.", "reasoning": story(4)}, {"text": "Yes.", "reasoning": story(5, seed=2)}, False),
        ({"text": story(4)}, {"text": story(5)}, False),
    ],
)
def test_one_answer_as_two_loggers_write_it(one: dict[str, str], other: dict[str, str], same: bool) -> None:
    """The gateway keeps the line break at its end, the application strips it: a gate passed on half of the
    evidence."""
    assert (judged(**one).digest == judged(**other).digest) is same


def test_a_number_of_tokens_that_no_model_writes_is_not_counted() -> None:
    """One healthy answer with an epoch second for its count made 18 % of wasted tokens 0 %; hidden reasoning
    of a length that models reach still counts."""
    text = story(6)
    assert judged(text, completion_tokens=1_760_000_000).tokens.length == len(text) // 6
    assert judged(text, completion_tokens=30_000).tokens.length == 30_000


@pytest.mark.parametrize(
    ("finish", "broken", "lost"),
    [
        ("quota_reached", True, True),
        ("quota_reached", False, False),
        ("tool_calls", True, False),
        ("completed", True, False),
    ],
)
def test_a_word_that_nobody_knows_beside_a_text_that_breaks_off(
    finish: str, broken: bool, lost: bool
) -> None:
    """Services have words of their own for answers that they gave up; a gate passed with 60 % of them."""
    text = story(6).rstrip(".") + (" and then" if broken else ".")
    found = judged(text, finish_reason=finish)
    assert (found.lost, found.degenerate) == (lost, False)


@pytest.mark.parametrize("finish", ["stop", "length", None])
def test_a_text_that_the_log_cuts_is_no_truncation(finish: str | None) -> None:
    """`response[:1000]` of 120 healthy answers that ended by themselves were 74 truncations: 62 % instead of
    0 %, a regression, and 94 % "measured" in `cost`."""
    text = story(12)[:1000].rstrip(".")
    for kept in (0, 20):
        found = judged(text, finish_reason=finish, has_text=False, hole=len(text) - kept)
        assert found.symptom is (SymptomKind.TRUNCATION if kept and finish == "stop" else None)
        assert (found.unseen, found.ended) == (not found.degenerate, False)


@pytest.mark.parametrize(
    ("text", "finish", "whole", "looping"),
    [
        (LOOPING, "length", True, True),
        (LOOPING, "length", False, True),
        (LOOPING, "stop", True, False),
        (LOOPING, None, True, None),
        ("", "length", True, False),
        ("", "length", False, None),
        ("", "stop", False, False),
    ],
)
def test_a_cap_that_ended_a_loop(text: str, finish: str | None, whole: bool, looping: bool | None) -> None:
    """Of 41 loops that a log had cut to 4,000 characters `cost` counted two, and "measured" 0.6 % for 10.2 %:
    what its log cut may have looped, and what was not cut by its cap did not end by it."""
    found = judged(story(2) + text, finish_reason=finish, has_text=whole)
    assert found.ended_looping is looping


@pytest.mark.parametrize(
    ("text", "bytes_a_token"),
    [
        pytest.param("def f(x):\n    return [x[i] for i in (0, 1, 2)]\n" * 40, 2.4, id="code"),
        pytest.param("0f9e4a1b77c2d3e8" * 200, 1.1, id="digits and letters"),
        pytest.param("ACGTTGCATGCCGATA" * 200, 1.9, id="capitals"),
        pytest.param("Müdürlüğümüzün çalışanlarına teşekkür ediyoruz. " * 40, 1.9, id="Turkish"),
        pytest.param("海は静かで、舟はゆっくりと港へ戻った。" * 40, 1.5, id="Japanese"),
    ],
)
def test_dense_text_is_not_taken_for_a_cut_one(text: str, bytes_a_token: float) -> None:
    """The bound holds for a poor tokenizer too, in whatever a model writes."""
    assert not is_implausible(int(len(text.encode()) / bytes_a_token), text)


def test_completion_tokens_are_spread_over_the_text() -> None:
    """An estimate, labelled, never beyond the count, and never later than the text allows."""
    text = story(2) + LOOPING
    few = len(text) // 7
    found = judged(text, completion_tokens=few)
    assert found.token_source == "estimate"
    share = found.onset_char / len(text)
    assert found.tokens.length == few
    assert found.tokens.onset == int(few * share) + 1
    assert found.tokens.observed == found.tokens.onset - 1
    assert judged(text).tokens is None
    healthy = judged(story(3), completion_tokens=400, finish_reason="stop")
    assert healthy.tokens == Extent(400, 400)
    hidden = judged(text, completion_tokens=90_000).tokens
    assert (hidden.length, hidden.onset <= int(len(text) / 6 * share) + 1) == (90_000, True)


def test_a_flood_of_signs_is_not_dated_by_its_own_density() -> None:
    """1,000 tokens of prose, then 3,000 of "!": spread over the bytes, it would begin at token 2,200, and a
    cap there would be certified. Other answers of the log tell what prose takes; else six bytes a token."""
    prose = story(60, seed=1)[:4400]
    flooded = Record("x", "f", 1, prose + "!" * 3000, completion_tokens=4000)
    others = [story(20, seed=n) for n in range(9)]
    healthy = [
        Record(str(n), "f", n, text, finish_reason="stop", completion_tokens=len(text) // 5)
        for n, text in enumerate(others)
    ]
    alone, among = (
        detect_records(records, ScanJob(language="en"), {})[0] for records in ([flooded], [flooded, *healthy])
    )
    assert alone.tokens is not None
    assert among.tokens is not None
    assert alone.tokens.onset in range(650, 740)
    assert among.tokens.onset in range(830, 882)
    assert alone.tokens.length == among.tokens.length == 4000


@pytest.mark.parametrize("model", ["m1", "m2"])
def test_a_failure_is_dated_by_answers_of_its_own_kind(model: str) -> None:
    """Among invoices, which have twice as many tokens a byte, a story's onset was dated at 2.5 times its
    place, and a limit of 533 certified where 209 was safe."""
    prose = story(20, seed=1)[:2000]
    flooded = Record("x", "f", 1, prose + "!" * 3000, completion_tokens=3400, model="m1")
    told, dense = [], []
    for n in range(9):
        text = story(12, seed=n)
        told.append(Record(f"s{n}", "f", n, text, completion_tokens=len(text) // 5, model="m1"))
    for n in range(900):
        text = json.dumps({"id": n, "total": n * 37, "tax": n * 7, "paid": [n, 2 * n, 3 * n]})
        dense.append(Record(f"i{n}", "f", n, text, completion_tokens=len(text) // 2, model=model))
    near, far = (
        detect_records([flooded, *each], ScanJob(language="en"), {})[0] for each in ([*told, *dense], told)
    )
    assert near.tokens == far.tokens
    assert near.tokens is not None
    assert near.tokens.onset in range(380, 402)


@pytest.mark.parametrize("summed", [True, False])
def test_sums_of_running_counts_are_no_counts(tmp_path: Path, summed: bool) -> None:
    """LangChain.js added up what Gemini's streams tell so far: a limit of 425 tokens was certified where
    loops begin at 281."""
    texts = [story(1 + n % 12, seed=n) for n in range(40)]
    counts = [len(text) // 5 for text in texts]
    if summed:
        counts = [sum(min(told, n) for told in range(30, n + 30, 30)) for n in counts]
    rows = [
        {"response": text, "completion_tokens": n, "finish_reason": "stop"}
        for text, n in zip(texts, counts, strict=True)
    ]
    (group,) = run(write(tmp_path / "a.jsonl", rows)).groups
    told = ("words", 40, 40) if summed else ("tokens (estimate)", 0, 0)
    assert (group.unit, group.uncounted, group.sums) == told


@pytest.mark.parametrize(("factor", "unit"), [(1, "tokens (estimate)"), (2, "words")])
def test_counts_beyond_their_caps_are_another_tokenizers(tmp_path: Path, factor: int, unit: str) -> None:
    """LiteLLM counts a stream without usage with cl100k, which makes twice as many tokens of Arabic as the
    model's: a limit of twice the true one was certified."""
    rows = [
        {
            "response": story(4, seed=n) + " and then again it rained." * (60 if n < 5 else 0),
            "completion_tokens": factor * (500 if n < 5 else 120),
            "max_tokens": 500,
            "finish_reason": "length" if n < 5 else "stop",
        }
        for n in range(40)
    ]
    (group,) = run(write(tmp_path / "a.jsonl", rows)).groups
    assert (group.unit, group.at_cap, group.beyond_cap) == (unit, 5 * (factor == 1), 5 * (factor == 2))


@pytest.mark.parametrize(("confirmed", "unit"), [(30, "tokens (estimate)"), (5, "words")])
def test_a_group_of_two_tokenizers_is_one_of_words(confirmed: int, unit: str) -> None:
    """One count in thirty may be a typo; one in six is a second model's, or another gateway's."""
    tally = GroupTally(at_cap=confirmed, beyond_cap=1, sources=Counter(["estimate"] * 40))
    assert tally.unit == unit


def test_an_empty_answer_without_a_count_takes_no_tokens_from_its_group(tmp_path: Path) -> None:
    """It has none: the others' counts stand. A text without a count still makes the group one of words."""
    rows = [
        {"response": story(3, seed=i), "completion_tokens": 400, "finish_reason": "stop", "model": "a"}
        for i in range(4)
    ]
    blank = {"response": "", "finish_reason": "stop", "model": "a"}
    (group,) = run(write(tmp_path / "a.jsonl", [*rows, blank])).groups
    assert (group.unit, group.total, group.uncounted, group.empty) == ("tokens (estimate)", 1600, 0, 1)
    uncounted = {"response": story(3), "finish_reason": "stop", "model": "a"}
    (group,) = run(write(tmp_path / "b.jsonl", [*rows, uncounted])).groups
    assert (group.unit, group.uncounted) == ("words", 1)
    assert judged("").tokens == Extent(0, 0)
    assert judged("", completion_tokens=7).tokens == Extent(7, 0)


def test_a_records_own_tokens_are_exact() -> None:
    """With logprobs the positions are the model's, and characters and words still fit the text."""
    from stresstest.model import Token

    text = story(2) + LOOPING
    pieces = [text[i : i + 3] for i in range(0, len(text), 3)]
    found = judged(text, tokens=tuple(Token(piece) for piece in pieces))
    assert found.token_source == "record"
    assert found.tokens.length == len(pieces)
    assert abs(found.onset_char - 3 * (found.tokens.onset - 1)) <= 3
    plain = judged(text)
    assert found.words.length == plain.words.length
    assert abs(found.words.onset - plain.words.onset) <= 8


def test_reasoning_counts_as_tokens_but_not_as_text() -> None:
    """A loop in the thoughts is a loop; its place is no character of the answer."""
    found = judged("Yes.", reasoning=story(1) + LOOPING, completion_tokens=500)
    assert found.symptom == "loop"
    assert found.onset_char is None
    assert found.tokens.onset > 1
    answer = judged(story(1) + LOOPING, reasoning="Let me think. " * 3)
    assert answer.onset_char == judged(story(1) + LOOPING).onset_char


@pytest.mark.parametrize(
    ("more", "unresolved", "ended"),
    [
        ({"finish_reason": "content_filter"}, True, False),
        ({"finish_reason": "length"}, False, False),
        ({"finish_reason": "MAX_TOKENS"}, False, False),
        ({"finish_reason": "abort"}, True, False),
        ({"finish_reason": "repetition"}, True, False),
        ({}, False, False),
        ({"finish_reason": "timeout"}, True, False),
        ({"finish_reason": "tool_calls"}, True, False),
        ({"completion_tokens": 90, "max_tokens": 90}, False, False),
    ],
)
def test_what_stopped_an_output_with_an_open_end(more: dict[str, Any], unresolved: bool, ended: bool) -> None:
    """What the service stopped may have been failing, and the service may have seen it. A cap knows nothing
    of the text, and without a known reason a text that breaks off counts as capped."""
    found = judged(story(4) + "\n\nAnd then the keeper walked to the", **more)
    assert (found.symptom, found.unresolved, found.ended) == (None, unresolved, ended)
    assert found.words.observed == max(found.words.length - OPEN_TAIL, 0)


def test_what_a_cap_leaves_open_for_long_is_in_doubt() -> None:
    """A failure that began long before the cap and was about to be seen is not counted as health."""
    foreign = "Il mare era calmo e la barca tornava piano verso il porto mentre le donne aspettavano "
    for reason in ("length", None):
        found = judged(story(12) + " " + foreign * 3, finish_reason=reason, language="en")
        assert found.symptom is not None or found.unresolved or found.words.observed < found.words.length - 60


@pytest.mark.parametrize(
    ("copies", "reason", "doubted"),
    [(2.4, "length", True), (1.7, "length", False), (2.4, None, True), (1.0, "length", False)],
)
def test_a_cap_within_a_copy_of_a_long_passage_leaves_doubt(
    copies: float, reason: str | None, doubted: bool
) -> None:
    """A third copy would have been a loop. A gate passed at 15 % where 5 % was the limit."""
    passage = f"{story(2, seed=5)}\n\n"
    text = passage * 4
    found = judged(text[: int(len(passage) * copies)].rstrip(".!?"), finish_reason=reason)
    assert (found.symptom, found.copied_end, found.unresolved) == (None, doubted, doubted)


@pytest.mark.parametrize("sign", ["_", "-", "{", "0", "\u200b", "]}", " [", "\t|"])
def test_a_cap_within_a_run_of_signs_leaves_doubt(sign: str) -> None:
    """A line may be drawn there, or a form filled in; but where a third of a log ended in 450 underscores, a
    gate passed."""
    for times, doubted in ((8, False), (60, True)):
        found = judged(story(3) + "\n" + sign * times, finish_reason="length", language="en")
        assert (found.copied_end, found.unresolved) == (doubted, doubted)


@pytest.mark.parametrize("templated", [False, True])
def test_a_system_prompt_that_lists_languages_wants_none_of_them(templated: bool) -> None:
    """Where nobody says what was wanted, and the prompt is in turns or in a template."""
    system = "You speak many languages such as English, German and Italian."
    asked = "Tell a story."
    more: dict[str, Any] = {"prompt_text": f"{system}\n{asked}"}
    more["messages"] = (Message("system", system), Message("user", asked))
    if templated:
        start, end = "<|im_start|>", "<|im_end|>"
        more = {"prompt_text": f"{start}system\n{system}{end}\n{start}user\n{asked}{end}\n"}
    for prompt, symptom in ((more, "language_drift"), ({"prompt_text": f"{asked} In Italian."}, None)):
        record = Record("x", "f", 1, f"{story(3)} {ITALIAN}", **prompt)
        assert detect_records([record], ScanJob(), {(): "en"})[0].symptom == symptom


def test_a_cap_within_what_the_prompt_shows_leaves_doubt() -> None:
    """QASPER's prompt: 15 % of the answers were "unanswerable" again and again up to their cap."""
    prompt = 'Answer the question. If you cannot, write "unanswerable".'
    found = judged("unanswerable " * 60, finish_reason="length", prompt_text=prompt)
    assert (found.symptom, found.ended_looping, found.unresolved) == (None, True, True)
    found = judged("unanswerable", finish_reason="stop", prompt_text=prompt)
    assert (found.symptom, found.unresolved) == (None, False)


@pytest.mark.parametrize("end", ["", "\n\nTHE END", "\n\nYours, Anna"])
def test_a_text_that_ends_like_one_ended_by_itself(end: str) -> None:
    """Without a known finish reason a closed sentence, or closing words on a line of their own, is an end."""
    for reason in (None, "tool_calls"):
        found = judged(story(4) + end, finish_reason=reason)
        assert (found.unresolved, found.ended) == (False, True)
        assert found.words.observed == found.words.length


def test_a_truncation_needs_a_known_reason() -> None:
    """An open code block is a truncation where the model chose to end, and only there."""
    text = story(4) + "\n\n```python\nprint('one.')"
    assert judged(text, finish_reason="end_turn").symptom == "truncation"
    assert judged(text).symptom is None
    assert judged(text, finish_reason="timeout").symptom is None


def test_where_a_log_cuts_a_text_the_answer_did_not_end() -> None:
    """A pipeline that keeps the first characters: the count proves that more was written, so that nobody saw
    the end that the model chose."""
    text = story(6)[:900].rsplit(" ", 2)[0] + " and the"
    assert judged(text, finish_reason="stop", completion_tokens=240).symptom == "truncation"
    found = judged(text, finish_reason="stop", completion_tokens=2400)
    assert (found.symptom, found.ended, found.unseen) == (None, False, True)


def test_a_natural_end_with_a_candidate_open_is_unresolved() -> None:
    """As in a run: an answer that ends by itself while it may be failing is no witness of health."""
    repeated = story(1, seed=7).split(". ", 1)[1]
    text = story(4) + "".join(f"\n\nParagraph {n}. {repeated}" for n in (1, 2))
    found = judged(text, finish_reason="stop")
    assert found.symptom is None
    assert found.words.observed < found.words.length
    assert found.unresolved


def test_the_end_of_a_capped_text_is_not_observed() -> None:
    """The panel may have a candidate open there; a chosen end leaves none."""
    text = story(12)
    capped, chosen = judged(text, finish_reason="length"), judged(text, finish_reason="EOS_TOKEN")
    assert capped.words == Extent(chosen.words.length, chosen.words.length - OPEN_TAIL)
    assert chosen.words.observed == chosen.words.length
    assert (capped.unresolved, chosen.unresolved) == (False, False)
    assert judged(story(1), finish_reason="max_tokens").words.observed == 0


@pytest.mark.parametrize("reason", ["MAX_TOKENS", "max_output_tokens", "model_length", "incomplete"])
def test_a_cap_by_any_name_is_a_cap(tmp_path: Path, reason: str) -> None:
    """Dharma's rate counts the caps of every library."""
    rows = [{"text": story(2) + LOOPING, "finish_reason": each} for each in (reason, "STOP", "tool_calls")]
    (group,) = run(write(tmp_path / "a.jsonl", rows)).groups
    assert (group.dharma_known, group.dharma_rate) == (2, 0.5)


def test_a_group_forces_its_language_on_no_answer(tmp_path: Path) -> None:
    """A whole answer in another language than the group's is no drift unless the record or the user says
    what was wanted; one that leaves the group's language still is."""
    italian = "Il mare era calmo e la barca tornava piano verso il porto, mentre le donne aspettavano. "
    whole = "".join(
        italian.replace("calmo", word) for word in ("calmo", "freddo", "grigio", "mosso", "vuoto")
    )
    rows = [{"text": story(5, seed=n), "finish_reason": "stop"} for n in range(12)]
    rows += [{"text": whole, "finish_reason": "stop"}, {"text": story(5) + whole, "finish_reason": "stop"}]
    (group,) = run(write(tmp_path / "a.jsonl", rows), job=ScanJob()).groups
    assert group.symptoms == {"language_drift": 1}
    assert group.language_sources == {"group": 13, OTHER_LANGUAGE: 1}
    assert group.languages == {"en": 13, "it": 1}
    rows[12]["language"] = "en"
    (said,) = run(write(tmp_path / "b.jsonl", rows), job=ScanJob()).groups
    assert said.symptoms == {"language_drift": 2}
    (given,) = run(write(tmp_path / "c.jsonl", rows), job=ScanJob(language="en")).groups
    assert given.symptoms == {"language_drift": 2}


@pytest.mark.parametrize(
    ("asked", "drifts"),
    [
        ("Respond only in English.", 1),
        ("Answer in Italian, not English.", 0),
        ("Tell me of the sea.", 0),
        ("Answer in the customer's language, and if you do not know it, reply in English.", 0),
        ("The documentation is in English; quote it to the customer.", 0),
        ("Translate this English text for our customers in Rome.", 0),
    ],
)
def test_a_prompt_that_names_the_groups_language_asks_for_it(tmp_path: Path, asked: str, drifts: int) -> None:
    """Forty answers of 400 went from English to Chinese for most of their length, although the system prompt
    named English: they were taken for Chinese ones that began in English, which the prompt welcomed."""
    italian = "Il mare era calmo e la barca tornava piano verso il porto, mentre le donne aspettavano. "
    left = "".join(italian.replace("calmo", word) for word in ("calmo", "freddo", "grigio", "mosso", "vuoto"))
    rows = [{"text": story(5, seed=n), "prompt": asked, "finish_reason": "stop"} for n in range(12)]
    rows.append({"text": left, "prompt": asked, "finish_reason": "stop"})
    (group,) = run(write(tmp_path / "a.jsonl", rows), job=ScanJob()).groups
    assert group.symptoms == ({"language_drift": drifts} if drifts else {})


_ABLE = "Hello! I can communicate in English, Chinese, French and many other languages. How can I help?"
_MENU = "Language: English, Français, 中文 (Chinese), French. Tides of the northern harbours."
_CHINESE = "这座城市的历史非常悠久，人们每天都在河边散步，孩子们在公园里玩耍，老人们坐在树下聊天。" * 6


@pytest.mark.parametrize(
    ("role", "before"),
    [
        ("assistant", _ABLE),
        ("tool", _MENU),
        ("tool-response", _MENU),
        ("assistant", f"{_ABLE}\n{_CHINESE}"),
        ("user", f"Observation:\n{_MENU}"),
    ],
)
def test_a_greeting_and_a_page_welcome_no_language(tmp_path: Path, role: str, before: str) -> None:
    """What the model said of itself, a site's menu, and the model's own earlier drift: a third of the answers
    went on in Chinese, and nothing was degenerate."""
    rows = []
    for n in range(24):
        turns = [
            {"role": "user", "content": "Hello."},
            {"role": role, "content": before},
            {"role": "user", "content": f"Tell me of the sea, part {n}."},
        ]
        text = story(5, seed=n) + (_CHINESE if n % 3 == 0 else "")
        rows.append({"messages": turns, "text": text, "finish_reason": "stop"})
    (group,) = run(write(tmp_path / "a.jsonl", rows), job=ScanJob()).groups
    assert group.symptoms == {"language_drift": 8}


def test_texts_with_several_turns_are_not_known_to_be_healthy(tmp_path: Path) -> None:
    """Where a third of Llama 3's texts go on by themselves, decoded without special tokens and logged
    without prompts, the gate passed, and T counted the prompts."""
    turn = "user\n\nTell me story {}.assistant\n\n{}"
    once = [{"text": turn.format(n, story(5, seed=n))} for n in range(40)]
    more = [{"text": each["text"] + turn.format(9, story(3, seed=n))} for n, each in enumerate(once[:20])]
    (clean,) = run(write(tmp_path / "a.jsonl", once), job=ScanJob()).groups
    (mixed,) = run(write(tmp_path / "b.jsonl", once + more), job=ScanJob()).groups
    assert (clean.several_turns, clean.in_doubt) == (0, 0)
    assert mixed.several_turns + mixed.degenerate == mixed.in_doubt + mixed.degenerate == 20
    assert not mixed.threshold.certified


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("as_call", [False, True])
def test_json_that_escapes_what_is_beyond_ascii_is_read_as_written(
    tmp_path: Path, ascii_only: bool, as_call: bool
) -> None:
    """LiteLLM writes Claude's arguments and answers in JSON so: a drift into Chinese was not seen, and the
    gate passed at four times its limit."""
    chinese = "这座城市的历史非常悠久，人们每天都在河边散步，孩子们在公园里玩耍，老人们坐在树下聊天。" * 6
    rows: list[dict[str, Any]] = []
    for n in range(24):
        said = {"summary": story(4, seed=n) + (chinese if n % 4 == 0 else "")}
        text = json.dumps(said, ensure_ascii=ascii_only)
        call = {"type": "function", "function": {"name": "note", "arguments": text}}
        message = {"content": None, "tool_calls": [call]} if as_call else {"content": text}
        choice = {"message": {"role": "assistant", **message}, "finish_reason": "stop"}
        rows.append({"object": "chat.completion", "choices": [choice]})
    (group,) = run(write(tmp_path / "a.jsonl", rows)).groups
    assert (group.requests, group.symptoms) == (24, {"language_drift": 6})


HAUSA = (
    "An aika odarku yau da safe kuma za ta iso gobe da yamma. Idan babu kowa a gida, za ku iya canza lokacin "
    "a cikin manhaja. Muna ba ku hakuri saboda jinkirin da aka samu. Ku kashe na'urar ku sake kunnawa bayan "
    "minti biyar. Kada ku manta da fasfo da tikitinku."
)
YORUBA = (
    "A ti fi ohun tí ẹ ra ránṣẹ́ ní àárọ̀ yìí, yóò sì dé ní ọ̀la ní ìrọ̀lẹ́. Bí kò bá sí ẹnikẹ́ni nílé, ẹ lè yí "
    "àkókò padà lórí áàpù náà. Ẹ má bínú pé ẹ ní láti dúró fún ìgbà pípẹ́. Ẹ jọ̀wọ́ ẹ pa ẹ̀rọ náà kí ẹ sì "
    "dúró fún ìṣẹ́jú márùn-ún. Ẹ rẹ ẹ̀wà sínú omi ní gbogbo òru. Ẹ má gbàgbé láti mú ìwé ìrìnnà yín wá."
)


@pytest.mark.parametrize("foreign", [HAUSA, YORUBA])
def test_an_answer_in_a_language_that_nothing_here_knows_is_no_gibberish(
    tmp_path: Path, foreign: str
) -> None:
    """Of a log of customers' questions, most in English, every answer in Hausa was called gibberish. Where
    the prompt, or the answer's beginning, is in the group's language, or the user names one, it is."""
    rows: list[dict[str, Any]] = [{"text": story(5, seed=n), "finish_reason": "stop"} for n in range(12)]
    rows += [{"text": foreign, "finish_reason": "stop"}]
    (group,) = run(write(tmp_path / "a.jsonl", rows), job=ScanJob()).groups
    assert group.symptoms == {}
    assert group.language_sources == {"group": 12, "unknown": 1}
    assert (group.unknown_language, group.in_doubt) == (1, 1)
    rows[-1]["prompt"] = "Please tell me what has become of my order, and when it will arrive."
    (asked,) = run(write(tmp_path / "b.jsonl", rows), job=ScanJob()).groups
    assert asked.degenerate == 1
    rows[-1] = {"text": story(5) + foreign, "finish_reason": "stop"}
    (left,) = run(write(tmp_path / "c.jsonl", rows), job=ScanJob()).groups
    assert left.degenerate == 1
    rows[-1] = {"text": foreign, "finish_reason": "stop"}
    (given,) = run(write(tmp_path / "d.jsonl", rows), job=ScanJob(language="en")).groups
    assert given.degenerate == 1


def test_letters_without_words_are_gibberish_in_every_group(tmp_path: Path) -> None:
    """They are in no language, known here or not."""
    letters = random.Random(5)
    salad = " ".join("".join(letters.choices("bcdfghjklmnpqrstvwxz", k=7)) for _ in range(120))
    rows = [{"text": story(5, seed=n), "finish_reason": "stop"} for n in range(12)]
    rows.append({"text": salad, "finish_reason": "stop"})
    (group,) = run(write(tmp_path / "a.jsonl", rows), job=ScanJob()).groups
    assert group.symptoms == {"gibberish": 1}


def test_an_answer_in_the_named_language_and_the_prompts_is_as_asked_for(tmp_path: Path) -> None:
    """German first and its English translation after it: German by its beginning, and it left neither."""
    german = (
        "Ja, natürlich spreche ich Deutsch. Ich habe es in der Schule gelernt und lese jeden Abend ein paar "
        "Seiten in einem alten Buch. Wenn du willst, bleiben wir gern bei Deutsch. Meine Großmutter kam aus "
        "einem kleinen Dorf an der Küste, und von ihr habe ich die Lieder, die man dort "
        "an langen Abenden sang. Im Winter saßen wir am Ofen, und sie erzählte von den Schiffen, die niemals "
        "wiederkamen, und von den Lichtern, die man in stürmischen Nächten auf dem Wasser sah."
    )
    text = f"{german}\n\n{story(4)}"
    rows = [{"text": story(5, seed=n), "prompt": "Tell a story.", "finish_reason": "stop"} for n in range(12)]
    rows.append({"text": text, "prompt": "Do you know how to speak German?", "finish_reason": "stop"})
    file = write(tmp_path / "in.jsonl", rows)
    (group,) = scan(ScanSettings((file,), ScanJob(), workers=1), Heard()).groups
    assert (group.requests, group.degenerate) == (13, 0)


def test_a_language_that_the_prompt_names_is_as_asked_for(tmp_path: Path) -> None:
    """Where the expected language is a guess from the group, German in an answer about German is no drift;
    where it was stated, it is, for the prompt may be forbidding German."""
    german = (
        "Guten Morgen, wie geht es Ihnen heute? Ich hätte gern ein Zimmer mit Blick auf den Fluss, wenn noch "
        "eines frei ist. Können Sie mir sagen, wo der Bahnhof ist und wann der nächste Zug nach Hause fährt? "
    )
    mixed = f"{story(3)} {german}"
    rows = [{"text": story(5, seed=n), "prompt": "Tell a story.", "finish_reason": "stop"} for n in range(12)]
    rows += [
        {"text": mixed, "prompt": prompt, "finish_reason": "stop"}
        for prompt in ("Tell a story.", "Speak German!")
    ]
    (group,) = run(write(tmp_path / "a.jsonl", rows), job=ScanJob()).groups
    assert group.symptoms == {"language_drift": 1}
    (given,) = run(write(tmp_path / "b.jsonl", rows), job=ScanJob(language="en")).groups
    assert given.symptoms == {"language_drift": 2}


@pytest.mark.slow
def test_words_of_a_language_without_a_model_are_not_invented(tmp_path: Path) -> None:
    """Old English is no gibberish where the prompt asks for it."""
    old = (
        "Hwæt! We Gardena in geardagum, þeodcyninga, þrym gefrunon, hu ða æþelingas ellen fremedon. "
        "Oft Scyld Scefing sceaþena þreatum, monegum mægþum, meodosetla ofteah, egsode eorlas. Syððan "
        "ærest wearð feasceaft funden, he þæs frofre gebad, weox under wolcnum, weorðmyndum þah. "
    )
    rows = [{"text": story(5, seed=n), "prompt": "Tell a story.", "finish_reason": "stop"} for n in range(12)]
    for prompt in ("Tell a story.", "Rewrite it in Old English."):
        rows.append(
            {"text": f"Here it is as you wanted it:\n\n{old}", "prompt": prompt, "finish_reason": "stop"}
        )
    (group,) = run(write(tmp_path / "a.jsonl", rows), job=ScanJob()).groups
    assert group.degenerate == 1


def test_a_requested_repetition_in_the_prompt_is_exempt() -> None:
    """The prompt, where the log has it, reaches the detectors."""
    text = "I will not run in the corridor.\n" * 30
    prompt = 'Write "I will not run in the corridor." 30 times.'
    assert judged(text).degenerate
    assert not judged(text, prompt_text=prompt).degenerate


def test_the_wanted_language_comes_from_the_record_first() -> None:
    """Record before user; a language nobody can identify is not used."""
    italian = "Il mare era calmo e la barca tornava piano verso il porto, mentre le donne aspettavano. " * 4
    text = " ".join(f"{n}. {italian}"[:90] for n in range(4))
    assert judged(text, language="it").language_source == "record"
    assert judged(text).language_source == "given"
    assert judged(text, language="xx").language == "en"
    named = judged(text, language="Italian")
    assert (named.language, named.language_source) == ("it", "record")


def test_too_many_groups_are_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Grouping by the id would only eat memory."""
    monkeypatch.setattr("stresstest.scanning.tally.MAX_GROUPS", 3)
    path = write(tmp_path / "a.jsonl", corpus(6))
    with pytest.raises(UsageError, match="more than 3 groups"):
        run(path, job=ScanJob(FieldMapping(keys=("id",)), ("id",), "en"))


def test_worst_outputs_and_their_excerpts(tmp_path: Path) -> None:
    """--show keeps the worst: highest score, then most wasted; the text is cut exactly at the onset."""
    rows = corpus(16)
    rows[9]["response"] += LOOPING
    result = run(write(tmp_path / "a.jsonl", rows), job=ScanJob(language="en", show=True), show=1)
    (worst,) = result.worst
    assert worst.id == "r9"
    assert worst.after.startswith(LOOP)
    assert worst.before.endswith(LOOP + " ")


def test_by_length_reads_the_requested_length_from_a_key(tmp_path: Path) -> None:
    """`story_2k` and `story_16k` are lengths; onsets that move with them are not independent."""
    rows = []
    for n in range(12):
        for task, units in (("story_2k", 2), ("story_16k", 12)):
            rows.append({"task": task, "text": story(units, seed=n) + LOOPING})
    job = ScanJob(parse_fields([], ["task"]), (), "en", by_length="task")
    (group,) = run(write(tmp_path / "a.jsonl", rows), job=job).groups
    assert group.by_length is not None
    assert (group.by_length.shortest, group.by_length.longest) == ("2000", "16000")
    assert group.by_length.ratio is not None
    assert group.by_length.ratio > 3
    assert not group.by_length.independent


def test_a_groups_name_of_megabytes_is_shortened(tmp_path: Path) -> None:
    """Every answer of a group holds its name; two that differ at the end alone stay two."""
    names = ["m" * 2_000_000 + end for end in "ab"]
    path = write(tmp_path / "a.jsonl", [{"model": name, "text": "One two."} for name in names])
    groups = run(path, job=ScanJob(FieldMapping(keys=("model",)), ("model",), "en")).groups
    assert [len(str(group.key["model"])) for group in groups] == [512, 512]


@pytest.mark.parametrize(
    ("end", "finish", "stopped"),
    [
        (" the" * 31, None, True),
        ("!" * 31, None, True),
        (" the" * 31 + ".", "stop", False),
        (" And so it ends.", None, False),
    ],
)
def test_an_answer_that_breaks_off_in_equal_tokens_is_in_doubt(
    end: str, finish: str | None, stopped: bool
) -> None:
    """Ollama broke off after 31 equal tokens and told no reason: such answers certified a limit."""
    found = judged(story(6) + end, finish_reason=finish)
    assert (found.repetition, found.degenerate) == (stopped, False)
    assert found.unresolved >= stopped


@pytest.mark.parametrize("end", [" \n\t" * 12, " -" * 31, "❤️" * 31, " |" * 31, "0" * 31])
def test_equal_tokens_of_any_kind_are_in_doubt_where_an_answer_breaks_off(end: str) -> None:
    """Ollama's guard compared trimmed tokens: blanks in JSON mode were what it was made for."""
    assert judged('{"name": "Ada",' + end).repetition
    assert not judged('{"name": "Ada",' + end, finish_reason="length").repetition


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ("https://me:hunter2secret@gw/v1", "https://me:hunter3secret@gw/v1", "https://***@gw/v1 "),
        ("sk-proj-abcdef1abcdef1abcdef1", "sk-proj-abcdef2abcdef2abcdef2", "*** "),
    ],
)
def test_a_groups_name_is_no_key(tmp_path: Path, one: str, other: str, shown: str) -> None:
    """A table by `api_base` showed passwords, in a pipeline's log too. Two keys stay two groups."""
    rows = [{"response": story(3, seed=n), "api_base": one if n % 2 else other} for n in range(6)]
    path = write(tmp_path / "a.jsonl", rows)
    result = run(path, job=ScanJob(parse_fields([], ["api_base"]), ("api_base",), "en"))
    names = {str(group.key["api_base"]) for group in result.groups}
    assert len(names) == 2
    assert all(name.startswith(shown) and len(name) == len(shown) + 6 for name in names)
