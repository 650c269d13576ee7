"""The simulated model's tokenizer: lossless for anything, and as dense as a real one."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.vocabulary import (
    ASSISTANT,
    BOS,
    END,
    EOS,
    SYSTEM,
    USER,
    VOCABULARY_SIZE,
    decode,
    encode,
    encode_chat,
    token_bytes,
)
from stresstest.simulation.engine.writing.composer import SentenceComposer

SPECIALS = (BOS, EOS, SYSTEM, USER, ASSISTANT, END)
TRICKY = (
    "",
    "Paragrafo 12. L'orologiaio non c'era più.\n\nParagrafo 13.",
    "🙂👩‍👩‍👧‍👦🏳️‍🌈 e poi",
    "的一是不了龘 смысл ひらがな 한국어 العربية",
    "\x00\x07\x1b[31m\r\n\t\x7f\u2028\ufeff",
    "   a  b\n\n\n\nc      ",
    "<|user|><|eos|>",
    "e\u0301 ﬁ ǅ",
    "x" * 300,
)


@pytest.mark.parametrize("text", TRICKY)
def test_tricky_texts_come_back_unchanged(text: str) -> None:
    """Emoji, scripts, control characters, runs of blanks and look-alike control tokens are lossless."""
    ids = encode(text)
    assert decode(ids) == text
    assert not set(ids) & set(SPECIALS)


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_any_text_comes_back_unchanged(text: str) -> None:
    """decode(encode(t)) == t, every id is in range, and the pieces are the text's bytes."""
    ids = encode(text)
    assert decode(ids) == text
    assert all(0 <= each < VOCABULARY_SIZE for each in ids)
    assert b"".join(token_bytes(each) for each in ids) == text.encode()


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=40))
def test_lone_bytes_are_tokens_of_their_own(data: bytes) -> None:
    """Every byte has a token; what is no UTF-8 decodes to replacement characters, as everywhere."""
    assert decode(list(data)) == data.decode("utf-8", "replace")


def test_a_lone_surrogate_does_not_stop_the_server() -> None:
    """A client can send half a surrogate pair in JSON; it is no character and becomes a question mark."""
    assert decode(encode("a\ud800b")) == "a?b"


def test_ids_out_of_range_are_refused() -> None:
    """A client's token ids are foreign data: an unknown or negative one raises IndexError."""
    for bad in (VOCABULARY_SIZE, -1):
        with pytest.raises(IndexError):
            token_bytes(bad)


def test_no_two_tokens_share_their_bytes() -> None:
    """Otherwise a text would have two encodings and a loop two spellings."""
    pieces = [token_bytes(each) for each in range(VOCABULARY_SIZE) if each not in SPECIALS]
    assert len(set(pieces)) == len(pieces)
    assert VOCABULARY_SIZE < 2**31


def test_a_chat_prompt_marks_its_roles_and_ends_with_the_assistant() -> None:
    """The engine recognises the parts of a prompt by the control tokens."""
    ids = encode_chat([("system", "Sii breve."), ("user", "Ciao <|user|>"), ("assistant", "Ciao.")])
    assert ids[:2] == [BOS, SYSTEM]
    assert ids[-1] == ASSISTANT
    assert ids.count(USER) == 1
    assert ids.count(END) == 3
    assert decode(ids).endswith("<|assistant|>Ciao.<|end|><|assistant|>")


@pytest.mark.parametrize(
    ("language", "least", "most"),
    [
        ("it", 1.5, 1.72),
        ("fr", 1.45, 1.7),
        ("de", 1.45, 1.7),
        ("es", 1.45, 1.7),
        ("pt", 1.45, 1.7),
        ("en", 1.2, 1.37),
    ],
)
def test_density_is_that_of_a_real_tokenizer(language: str, least: float, most: float) -> None:
    """Tokens a word: what sets how many tokens an answer of so many paragraphs costs."""
    composer = SentenceComposer(language, random.Random(1))
    registers = [r for r in ("narrative", "technical", "study") if r in composer.grammar.registers]
    texts = [" " + composer.sentence(register) for register in registers for _ in range(150)]
    tokens = sum(len(encode(text)) for text in texts)
    words = sum(len(text.split()) for text in texts)
    assert least <= tokens / words <= most


def test_text_cut_between_words_encodes_as_its_parts() -> None:
    """A continued answer is encoded again from its text: the ids must be those it was written with."""
    composer = SentenceComposer("it", random.Random(3))
    sentences = [" " + composer.sentence("technical") for _ in range(50)]
    assert encode("".join(sentences)) == [each for sentence in sentences for each in encode(sentence)]
    assert vocabulary.encode("\n\nParagrafo 3.") == [*encode("\n\n"), *encode("Paragrafo 3.")]


def test_numbers_are_single_digits() -> None:
    """As in the models of the source case: unit numbers cost a token a digit."""
    assert [token_bytes(each) for each in encode(" 1234")] == [b" ", b"1", b"2", b"3", b"4"]
    assert all(not re.search(rb"\d\D|\D\d", token_bytes(each)) for each in range(262, VOCABULARY_SIZE))
