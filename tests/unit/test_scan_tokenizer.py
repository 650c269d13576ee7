"""`scan --tokenizer FILE`: lengths in the model's own tokens, with a real tokenizer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tokenizers import Tokenizer

TOKENIZER = Path(__file__).parents[1] / "lab" / "models" / "lab" / "tokenizer.json"
SENTENCE = "The old keeper went down to the harbour and counted every boat before the storm came in. "


def test_positions_are_the_tokenizers_own(tmp_path: Path) -> None:
    """The onset in tokens is where the model's tokenizer puts the second copy's first character."""
    opening = "Nobody had expected the letter to arrive so late in the year. "
    text = opening + SENTENCE * 6
    file, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_text(json.dumps({"id": "a", "text": text, "language": "en"}) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "stresstest", "--store", str(tmp_path / "s.sqlite3"), "scan", str(file)]
    done = subprocess.run(
        [*command, "--tokenizer", str(TOKENIZER), "--out", str(out), "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in (0, 4), done.stderr
    verdict = json.loads(out.read_text(encoding="utf-8"))
    second = text.index(SENTENCE, len(opening) + 1)
    encoded = Tokenizer.from_file(str(TOKENIZER)).encode(text, add_special_tokens=False)
    expected = 1 + sum(1 for start, _ in encoded.offsets if start < second)
    assert verdict["symptom"] == "loop"
    assert abs(verdict["onset_char"] - second) <= 2
    assert abs(verdict["onset_token"] - expected) <= 2


def test_a_file_that_is_no_tokenizer(tmp_path: Path) -> None:
    """A wrong file is a sentence and exit code 2, not the library's traceback."""
    file, wrong = tmp_path / "in.jsonl", tmp_path / "wrong.json"
    file.write_text(json.dumps({"id": "a", "text": SENTENCE}) + "\n", encoding="utf-8")
    wrong.write_text("{}", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "stresstest", "scan", str(file), "--tokenizer", str(wrong)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2, done.stdout
    assert "no tokenizer.json" in done.stderr
    assert "Traceback" not in done.stderr
