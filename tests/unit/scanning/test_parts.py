"""Parts: files judged one by one add up to what one scan of all of them gives."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.errors import StresstestError, UsageError
from stresstest.features.scan.document import scan_document
from stresstest.model import RIGORS, SymptomKind
from stresstest.model.scanned import Extent, ScanVerdict
from stresstest.records import DamagedLine, RecordChunk, parse_fields
from stresstest.render.json_text import dumps
from stresstest.scanning import parts
from stresstest.scanning.job import ScanJob
from stresstest.scanning.scan import ScanSettings, conclude, scan
from stresstest.scanning.scan_state import ScanState
from stresstest.scanning.tally import ScanTally
from tests.support.scanned_files import Heard, corpus, write

JOB = ScanJob(parse_fields([], ["model"]), ("model",), show=True)
ITALIAN = "La stazione era vuota quando il treno arrivò, e nessuno aspettava sulla banchina bagnata. " * 4


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Two files of one layout, one packed with a damaged line, one whose group speaks another language."""
    rows = corpus(48)
    first = write(tmp_path / "a.jsonl", rows[:20])
    packed = tmp_path / "b.jsonl.gz"
    lines = [json.dumps(row) for row in rows[20:]]
    packed.write_bytes(gzip.compress("\n".join([*lines[:5], '{"id": ', *lines[5:]]).encode()))
    other = [{"id": f"i{n}", "model": "c", "text": ITALIAN + str(n)} for n in range(4)]
    return [first, str(packed), write(tmp_path / "c.jsonl", other)]


def judged(files: list[str], folder: Path) -> list[parts.PartWork]:
    works = parts.part_works(files, JOB, 2, folder)
    works = parts.with_languages(works, map(parts.tell_languages, works))
    for work in reversed(works):
        if not parts.is_finished(work):
            parts.judge_part(work)
    return works


def merged(works: list[parts.PartWork]) -> ScanState:
    state = ScanState(JOB.keys, 2)
    parts.merge_parts(works, state)
    return state


def test_parts_add_up_to_one_scan(files: list[str], tmp_path: Path) -> None:
    """In whatever order they are judged: the same document, the same worst, the same rows in their order."""
    options = ScanSettings(tuple(files), JOB, rigor="quick", show=2, out=str(tmp_path / "v.jsonl"), workers=1)
    whole = scan(options, Heard())
    works = judged(files, tmp_path / "parts")
    together = conclude(merged(works), options, interrupted=False, seconds=whole.seconds)
    assert dumps(scan_document(together)) == dumps(scan_document(whole))
    assert together == whole
    rows = [json.loads(line) for work in works for line in work.verdicts.read_bytes().splitlines()]
    damaged = [row for row in rows if row["damaged"]]
    assert [(row["source"], row["line"], row["degenerate"]) for row in damaged] == [(files[1], 6, None)]
    columns = [
        {key: value for key, value in row.items() if key not in ("source", "line", "damaged")}
        for row in rows
        if not row["damaged"]
    ]
    assert columns == [json.loads(line) for line in (tmp_path / "v.jsonl").read_bytes().splitlines()]


def test_only_what_is_not_finished_is_judged_again(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rerun takes over what is there; a changed file, other options or a torn part are judged anew."""
    works = judged(files, tmp_path / "parts")
    assert all(map(parts.is_finished, works))
    assert not any(parts.is_finished(replace(work, job=replace(JOB, language="it"))) for work in works)
    works[0].counts.write_bytes(works[0].counts.read_bytes()[:-7])
    with Path(files[2]).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": "late", "model": "c", "text": ITALIAN}) + "\n")
    before = parts.judge_part
    again: list[str] = []

    def noted(work: parts.PartWork) -> None:
        again.append(work.name)
        before(work)

    monkeypatch.setattr(parts, "judge_part", noted)
    assert merged(judged(files, tmp_path / "parts")).tallies.requests == 53
    assert sorted(again) == [files[0], files[2]]


def test_work_that_fails_leaves_nothing_behind(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part is whole or absent: no half-written verdicts that a rerun could take for finished ones."""
    folder = tmp_path / "parts"
    works = parts.part_works(files, JOB, 2, folder)

    def stop(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(parts, "detect_chunk", stop)
        with pytest.raises(MemoryError):
            parts.judge_part(works[0])
    assert list(folder.iterdir()) == []
    own = {folder / name for name in (".draft.chapter1.md", ".stresstest-draft.notes", "plan.md")}
    for path in own:
        path.write_text("mine")
    (folder / f".stresstest-draft.{works[1].verdicts.name}.{'a' * 32}").write_text("half a verdict")
    (folder / f".stresstest-draft.{works[0].verdicts.name}.{'b' * 32}").mkdir()
    parts.clear_drafts(works)
    assert own == {path for path in folder.iterdir() if path.is_file()}
    with pytest.raises(StresstestError, match="are not in"):
        parts.merge_parts(works, ScanState(JOB.keys, 0))


def test_a_machine_that_sees_other_files_says_so(files: list[str], tmp_path: Path) -> None:
    """A missing file would otherwise count as one damaged line."""
    work = parts.part_works(files, JOB, 0, tmp_path)[0]
    Path(files[0]).unlink()
    with pytest.raises(UsageError, match="is not the file that was named"):
        parts.judge_part(work)


def test_stdin_cannot_be_shared_out(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="stdin"):
        parts.part_works(["-"], JOB, 0, tmp_path)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 90), min_size=1, max_size=6), st.integers(0, 1000))
