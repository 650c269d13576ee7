"""Where a log cuts its texts, told from all of them: a megabyte of long prompts, or a file of one answer, has
too few."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.errors import ExitCode
from stresstest.records import Record
from stresstest.scanning.text_lengths import TextLengths
from tests.support.commands import command
from tests.support.stories import story

CUT = [story(12, seed=n)[:599] + "x" for n in range(12)]
WHOLE = [story(3, seed=n) for n in range(40)]


def lengths(*texts: str) -> TextLengths:
    return TextLengths.of([Record(str(n), "f", n, text) for n, text in enumerate(texts)])


@pytest.mark.slow
@given(st.permutations(CUT + WHOLE), st.integers(0, len(CUT + WHOLE)))
def test_parts_add_up_to_the_whole(texts: list[str], at: int) -> None:
    """However the answers are spread over chunks, files and machines."""
    first = TextLengths.load(json.loads(json.dumps(lengths(*texts[:at]).dump())))
    first.merge(lengths(*texts[at:]))
    whole = TextLengths()
    whole.merge(lengths(*texts))
    assert {n: sorted(ends) for n, ends in first.ends.items()} == {
        n: sorted(e) for n, e in whole.ends.items()
    }
    assert first.limits() == whole.limits() == {600: len(CUT)}


def test_lengths_that_scatter_are_no_cut() -> None:
    """Answers of all lengths, and a few that are alike by chance."""
    texts = [story(12, seed=n)[: 300 + 7 * n] + "x" for n in range(100)]
    assert lengths(*texts).limits() == {}
    assert lengths(*(story(12, seed=n)[:599] + "x" for n in range(4)), *WHOLE).limits() == {}


@pytest.mark.slow
def test_a_gate_does_not_pass_where_each_file_holds_one_answer(tmp_path: Path) -> None:
    """12 of 52 answers are cut, each in a file of its own: 0 of 52 passed."""
    files = []
    for n, text in enumerate(CUT + WHOLE):
        files.append(tmp_path / f"{n}.jsonl")
        files[-1].write_text(json.dumps({"prompt": f"p{n}", "response": text}), encoding="utf-8")
    code, out, _ = command("scan", *map(str, files), "--lang", "en", "--fail-above", "10%")
    said = " ".join(out.split())
    assert code == ExitCode.INCONCLUSIVE
    assert "12 answers end in the midst of a sentence at 600 characters" in said
    assert "12 answers are not whole in the log" in said


def log_in_small_chunks(path: Path) -> str:
    """The same 52 answers with times, of which few are read at once, as behind long prompts."""
    texts = [CUT[n // 4] if n % 4 == 0 and n < 48 else WHOLE[n % len(WHOLE)] for n in range(52)]
    rows = [
        {
            "prompt": f"p{n}",
            "response": text,
            "start": n,
            "end": n + 1,
            "completion_tokens": 150,
        }
        for n, text in enumerate(texts)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["check", "--rigor", "quick", "--baseline"], ["cost"], ["export", "dpo", "-o", "pairs.jsonl"]]
)
def test_every_command_that_reads_logs_says_that_they_are_cut(
    tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check passed, loops cost nothing, and answers without an end were chosen ones for training."""
    monkeypatch.setattr("stresstest.records.source.CHUNK_BYTES", 4_096)
    log = log_in_small_chunks(tmp_path / "log.jsonl")
    monkeypatch.chdir(tmp_path)
    code, out, err = command(*words, log, "--lang", "en", *(["--candidate", log] if "check" in words else []))
    said = " ".join((out + err).replace("│", " ").split())
    assert "12 answers end in the midst of a sentence at 600 characters" in said
    assert "check" not in words or code == ExitCode.INCONCLUSIVE
