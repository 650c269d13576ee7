"""Fenced blocks as models write them: what follows one is not taken for code, and no answer for cut short."""

from __future__ import annotations

import pytest

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.screening.recorded import detect_recorded
from stresstest.detectors.suite import detect_text
from stresstest.detectors.text.fences import FenceTracker
from stresstest.model import SymptomKind
from tests.support.drifting_texts import PROSE

BLOCKS = {
    "three lines": ("```bash\nls -la\n```", False),
    "one line": ("```ls -la```", False),
    "list item": ("- ```bash\n  ls -la\n  ```", False),
    "numbered item": ("1. ```\n   ls -la\n   ```", False),
    "quotation": ("> ```\n> ls -la\n> ```", False),
    "closed at the end of a line": ("```bash\nls -la```", False),
    "tildes around backticks": ("~~~\n```\nls -la\n~~~", False),
    "not closed before the next": ("```bash\nls -la\n\n```python\nprint(1)\n```", False),
    "code in a document": ("```markdown\nText.\n```bash\nls -la\n```\nMore text.\n```", False),
    "a sentence behind the fence": ("```bash\nls -la\n``` This lists all files.", False),
    "a remark behind the fence": ("```bash\nls -la\n``` Here's what `ls` does:", False),
    "still open": ("```bash\nls -la", True),
    "an open one of which more is said": ('```python title="The main file"\nprint(1)', True),
    "code behind an open fence": ("```bash\nls\n```js\nfunction isPrime(n) {", True),
}


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_ends_where_its_reader_sees_it_end(block: str) -> None:
    """Whether a block is open after it."""
    text, is_open = BLOCKS[block]
    tracker = FenceTracker()
    for line in text.split("\n"):
        if not tracker.takes(line):
            tracker.ends_with(line)
    assert tracker.inside is is_open


@pytest.mark.parametrize("block", [name for name, (_, is_open) in BLOCKS.items() if not is_open])
def test_what_follows_a_block_is_judged(block: str) -> None:
    """A fence that was misread made code of all the rest of an answer, up to its cap."""
    text = "\n\n".join([*PROSE["it"][:3], BLOCKS[block][0], PROSE["it"][3], *PROSE["en"]])
    spec = DetectorSpec(language="it")
    found = detect_text(text, spec, "length")
    assert found.symptom is SymptomKind.LANGUAGE_DRIFT
    assert detect_recorded(text, spec, "length").onset == found.onset


def test_a_block_that_is_closed_before_a_sentence_is_no_truncation() -> None:
    """Thirteen public answers close a block and go on in the same line: they were "truncations"."""
    text = "\n\n".join([PROSE["en"][0], BLOCKS["a sentence behind the fence"][0], *PROSE["en"][1:]])
    assert detect_text(text, DetectorSpec(language="en"), "stop").symptom is None
    cut = "\n\n".join([*PROSE["en"], BLOCKS["still open"][0]])
    assert detect_text(cut, DetectorSpec(language="en"), "stop").symptom is SymptomKind.TRUNCATION