def test_thinned_samples_do_not_depend_on_the_parts(sizes: list[int], seed: int) -> None:
    """Beyond what may be kept, the same answers are kept however they came: T is the same, byte for byte."""
    rng = random.Random(seed)
    kinds = (None, None, SymptomKind.LOOP, SymptomKind.NEAR_LOOP)
    found = []
    for n in range(sum(sizes)):
        symptom = rng.choice(kinds)
        length = rng.randrange(20, 200)
        extent = Extent(length, 9 if symptom else length, 10 if symptom else None)
        group = (rng.choice("aaab"),)
        cluster = rng.choice((0, 0, 5, rng.getrandbits(64) | 1))
        identity = rng.choice((9, n + 10, n + 10))
        found.append(ScanVerdict(str(n), group, extent, symptom=symptom, cluster=cluster, identity=identity))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stresstest.scanning.tally.MAX_KEPT_OUTPUTS", 40)
        patch.setattr("stresstest.scanning.tally._TRIM_INTERVAL", 16)
        whole, together = ScanTally(("model",), 0), ScanTally(("model",), 0)
        for verdict in found:
            whole.add(verdict)
        rest = iter(found)
        for size in sizes:
            part = ScanTally(("model",), 0)
            for _ in range(size):
                part.add(next(rest))
            together.merge(part.dump())
        results = [tally.results(RIGORS["quick"], 0.1, by_length=False) for tally in (whole, together)]
    assert results[0] == results[1]


def test_what_nothing_tells_from_its_next_state_is_judged_again(files: list[str], tmp_path: Path) -> None:
    """A server that sends neither a tag nor a time: a gate passed on the verdicts of the day before."""
    works = judged(files[:1], tmp_path / "parts")
    unmarked = [replace(work, state=replace(work.state, mark="")) for work in works]
    assert not any(map(parts.is_finished, unmarked))


def test_another_tokenizer_at_the_same_path_is_other_work(files: list[str], tmp_path: Path) -> None:
    """T was 2.5 times the true one, in the tokens of the model before."""
    path = tmp_path / "tokenizer.json"
    marks = set()
    for text in ("{}", '{"a": 1}'):
        path.write_text(text)
        [work] = parts.part_works(files[:1], replace(JOB, tokenizer=str(path)), 2, tmp_path / "parts")
        marks.add(work.mark)
    assert len(marks) == 2
    path.write_text("{}")
    with pytest.raises(UsageError, match="is another file where"):
        parts.judge_part(work)


@pytest.mark.parametrize(("reason", "lasting"), [("cannot be read (reset)", False), ("gzip is cut", True)])
def test_what_the_network_cut_is_judged_again(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str, lasting: bool
) -> None:
    """A failure of the network was kept as a finished part, and only another folder helped."""
    cut = RecordChunk("a", (), (DamagedLine("a", 0, reason, rest=True),))
    monkeypatch.setattr("stresstest.records.read_chunks", lambda _: iter([cut]))
    address = [f"file://{files[0]}"]
    [work] = parts.part_works(address, JOB, 2, tmp_path / "parts")
    parts.judge_part(work)
    assert parts.is_finished(work)
    [later] = parts.part_works(address, JOB, 2, tmp_path / "parts")
    assert parts.is_finished(later) == lasting
