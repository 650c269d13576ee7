"""`detect` and `detect_many` say what `scan` says of the same records."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import stresstest
from stresstest.api.streaming import judge_documents
from stresstest.scanning.job import ScanJob
from stresstest.scanning.scan import ScanSettings, scan
from stresstest.scanning.verdict_row import VERDICT_COLUMNS
from tests.e2e.records import RECORDED, read
from tests.support.foreign_texts import GERMAN, ITALIAN
from tests.support.scanned_files import LOOPING, Heard, corpus, write
from tests.support.stories import story


def recorded_rows() -> list[dict[str, Any]]:
    """What real vLLM wrote, healthy and broken, as plain records; stories, drift and loops beside it."""
    names = ("undertrained-narrative-it", "short-narrative-en", "lab-technical-it")
    found = [
        {
            "id": each.key,
            "response": each.text,
            "finish_reason": each.finish_reason,
            "language": each.language,
        }
        for name in names
        for each in islice(read(RECORDED / f"{name}.jsonl.gz"), 8)
    ]
    asked = {"id": "asked", "prompt": "Repeat the answer: " + story(2), "response": story(2)}
    drifts = {"id": "drift", "response": ITALIAN * 2 + GERMAN * 3, "completion_tokens": 300}
    return [*found, *corpus(12), asked, drifts, {"id": "empty", "response": "", "finish_reason": "stop"}]


def told(rows: list[dict[str, Any]], folder: Path, language: str | None = None) -> list[dict[str, Any]]:
    """The lines of `scan --out`."""
    out = folder / "out.jsonl"
    job = ScanJob(language=language)
    scan(ScanSettings((write(folder / "in.jsonl", rows),), job, out=str(out), workers=1), Heard())
    return [json.loads(line) for line in out.read_text().splitlines()]


def row_of(verdict: stresstest.Verdict) -> dict[str, Any]:
    return {name: getattr(verdict, name) for name in VERDICT_COLUMNS}


def test_many_records_get_the_verdicts_of_scan(tmp_path: Path) -> None:
    """The same engine on the same records: a threshold and a gate in Python stand on one definition."""
    rows = recorded_rows()
    found = [row_of(each) for each in stresstest.detect_many(rows)]
    assert found == told(rows, tmp_path)
    assert {each["symptom"] for each in found} >= {None, "loop", "language_drift"}


def test_one_text_gets_the_verdict_of_scan(tmp_path: Path) -> None:
    """As of a file that holds this record alone, the language inferred the same way."""
    rows = [row | {"id": "text"} for row in recorded_rows()]
    for row in [each for each in rows if "completion_tokens" not in each][::4]:
        language = row.pop("language", None)
        found = stresstest.detect(
            row["response"],
            language=language,
            prompt=row.get("prompt"),
            finish_reason=row.get("finish_reason"),
        )
        assert [row_of(found)] == told([row], tmp_path, language)


def test_the_onset_is_where_the_second_copy_begins() -> None:
    """What stands before `onset_char` is the part to keep."""
    healthy = story(2)
    found = stresstest.detect(healthy + LOOPING, language="en")
    assert found.symptom == "loop"
    assert found.loops_to_end
    assert found.onset_char is not None
    assert healthy in (healthy + LOOPING)[: found.onset_char]
    assert found.summary


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        ("the cat sat. ", "3 words repeat 40 times"),
        ("alpha beta gamma ", "3 words repeat"),
        ("no ", "1 word repeats"),
    ],
)
def test_a_repeated_unit_counts_its_words_only(unit: str, said: str) -> None:
    """The full stop of a plain text is a token of its own, and no word: a unit of three words has three."""
    copies = 40 if "." in unit else 300
    assert (stresstest.detect(unit * copies, language="en").summary or "").startswith(said)


def test_tables_are_read_row_by_row() -> None:
    """A row of a table is a record; `fields` names the columns of another layout."""
    rows = corpus(9)
    expected = stresstest.detect_many(rows)
    assert stresstest.detect_many(pyarrow.Table.from_pylist(rows)) == expected
    renamed = [{"id": row["id"], "answer": row["response"], "finish_reason": "length"} for row in rows]
    assert stresstest.detect_many(renamed, fields={"response": "answer"}) == expected


def test_a_text_is_judged_as_it_is() -> None:
    """Also one that is a response body, as who writes about the API gets to see."""
    choices = [{"message": {"content": "Good."}}, {"message": {"content": LOOPING}}]
    (found,) = stresstest.detect_many([json.dumps({"object": "chat.completion", "choices": choices})])
    assert found.symptom == "loop"


def test_texts_are_numbered_in_order() -> None:
    found = stresstest.detect_many(text for text in (story(2), story(2) + LOOPING))
    assert [each.degenerate for each in found] == [False, True]
    assert [each.id for each in found] == ["record:1", "record:2"]


@pytest.mark.parametrize(
    ("call", "named"),
    [
        pytest.param(lambda: stresstest.detect("Hi.", language="klingon"), "klingon", id="language"),
        pytest.param(lambda: stresstest.detect_many("one text"), "several texts", id="one text"),
        pytest.param(lambda: stresstest.detect_many(["a", 7]), "int", id="a number"),
        pytest.param(lambda: stresstest.detect_many([{"x": 1}]), "Record 1 holds no answer", id="no answer"),
        pytest.param(lambda: stresstest.detect_many([], fields={"reponse": "x"}), "reponse", id="field"),
    ],
)
def test_what_cannot_be_judged_is_an_error(call: Any, named: str) -> None:
    """One error type, with a sentence that names what is wrong."""
    with pytest.raises(stresstest.UsageError, match=named):
        call()


@pytest.mark.parametrize(
    "call",
    {
        "record": lambda: stresstest.detect({"role": "assistant", "content": "a"}),
        "none": lambda: stresstest.detect(None),  # type: ignore[arg-type]
        "bytes": lambda: stresstest.detect(b"abc"),  # type: ignore[arg-type]
        "chunks": lambda: stresstest.detect(["a", None]),  # type: ignore[list-item]
        "language": lambda: stresstest.detect("a", language=5),  # type: ignore[arg-type]
        "language of a stream": lambda: stresstest.StreamDetector(language=5),  # type: ignore[arg-type]
        "language of many": lambda: stresstest.detect_many(["a"], language=5),  # type: ignore[arg-type]
        "finish reason": lambda: stresstest.detect("a", finish_reason=5),  # type: ignore[arg-type]
        "no file": lambda: stresstest.scan(None),  # type: ignore[arg-type]
        "no name": lambda: stresstest.scan([b"a"]),  # type: ignore[list-item]
        "nul": lambda: stresstest.scan("a\0b"),
        "half a character": lambda: stresstest.scan("a\ud800"),
        "a long text": lambda: stresstest.scan(["word " * 60]),
        "a text of lines": lambda: stresstest.scan(["One.\nTwo."]),
        "out": lambda: stresstest.scan("a.jsonl", out="a\0b"),
        "language of a scan": lambda: stresstest.scan("a.jsonl", language=5),  # type: ignore[arg-type]
        "workers": lambda: stresstest.scan("a.jsonl", workers="2"),  # type: ignore[arg-type]
    }.items(),
    ids=lambda each: each[0],
)
def test_what_is_no_text_and_no_file_is_a_sentence(call: tuple[str, Callable[[], object]]) -> None:
    """The keys of a record, joined, were a healthy text; the rest was a traceback out of the engine."""
    with pytest.raises(stresstest.UsageError) as caught:
        call[1]()
    assert str(caught.value).endswith(".")
    assert "a.jsonl" not in str(caught.value)  # which is not there: nobody looked


@pytest.mark.parametrize(
    "text", ['data: {"type": "ping"}\n\ndata: {"a": 1}\n\nEach event has a type.', "[object Object]"]
)
def test_a_text_is_judged_whatever_a_log_would_make_of_it(text: str) -> None:
    """Web documents may be on event streams: one of them ended a pipeline."""
    assert stresstest.detect(text, language="en").symptom is None
    assert [each.symptom for each in stresstest.detect_many([text, text], language="en")] == [None, None]


def test_a_dialogue_among_texts_is_an_answer_as_a_whole() -> None:
    """In a log, what stands before `Assistant:` is the prompt of a chat template: `onset_char` was counted
    from behind it, and a filter dropped the wrong part."""
    texts = [f"User: Why is {n} odd?\n\nAssistant: {story(2)}{LOOPING}" for n in range(10)]
    found = stresstest.detect_many(texts, language="en")
    alone = [stresstest.detect(text, language="en").onset_char for text in texts]
    documents = judge_documents([(f"d{n}", text, "en") for n, text in enumerate(texts)], language=None)
    assert [each.onset_char for each in found] == [each.onset_char for each in documents] == alone
    assert all(at is not None and at > len(story(2)) + 30 for at in alone)
    assert documents[3].id == "d3"


def test_the_summary_shows_the_passage_as_it_is_written() -> None:
    """A word that begins the text and stands within the passage lost the blank before it: "sat onthe mat"."""
    summary = stresstest.detect("the cat sat on the mat. " * 60, language="en").summary
    assert summary is not None
    assert "the cat sat on the mat." in summary
