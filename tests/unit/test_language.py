"""Sentences for users are plain English: phrases that were once taken out do not come back.

The messages are collected from the code (string literals of several words, and the help texts of commands),
from the templates of the reports, and from the pages of the documentation.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support.paths import DATA, ROOT

PHRASES = DATA / "banned_phrases.txt"
_RECORDS = ("decisions", "results", "cli-reference.md", "licences.md", "calibration.md", "faults.md")
"""Pages that are generated, or that keep what was once decided or measured."""


def banned() -> list[tuple[re.Pattern[str], str]]:
    """(pattern, what to write in its place)."""
    lines = [line for line in PHRASES.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    pairs = [line.split(" → ", 1) for line in lines if line]
    return [(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), instead) for pattern, instead in pairs]


def messages(source: str, *, docstrings: bool) -> Iterator[str]:
    """The texts of several words in a module. docstrings: with those of functions (help texts)."""
    tree = ast.parse(source)
    left_out: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            left_out.update(id(part) for part in node.values)
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Expr) and not (docstrings and isinstance(node.value, ast.Constant)):
            left_out.add(id(node.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            yield from [node.value] if len(node.value.split()) >= 3 else []


def texts() -> Iterator[tuple[str, str]]:
    """(place, text) of what a user can read."""
    for path in sorted((ROOT / "stresstest").rglob("*.py")):
        for message in messages(path.read_text(encoding="utf-8"), docstrings=path.name == "command.py"):
            yield str(path.relative_to(ROOT)), message
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "stresstest").rglob("*.html")]
    for page in sorted(pages):
        place = page.relative_to(ROOT)
        if not set(place.parts) & set(_RECORDS):
            yield str(place), page.read_text(encoding="utf-8")


def test_no_sentence_for_a_user_has_a_phrase_that_was_taken_out() -> None:
    """One list of them, so that a sentence is judged once and not at every review."""
    phrases = banned()
    any_of_them = re.compile("|".join(pattern.pattern for pattern, _ in phrases), re.IGNORECASE)
    found = [
        f"{place}: {match[0]!r} → {instead}"
        for place, text in texts()
        for line in [" ".join(text.split())]
        if any_of_them.search(line)
        for pattern, instead in phrases
        for match in [pattern.search(line)]
        if match is not None
    ]
    assert found == []


@pytest.mark.parametrize("sentence", ["Mend the server.", "The page says so.", "It is told."])
def test_the_list_finds_what_it_is_for(sentence: str) -> None:
    """A list that matches nothing would let everything through."""
    assert any(pattern.search(sentence) for pattern, _ in banned())


def test_messages_are_found_wherever_they_are_written() -> None:
    """Literals, f-strings and a command's help; never a name, and no docstring of other modules."""
    source = (
        "def f():\n    'Help of a command.'\n    say(f'{x} is not a folder', 'a-name', 'Three more words')\n"
    )
    said = {"{} is not a folder", "Three more words"}
    assert set(messages(source, docstrings=True)) == {"Help of a command.", *said}
    assert set(messages(source, docstrings=False)) == said
