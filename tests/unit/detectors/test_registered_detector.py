"""A detector that only this test registers is found by every command, and no other file knows of it.

The invariant: the registry is the only list of detectors. The bug it catches: a detector in the suite that
`scan` never ran, because the fast path returned "healthy" from a list of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stresstest.detectors.entry import DetectorEntry, DetectorSpec, SuiteContext, SymptomInfo
from stresstest.detectors.registry import added_entries, entries, register, registered, symptom_info
from stresstest.detectors.screening.recorded import detect_recorded
from stresstest.detectors.suite import detect_text
from stresstest.model import Symptom, SymptomKind, Token
from stresstest.records import source
from stresstest.simulation.engine.scenario.file import load_scenario
from tests.support.commands import command
from tests.support.simulated_servers import served

WORD = "zyzzyva"
MARK = '<path d="M2 2H10L2 10H10"></path>'
EN = DetectorSpec(language="en")
STORY = (
    "The old keeper walked down to the harbour before the storm came in. He counted the boats that were out "
    "and wrote their names into the book. His daughter carried the lamp up the stairs and cleaned the glass. "
    "Nobody in the village had seen a winter as long as this one. They waited for the letter that had been "
    "promised, and the evenings grew quiet. When the first ship returned, its captain brought fruit. "
)
CRIES = f"He said {WORD} to the baker. She answered {WORD} at once. Then the child cried {WORD} too. "
FAILING = f"{STORY}{CRIES}"


class ZyzzyvaDetector:
    """Confirms when the word appears three times; the onset is the first of them."""

    def __init__(self, context: SuiteContext) -> None:
        del context
        self._text = ""
        self._position = 0
        self._found: list[int] = []

    @property
    def open_from(self) -> int | None:
        return self._found[0] if len(self._found) in (1, 2) else None

    def update(self, token: Token) -> None:
        self._position += 1
        self._text = (self._text + token.text)[-4_000:]
        while WORD in self._text:
            self._found.append(self._position)
            self._text = self._text.partition(WORD)[2]

    def finish(self, finish_reason: str | None) -> None:
        if finish_reason == "stop" and len(self._found) < 3:
            self._found.clear()

    def symptoms(self) -> list[Symptom]:
        if len(self._found) < 3:
            return []
        summary = f"the word {WORD} appears {len(self._found)} times"
        return [Symptom(SymptomKind(WORD), self._found[0], self._found[2], summary=summary)]


ZYZZYVA = DetectorEntry(
    SymptomInfo(
        SymptomKind(WORD),
        label="weevil word",
        description="the last word of the dictionary, three times",
        countable=True,
        mark=MARK,
        colour="accent",
        specimen=f"{WORD} {WORD} {WORD}.",
    ),
    online=ZyzzyvaDetector,
)


@pytest.fixture(autouse=True)
def _toy() -> Iterator[None]:
    with registered(ZYZZYVA):
        yield


@pytest.mark.slow
def test_the_suite_and_the_fast_path_agree() -> None:
    """A detector without a screen reads every recorded text, and a healthy text stays healthy."""
    for text in (FAILING, FAILING + " the end of the road and" * 600):
        for reason in ("stop", "length", None):
            assert detect_recorded(text, EN, reason) == detect_text(text, EN, reason)
            assert detect_recorded(text, EN, reason).symptom == WORD
    assert not detect_recorded(STORY, EN, "stop").degenerate


def test_scan_finds_it(tmp_path: Path) -> None:
    """In the counts, in the verdicts' file, in the table and among the worst outputs, in its own words."""
    log, out = tmp_path / "log.jsonl", tmp_path / "verdicts.jsonl"
    _log(log, [FAILING, STORY])
    code, text, err = command("scan", str(log), "--json", "--out", str(out), "--lang", "en")
    assert code == 0, err
    group = json.loads(text)["groups"][0]
    assert (group["degenerate"], group["symptoms"]) == (1, {WORD: 1})
    assert [json.loads(line)["symptom"] for line in out.read_text().splitlines()] == [WORD, None]
    code, text, _ = command("--display", "plain", "scan", str(log), "--show", "1", "--lang", "en")
    assert "1 weevil word" in text
    assert f"the word {WORD} appears 3 times" in text


