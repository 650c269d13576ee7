"""Tokens and documents come back from their stored form as they went in."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.errors import StoreError
from stresstest.model import ArrivedTokens, GenerationVerdict, Symptom, SymptomKind, Token
from stresstest.model.address import clean_url
from stresstest.store.codec import pack_tokens, unpack_tokens
from stresstest.store.documents import dump, load
from tests.support.stored_data import float32, make_generation

_text = st.text(st.characters(), max_size=8)  # surrogates and NUL included
_float32 = st.none() | st.floats(width=32, allow_nan=False)
_tokens = st.lists(
    st.builds(
        Token,
        text=_text,
        id=st.none() | st.integers(-(2**62), 2**62),
        logprob=_float32,
        entropy=_float32,
        arrived=st.floats(allow_nan=False),
        reasoning=st.booleans(),
    ),
    max_size=30,
)
_leaf = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | _text
_free = st.recursive(
    _leaf,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(_text, inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.slow
@given(_tokens)
def test_tokens_round_trip(tokens: list[Token]) -> None:
    """Every token comes back equal, whatever its text, order of arrival or missing measurements."""
    assert unpack_tokens(pack_tokens(tokens)) == tuple(tokens)


@given(_tokens, st.integers(0, 30))
def test_tokens_in_flight_are_what_arrived(tokens: list[Token], first: int) -> None:
    """They are held as columns: an object each took a third of a campaign's memory."""
    arrived = ArrivedTokens()
    arrived.extend(tokens[:first])
    arrived.extend(tokens[first:])
    assert len(arrived) == len(tokens)
    assert arrived.columns() == tokens


@pytest.mark.parametrize("number", [2**63, 2**70, -(2**63), -(2**64)])
def test_an_id_that_no_column_holds_is_no_id(number: int) -> None:
    """A generation with a hostile token id is stored all the same."""
    arrived = ArrivedTokens()
    arrived.extend([Token("x", id=number)])
    for tokens in (unpack_tokens(pack_tokens([Token("x", id=number)])), arrived.columns()):
        assert [(token.text, token.id) for token in tokens] == [("x", None)]


def test_float32_is_all_that_is_lost() -> None:
    """Logprobs and entropies are rounded to float32 and nothing else is; NaN becomes "not measured"."""
    token = Token("a", 7, -0.1, 1.0 / 3.0, 1_790_000_000.123456)
    blank = Token("b", None, math.nan, 1e300, 1_790_000_000.2)
    back = unpack_tokens(pack_tokens([token, blank]))
    assert back[0] == Token("a", 7, float32(-0.1), float32(1.0 / 3.0), 1_790_000_000.123456)
    assert back[1] == Token("b", None, None, math.inf, 1_790_000_000.2)


def test_a_long_generation_is_small() -> None:
    """16k tokens with random ids, logprobs and arrivals, the worst case, stay below 300 kB."""
    rng = random.Random(5)
    arrived = 1.79e9
    tokens = []
    for _ in range(16_384):
        arrived += rng.expovariate(50)
        word = "".join(rng.choices("abcdefghilmnoprstuvz", k=rng.randint(1, 6)))
        tokens.append(
            Token(f" {word}", rng.randrange(150_000), -rng.expovariate(2), rng.expovariate(1), arrived)
        )
    assert len(pack_tokens(tokens)) < 300_000


@given(st.binary(max_size=60))
def test_garbage_is_refused(blob: bytes) -> None:
    """Bytes that are no token block raise the store's error and no other."""
    with pytest.raises(StoreError):
        unpack_tokens(blob)


@given(st.data())
def test_damage_is_noticed_or_harmless(data: st.DataObject) -> None:
    """A block with a flipped byte, or cut short, is refused; it never yields other tokens."""
    tokens = make_generation(tokens=40).tokens
    blob = bytearray(pack_tokens(tokens))
    found: Sequence[Token] = tokens
    at = data.draw(st.integers(0, len(blob) - 1))
    if data.draw(st.booleans()):
        del blob[at:]
    else:
        blob[at] ^= data.draw(st.integers(1, 255))
    with suppress(StoreError):
        found = unpack_tokens(bytes(blob))
    assert found == tokens


@pytest.mark.slow
@given(st.dictionaries(_text, _free, max_size=4))
def test_details_round_trip(detail: dict[str, object]) -> None:
    """A detector's free-form numbers come back equal: tuples, infinities, huge integers included."""
    symptom = Symptom(SymptomKind.NEAR_LOOP, 5, 9, detail=detail)
    verdict = GenerationVerdict(10, 4, onset=5, alarm=9, symptoms=(symptom,))
    assert load(dump(verdict), GenerationVerdict) == verdict


def test_documents_survive_a_change_of_fields() -> None:
    """A document from an older version takes defaults; one from a newer version loses what is unknown."""
    assert load(
        '{"tokens": 9, "observed": 8, "invented_later": [1]}', GenerationVerdict
    ) == GenerationVerdict(9, 8)


@pytest.mark.parametrize("document", ["", "[]", "{", '{"tokens": "many", "observed": 1}', '{"observed": 1}'])
def test_damaged_documents_are_refused(document: str) -> None:
    """A damaged document is the store's error, with a sentence, not a traceback from a library."""
    with pytest.raises(StoreError, match="GenerationVerdict is damaged"):
        load(document, GenerationVerdict)


@pytest.mark.parametrize(
    ("given_url", "kept"),
    [
        ("http://user:hunter2@host:8000/v1?key=hunter2#hunter2", "http://host:8000/v1"),
        ("https://hunter2@[::1]:8000/v1", "https://[::1]:8000/v1"),
        ("http://a:hunter2@b@host/v1", "http://host/v1"),
        ("http://hunter2@[broken/v1?hunter2", "http://[broken/v1"),
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
    ],
)
def test_addresses_lose_their_credentials(given_url: str, kept: str) -> None:
    """Userinfo, query and fragment, where keys travel, do not reach the store."""
    assert clean_url(given_url) == kept
