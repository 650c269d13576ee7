"""`scan --tokenizer FILE`: lengths in the model's own tokens, with a real tokenizer."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from stresstest.errors import UsageError
from stresstest.model import Token
from stresstest.records import Record
from stresstest.scanning.answer.verdict import detect_records
from stresstest.scanning.job import ScanJob
from stresstest.scanning.position_scale import require_tokenizer, token_ids
from stresstest.scanning.scan import ScanSettings, scan
from tests.support.paths import ROOT
from tests.support.scanned_files import Heard
from tests.support.stories import story

TOKENIZER = ROOT / "tests" / "lab" / "models" / "lab" / "tokenizer.json"
SENTENCE = "The old keeper went down to the harbour and counted every boat before the storm came in. "


WORDS = {
    "version": "1.0",
    "model": {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"},
}


def scanned(folder: Path, text: str, tokenizer: Path) -> dict[str, object]:
    """The verdict line of one answer."""
    file, out = folder / "in.jsonl", folder / "out.jsonl"
    file.write_text(json.dumps({"id": "a", "text": text}) + "\n", encoding="utf-8")
    job = ScanJob(language="en", tokenizer=str(tokenizer))
    scan(ScanSettings((str(file),), job, out=str(out), workers=1), Heard())
    verdict: dict[str, object] = json.loads(out.read_text(encoding="utf-8"))
    return verdict


def test_positions_are_the_tokenizers_own(tmp_path: Path) -> None:
    """The onset in tokens is where the model's tokenizer puts the second copy's first character."""
    opening = "Nobody had expected the letter to arrive so late in the year. "
    text = opening + SENTENCE * 6
    verdict = scanned(tmp_path, text, TOKENIZER)
    second = text.index(SENTENCE, len(opening) + 1)
    encoded = Tokenizer.from_file(str(TOKENIZER)).encode(text, add_special_tokens=False)
    expected = 1 + sum(1 for start, _ in encoded.offsets if start < second)
    assert verdict["symptom"] == "loop"
    assert verdict["onset_char"] == pytest.approx(second, abs=2)
    assert verdict["onset_token"] == pytest.approx(expected, abs=2)


@pytest.mark.parametrize("length", [8, 2048])
def test_padding_and_truncation_of_a_training_are_no_tokens(tmp_path: Path, length: int) -> None:
    """transformers saves them into tokenizer.json: every answer would seem as long as a padded one."""
    trained = Tokenizer.from_file(str(TOKENIZER))
    trained.enable_padding(length=length)
    trained.enable_truncation(length)
    trained.save(str(tmp_path / "tokenizer.json"))
    assert token_ids(str(tmp_path / "tokenizer.json"), SENTENCE * 6) == token_ids(
        str(TOKENIZER), SENTENCE * 6
    )


def test_a_tokenizer_that_fails_is_a_sentence(tmp_path: Path) -> None:
    """Its pattern needs more steps than the library takes: Rust's panic is no Exception of Python's."""
    pattern = {"type": "Split", "pattern": {"Regex": "(a|a|b|\\w|\\s|.)*\\1$!"}, "behavior": "Isolated"}
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}
    path = tmp_path / "tokenizer.json"
    path.write_text(
        json.dumps({"version": "1.0", "pre_tokenizer": {**pattern, "invert": False}, "model": model})
    )
    with pytest.raises(UsageError, match="fails on a text"):
        token_ids(str(path), "abab!abab" * 9)


def test_a_tokenizer_without_an_unknown_token_is_a_sentence(tmp_path: Path) -> None:
    """The library raises a bare Exception on a word that it does not know: a bug of ours, it seemed."""
    path = tmp_path / "tokenizer.json"
    model = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "[UNK]"}
    path.write_text(json.dumps({"version": "1.0", "model": model}))
    with pytest.raises(UsageError, match="fails on a text"):
        token_ids(str(path), "b")


def test_a_tokenizer_without_an_end_is_not_read_whole() -> None:
    """A device would fill the memory."""
    with pytest.raises(UsageError, match="larger than 256 MiB"):
        require_tokenizer("/dev/zero")


def test_a_file_that_is_no_tokenizer(tmp_path: Path) -> None:
    """A wrong file is a sentence for the user and no traceback of the library's."""
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}", encoding="utf-8")
    with pytest.raises(UsageError, match=r"not a tokenizer\.json") as caught:
        scanned(tmp_path, SENTENCE, wrong)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("counted", "unseen"), [(4_096, True), (None, False), (200, False)])
@pytest.mark.parametrize("tokens", [False, True])
def test_exact_positions_do_not_hide_that_text_is_not_in_the_log(
    tmp_path: Path, counted: int | None, unseen: bool, tokens: bool
) -> None:
    """A log that leaves reasoning out was undecided by its counts, and passed with --tokenizer, or where it
    held the logprobs of the answer alone."""
    text = "Nobody had expected the letter. " + " ".join(story(2, seed=4).split()[:120])
    ids, starts = token_ids(str(TOKENIZER), text)
    pieces = [text[a:b] for a, b in pairwise([*starts, len(text)])]
    record = Record("a", "f", 1, text, finish_reason="length", completion_tokens=counted or len(ids))
    if tokens:
        record = replace(record, tokens=tuple(map(Token, pieces)))
    (found,) = detect_records(
        [record], ScanJob(language="en", tokenizer=None if tokens else str(TOKENIZER)), {}
    )
    assert found.unseen == unseen


def test_a_tokenizer_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    """It was remembered by its path: a limit in the tokens of the model before."""
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(WORDS | {"pre_tokenizer": {"type": "Whitespace"}}))
    before = len(token_ids(str(path), "a a a a")[0])
    path.write_text(json.dumps(WORDS | {"added_tokens": []}))
    assert (before, len(token_ids(str(path), "a a a a")[0])) == (4, 1)


@pytest.mark.parametrize(("steps", "refused"), [(1, False), (2, False), (4, True)])
def test_a_tokenizer_that_makes_texts_longer_and_longer_is_refused(
    tmp_path: Path, steps: int, refused: bool
) -> None:
    """Four replacements of one letter by thirty took 7 GB for an answer."""
    step = {"type": "Replace", "pattern": {"String": "e"}, "content": "e" * 30}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(WORDS | {"normalizer": {"type": "Sequence", "normalizers": [step] * steps}}))
    with pytest.raises(UsageError, match="times as long") if refused else nullcontext():
        require_tokenizer(str(path))