@pytest.mark.slow
def test_workers_know_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process has registered, the processes that it starts have."""
    monkeypatch.setattr(source, "CHUNK_BYTES", 4000)
    log = tmp_path / "log.jsonl"
    _log(log, [FAILING, STORY] * 10)
    code, text, err = command("scan", str(log), "--json", "--lang", "en", "--workers", "3")
    assert code == 0, err
    assert json.loads(text)["groups"][0]["symptoms"] == {WORD: 10}


@pytest.mark.simulated
def test_run_and_its_reports_show_it(tmp_path: Path) -> None:
    """The simulator writes its specimen, a campaign finds it, and all four reports name it."""
    scenario = tmp_path / "toy.toml"
    scenario.write_text(
        f'name = "toy"\n[[hazard]]\nsymptom = "{WORD}"\nonset = {{ distribution = "fixed", tokens = 150 }}\n'
    )
    store = ("--store", str(tmp_path / "s.sqlite3"), "--display", "none")
    with served(load_scenario(str(scenario)), name="lab") as running:
        words = ("--model", "lab", "--lang", "en", "--base-url", running.base_url, "--rigor", "quick")
        code, text, err = command(*store, "run", *words, "--horizon", "600", "--json")
    assert code == 0, err
    found = json.loads(text)
    assert set(found["symptoms"]) == {WORD}
    assert 140 <= found["threshold"]["tokens"] <= 170
    run = found["run_id"]
    reports = {}
    for kind in ("md", "html", "json"):
        path = tmp_path / f"report.{kind}"
        code, _, err = command(*store, "report", run, "-o", str(path))
        assert code == 0, err
        reports[kind] = path.read_text()
    assert "| weevil word |" in reports["md"]
    assert f'<symbol id="s-{WORD}" viewBox="0 0 12 12">{MARK}</symbol>' in reports["html"]
    assert f'"colours":{{"{WORD}":"accent"}}' in reports["html"]
    assert {g["symptom"] for g in json.loads(reports["json"])["generation_list"]} <= {WORD, None}
    code, text, _ = command(*store[:2], "--display", "plain", "report", run)
    assert "weevil word" in text


def test_check_finds_it(tmp_path: Path) -> None:
    """A candidate that fails with it is a regression, and a new symptom."""
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    _log(before, [f"Chapter {n}. {STORY}" for n in range(80)])
    _log(after, [f"Chapter {n}. {CRIES}{STORY}" for n in range(80)])
    sides = ("--baseline", str(before), "--candidate", str(after), "--lang", "en")
    code, text, err = command("--store", str(tmp_path / "s.sqlite3"), "check", *sides, "--json")
    assert code == 99, err
    found = json.loads(text)
    assert found["verdict"] == "regression"
    assert found["candidate"]["symptoms"] == {WORD: 80}
    assert [f["kind"] for f in found["findings"]].count("new_symptoms") == 1


def test_a_symptom_has_one_detector_and_a_name_that_can_be_stored() -> None:
    """Names are keys in JSON and a column of the store."""
    assert [entry.kind for entry in added_entries()] == [WORD]
    assert entries()[-1] is ZYZZYVA
    with pytest.raises(ValueError, match="already"):
        register(ZYZZYVA)
    for name in ("Loop", "two words", "", "x" * 33):
        with pytest.raises(ValueError, match="not a valid"):
            SymptomKind(name)


def test_a_symptom_without_its_detector_is_still_reported() -> None:
    """A store may hold what another version has found."""
    unknown = symptom_info("unheard_of")
    assert (unknown.label, unknown.counted(2), unknown.exact_onset) == ("unheard of", "unheard of", False)


def _log(path: Path, texts: list[str]) -> None:
    rows = ({"id": str(n), "response": text, "finish_reason": "stop"} for n, text in enumerate(texts))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
