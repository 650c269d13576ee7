"""Tokens that a server counts and does not show."""

from __future__ import annotations

import random
import re
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.campaign.execution.unseen import count_unseen
from stresstest.detectors.text.tokens import split_pieces
from stresstest.model import Token
from tests.support.stories import story

TEXT = story(6, seed=3)
_RUSSIAN = """
_хран итель _мая ка _запис ал _час _и _направ ление _вет ра , _потом _перес чит ал _вернув шиеся _лод
ки . _утром _над _бух той _стоял _туман ; _дочь _рыба ка _при несла _хлеб , _соль _а _старый _лоц ман _по
ведал _о _кораб лях
"""
_CHINESE = """
守 塔 人 记下 了 时辰 和 风向 , 然后 数 了 数 回港 的 渔船 。 早晨 海湾 上 起了 雾 ; 渔夫 的 女儿 带来
面包 老 引水员
"""
_PIECE = re.compile(r" ?\w{1,7}|\s+|[^\w\s]")


def _english() -> list[str]:
    """About a tokenizer's tokens: short words whole with their blank, longer ones in parts."""
    return _PIECE.findall(TEXT)


def _shuffled(pieces: list[str]) -> list[str]:
    return random.Random(7).choices(pieces, k=600)


TOKENS = {
    "English": _english(),
    "Russian": _shuffled([piece.replace("_", " ") for piece in _RUSSIAN.split()]),
    "Chinese": _shuffled(_CHINESE.split()),
}


def _ends(pieces: list[str]) -> list[int]:
    return list(accumulate(map(len, pieces)))


def _unseen(pieces: list[str], counted: int) -> int:
    text = "".join(pieces)
    return count_unseen([Token(word) for word in split_pieces(text)], counted, _ends(pieces))


@pytest.mark.parametrize(("language", "hidden"), [("English", 100), ("Russian", 300), ("Chinese", 900)])
def test_blank_tokens_behind_the_text_are_counted(language: str, hidden: int) -> None:
    """Where logits are NaN, Gemma writes padding, which LiteLLM and llama.cpp drop: an answer that was blank
    from token 600 of 900 on passed for a healthy one of 900."""
    tokens = TOKENS[language]
    assert _unseen(tokens, len(tokens)) == 0
    assert 0.3 * hidden <= _unseen(tokens, len(tokens) + hidden) <= hidden


@pytest.mark.parametrize("language", TOKENS)
@pytest.mark.parametrize("at", [0, 40])
def test_tokens_that_arrive_without_text_are_unseen(language: str, at: int) -> None:
    """vLLM sends the ids of hidden reasoning without its text: 600 tokens that looped in half of the answers
    were taken for healthy."""
    tokens = [Token(piece) for piece in TOKENS[language]]
    hidden = [*tokens[:at], *[Token("")] * 200, *tokens[at:]]
    assert 185 <= count_unseen(hidden, len(hidden)) <= 200
    assert count_unseen(tokens, len(tokens)) == 0


def test_text_that_was_held_back_is_seen() -> None:
    """A server that looks for a stop sequence sends the text of several tokens with a later one; of a
    character's tokens, only the last comes with text."""
    pieces = _english()
    held = [Token("".join(pieces[n - 4 : n + 1]) if n % 5 == 4 else "") for n in range(len(pieces) // 5 * 5)]
    assert count_unseen(held, len(held)) == 0
    japanese = [Token(text) for sign in "ある日のことでございます" * 20 for text in ("", "", sign)]
    assert count_unseen(japanese, len(japanese)) == 0


def test_simple_prose_is_recognised_by_its_commas() -> None:
    """A large vocabulary has every word of a simple story: no token begins within one, and events that were
    tokens were not taken for them."""
    pieces = re.findall(r" ?\w+|[^\w\s]|\s+", TEXT)
    assert 250 <= _unseen(pieces, len(pieces) + 300) <= 300
    assert _unseen(pieces, len(pieces)) == 0


@pytest.mark.parametrize("cut", [r"\s*\S+", r"(?s).{12}", r"\S+\s*"])
def test_pieces_that_are_no_tokens_say_nothing(cut: str) -> None:
    """Gateways send word by word, or cut texts to one size: fewer events than tokens are no failure there."""
    tokens, pieces = _english(), re.findall(cut, TEXT)
    assert _unseen(pieces, len(tokens)) == 0


@given(st.integers(0, 2**32), st.integers(2, 5))
def test_speculative_decoding_hides_nothing(seed: int, most: int) -> None:
    """An event of several accepted tokens is several tokens."""
    rng, tokens, pieces = random.Random(seed), _english(), list[str]()
    while tokens:
        size = rng.randint(1, most)
        pieces.append("".join(tokens[:size]))
        tokens = tokens[size:]
    assert _unseen(pieces, len(_english())) == 0


@given(st.lists(st.text(min_size=1, max_size=6), min_size=70, max_size=200))
def test_every_token_that_is_shown_is_seen(pieces: list[str]) -> None:
    """Whatever the events hold, one token an event is never taken for more."""
    assert _unseen(pieces, len(pieces)) == 0
