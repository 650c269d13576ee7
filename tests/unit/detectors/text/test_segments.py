"""The text feed: where it cuts, what it maps, and that the cut into tokens does not matter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.detectors.text.segments import LINE_HEAD_CHARS, MAX_SENTENCE_CHARS, TextSegmenter, TextSpan
from stresstest.model import Token

_PIECES = [
    "Marta uscì",
    ".",
    " ",
    "\n",
    "...",
    "!",
    "?»",
    "«",
    " sig",
    "Rossi",
    "3",
    "5",
    "。",
    "雨",
    "**",
    "”",
    " J",
    "é",
    "A",
]
TEXTS = st.lists(st.sampled_from(_PIECES), max_size=60).map("".join)


def feed(pieces: list[str]) -> TextSegmenter:
    """A closed feed that took these token texts."""
    taken = TextSegmenter()
    for piece in pieces:
        taken.update(Token(piece))
    taken.close()
    return taken


def cut(text: str, sizes: list[int]) -> list[str]:
    """The text in pieces of the given sizes, used in turn."""
    pieces, at, turn = [], 0, 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        pieces.append(text[at : at + size])
        at, turn = at + size, turn + 1
    return pieces


def sentences(text: str) -> list[str]:
    """The sentences of a text that arrives character by character."""
    return [span.text for span in feed(list(text)).sentences]


def places(spans: list[TextSpan]) -> list[tuple[str, int, int, int, bool]]:
    """What of the spans must not depend on tokens."""
    return [(s.text, s.start, s.end, s.line, s.closed) for s in spans]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Pagò 3.5 euro. Poi uscì.", ["Pagò 3.5 euro.", "Poi uscì."]),
        ("Paragrafo 12. Marta uscì. Tornò.", ["Paragrafo 12. Marta uscì.", "Tornò."]),
        ("Il sig. Rossi e J. R. Tolkien risero. Fine.", ["Il sig. Rossi e J. R. Tolkien risero.", "Fine."]),
        (
            "See No. 5 and p. 12. He said no. Then he left.",
            ["See No. 5 and p. 12.", "He said no.", "Then he left."],
        ),
        ("M. Dupont attend... encore ! Mme Roy rit.", ["M. Dupont attend... encore !", "Mme Roy rit."]),
        ("«Davvero?» chiese lei. «Sì.» Poi rise.", ["«Davvero?» chiese lei.", "«Sì.»", "Poi rise."]),
        ("Nacque nel 1998. Visse a lungo.", ["Nacque nel 1998.", "Visse a lungo."]),
        ("第一句。第二句！第三", ["第一句。", "第二句！", "第三"]),
        ("Titolo\n\nUna riga\nAltra riga", ["Titolo", "Una riga", "Altra riga"]),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text: str, expected: list[str]) -> None:
    """Decimals, abbreviations, initials, unit marks, quotes and CJK stops cut as people cut them."""
    assert sentences(text) == expected


@given(TEXTS, st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_the_cut_into_tokens_does_not_matter(text: str, sizes: list[int]) -> None:
    """Online and offline, one character or one chunk at a time: the same sentences, heads and lines."""
    one, other = feed(list(text)), feed(cut(text, sizes))
    assert places(one.sentences) == places(other.sentences)
    assert places(one.line_heads) == places(other.line_heads)
    assert places(one.lines) == places(other.lines)


@given(TEXTS)
def test_nothing_is_lost_and_nothing_invented(text: str) -> None:
    """The sentences are the text up to white space, each at the offsets it claims."""
    taken = feed(list(text))
    assert taken.text == text
    assert "".join("".join(s.text.split()) for s in taken.sentences) == "".join(text.split())
    for span in (*taken.sentences, *taken.lines, *taken.line_heads):
        assert text[span.start : span.end] == span.text


@given(TEXTS, st.lists(st.integers(1, 9), min_size=1), st.integers(0, 200), st.integers(0, 200))
def test_a_part_of_the_text_is_that_of_the_whole(text: str, sizes: list[int], start: int, end: int) -> None:
    """Reading a part costs that part, wherever it begins and ends."""
    assert feed(cut(text, sizes)).text_between(start, end) == text[start:end]


@given(st.lists(st.tuples(st.sampled_from([*_PIECES, ""]), st.booleans()), max_size=50))
def test_offsets_map_to_the_token_that_holds_them(tokens: list[tuple[str, bool]]) -> None:
    """Reasoning and empty tokens count as positions and hold no text of the answer."""
    taken, holders = TextSegmenter(), []
    for position, (text, reasoning) in enumerate(tokens, 1):
        taken.update(Token(text, reasoning=reasoning))
        holders += [] if reasoning else [position] * len(text)
    taken.close()
    assert [taken.token_at(i) for i in range(taken.chars)] == holders
    for span in taken.sentences:
        assert (span.first, span.last) == (holders[span.start], holders[span.end - 1])


def test_text_without_any_boundary_is_cut() -> None:
    """An endless sentence must not grow the pending text without bound, nor depend on chunking."""
    text = "parola " * 1000
    taken = feed([text])
    assert all(len(s.text) <= MAX_SENTENCE_CHARS for s in taken.sentences)
    assert places(taken.sentences) == places(feed(cut(text, [7])).sentences)


def test_a_line_is_known_by_its_head_before_it_ends() -> None:
    """A heading must be seen before its paragraph is over, or every numbering alarm comes a unit late."""
    taken = TextSegmenter()
    for char in "Paragrafo 3. " + "a" * LINE_HEAD_CHARS:
        taken.update(Token(char))
    assert taken.line_heads[0].text.startswith("Paragrafo 3.")
    assert taken.lines == []


def test_the_unfinished_sentence_has_a_first_token_before_and_after_the_end() -> None:
    """What counts as observed ends before the sentence that was cut off."""
    taken = TextSegmenter()
    for text in ("Uno.", " ", "Due", " e"):
        taken.update(Token(text))
    assert taken.pending_token == 3
    taken.close()
    assert taken.pending_token == 3
    assert feed(["Uno.", " Due."]).pending_token is None
