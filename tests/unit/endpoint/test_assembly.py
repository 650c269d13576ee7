"""Chunks to tokens and bytes to events: properties that hold however a server cuts its stream."""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate, pairwise
from math import log
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.campaign.execution.token_scale import TokenScale
from stresstest.detectors.text.tokens import split_pieces
from stresstest.endpoint.assembly import TokenAssembler, split_at_pieces, split_evenly
from stresstest.endpoint.wire import EventReader, StreamChunk, decode_chunk
from stresstest.model import Token
from stresstest.model.tokens import entropy_bound
from tests.support.fake_vllm import chunk, entry, sse

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)


def decoded(value: dict[str, Any]) -> StreamChunk:
    """A scripted chunk as the wire delivers it."""
    return decode_chunk(json.dumps(value).encode())


@given(text=TEXT, pieces=st.lists(TEXT, min_size=1, max_size=6))
def test_cut_parts_are_the_text(text: str, pieces: list[str]) -> None:
    """Whatever the entries claim, the parts joined are the streamed text, one part a token."""
    parts = split_at_pieces(text, pieces)
    assert "".join(parts) == text
    assert len(parts) == len(pieces)


@given(pieces=st.lists(TEXT, min_size=1, max_size=6))
def test_cut_finds_the_pieces(pieces: list[str]) -> None:
    """When the entries are true, every token gets exactly its own text."""
    assert split_at_pieces("".join(pieces), pieces) == pieces


@given(text=TEXT, n=st.integers(1, 9))
def test_cut_evenly_parts_are_the_text(text: str, n: int) -> None:
    """Without borders the text is shared out, and nothing of it is lost."""
    parts = split_evenly(text, n)
    assert "".join(parts) == text
    assert len(parts) == n


@given(
    text=st.text(st.characters(codec="utf-8"), min_size=1, max_size=20),
    token_cuts=st.lists(st.integers(0, 80), max_size=8),
    chunk_sizes=st.lists(st.integers(1, 4), min_size=1, max_size=8),
)
def test_bytes_cut_into_tokens_anywhere(text: str, token_cuts: list[int], chunk_sizes: list[int]) -> None:
    """A byte-level vocabulary cuts characters anywhere, a stream interval groups tokens anyhow: the
    joined texts are the streamed text and every token is counted once."""
    raw = text.encode()
    marks = sorted({0, len(raw), *(c for c in token_cuts if c < len(raw))})
    pieces = [raw[a:b] for a, b in pairwise(marks)]
    made, tokens, at, sent = TokenAssembler(), list[Token](), 0, 0
    for turn in range(len(pieces)):
        group = pieces[at : at + chunk_sizes[turn % len(chunk_sizes)]]
        if not group:
            break
        at += len(group)
        # As vLLM's detokenizer does: only whole characters are shown.
        shown = b"".join(pieces[:at]).decode("utf-8", "ignore")
        entries = [entry(p.decode("utf-8", "replace"), raw=p, top=1) for p in group]
        tokens += made.add_chunk(decoded(chunk(shown[sent:], entries=entries)), 1.0)
        sent = len(shown)
    tokens += made.flush(2.0)
    assert "".join(token.text for token in tokens) == text
    assert len(tokens) == len(pieces)


@given(
    words=st.lists(st.text(max_size=5), min_size=1, max_size=5),
    cuts=st.lists(st.integers(1, 9), min_size=1, max_size=9),
    crlf=st.booleans(),
)
def test_events_however_tcp_cuts_them(words: list[str], cuts: list[int], crlf: bool) -> None:
    """The same payloads come out of any division of the bytes, with either line end."""
    whole = b"".join(sse(*words))
    if crlf:
        whole = whole.replace(b"\n", b"\r\n")
    reader, payloads, at, turn = EventReader(), list[bytes](), 0, 0
    while at < len(whole):
        step = cuts[turn % len(cuts)]
        payloads += reader.feed(whole[at : at + step])
        at, turn = at + step, turn + 1
    payloads += reader.finish()
    assert [json.loads(payload) for payload in payloads] == words
    assert reader.foreign == b""


def test_only_the_first_choice_counts() -> None:
    """Another choice of the same request is not this generation."""
    value = chunk("a", ids=[1])
    value["choices"].insert(0, {"index": 1, "delta": {"content": "zzz"}})
    assert [token.text for token in TokenAssembler().add_chunk(decoded(value), 1.0)] == ["a"]


def test_a_sure_token_has_no_entropy() -> None:
    """Probability one is entropy zero, which is not the same as not measured."""
    value = chunk("a", entries=[{"token": "a", "logprob": 0.0, "top_logprobs": [{"logprob": 0}]}])
    bare = chunk("a", entries=[{"token": "a", "logprob": 0.0}])
    assert TokenAssembler().add_chunk(decoded(value), 1.0)[0].entropy == 0.0
    assert TokenAssembler().add_chunk(decoded(bare), 1.0)[0].entropy is None


@given(st.lists(st.floats(), max_size=25))
def test_entropy_survives_any_number(logprobs: list[float]) -> None:
    """A hostile or broken server's logprobs give a number that can be an entropy, never an exception."""
    assert 0.0 <= entropy_bound(logprobs) <= log(26)
    assert entropy_bound([1000.0, -1.0]) == entropy_bound([0.0, -1.0])


def test_arguments_of_a_tool_call_are_the_answer() -> None:
    """A model that calls tools writes nothing else: a flood in its arguments must be seen."""
    made = TokenAssembler()
    line = b'{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{ 1"}}]}}]}'
    assert "".join(token.text for token in made.add_chunk(decode_chunk(line), 0.0) + made.flush(0.0)) == "{ 1"


def test_ids_of_another_number_than_the_logprobs_are_dropped() -> None:
    """A proxy that doubles every id must not double the tokens: a limit would be certified past the cap."""
    assembler = TokenAssembler()
    words = ["one ", "two ", "three "]
    tokens = []
    for number, word in enumerate(words):
        event = chunk(word, ids=[number, number], entries=[entry(word)])
        tokens += assembler.add_chunk(decoded(event), 0.0)
    assert [token.text for token in tokens] == words
    assert [token.id for token in tokens] == [None] * 3
    assert not assembler.has_ids


def uncounted(*texts: str) -> tuple[list[Token], TokenAssembler]:
    """The tokens of events without ids, logprobs or usage."""
    assembler = TokenAssembler()
    events = [decoded({"choices": [{"index": 0, "delta": {"content": text}}]}) for text in texts]
    tokens = [token for event in events for token in assembler.add_chunk(event, 1.0)]
    return tokens + assembler.flush(1.0), assembler


@given(st.text(max_size=300), st.lists(st.integers(0, 300), max_size=12))
def test_text_that_nobody_counts_is_cut_as_recorded_text_is(text: str, cuts: list[int]) -> None:
    """Gateways join tokens, speculative decoding joins a varying number of them, and some send an answer at
    once. Judged by events, a flood of 3,000 "!" was healthy; `scan` of the same text said so at once."""
    borders = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    tokens, assembler = uncounted(*(text[a:b] for a, b in pairwise(borders)))
    assert [token.text for token in tokens] == split_pieces(text)
    assert assembler.produced == len(tokens)
    assert assembler.uncounted_texts == [token.text for token in tokens]


@pytest.mark.parametrize("total", [2, 3, 150])
def test_a_total_with_the_last_event_is_no_count_of_its_text(total: int) -> None:
    """The held word was cut into as many tokens as the whole answer has."""
    made = TokenAssembler()
    tokens: list[Token] = []
    for text in ("Hello", " my", " friend"):
        tokens += made.add_chunk(decoded({"choices": [{"index": 0, "delta": {"content": text}}]}), 1.0)
    last = {"index": 0, "delta": {}, "finish_reason": "stop"}
    tokens += made.add_chunk(decoded({"choices": [last], "usage": {"completion_tokens": total}}), 1.0)
    tokens += made.flush(1.0)
    assert [token.text for token in tokens] == ["Hello", " my", " friend"]
    assert (made.total, made.produced, len(made.uncounted_texts)) == (total, 3, 3)
    assert not made.running_usage  # so OpenRouter ends every stream


@pytest.mark.parametrize("joined", [1, 8, 9, 200, 5_000])
def test_many_tokens_of_one_event_have_no_known_place(joined: int) -> None:
    """A gateway that does not stream sends the answer and its usage in one event. Shared out evenly, a loop
    of short tokens began 60 % too late: T = 150 at which 40 % had failed, "at most 10 %"."""
    words = [" harbours", " lighthouse", " fishermen"] * 30 + [" so", " it", " is"] * 60
    made = TokenAssembler()
    tokens: list[Token] = []
    for at in range(0, len(words), joined):
        part, until = "".join(words[at : at + joined]), min(at + joined, len(words))
        event = {"choices": [{"index": 0, "delta": {"content": part}}], "usage": {"completion_tokens": until}}
        tokens += made.add_chunk(decoded(event), 1.0)
    tokens += made.flush(1.0)
    if joined <= 8:
        assert (len(tokens), made.uncounted_texts) == (len(words), [])
        return
    scale = TokenScale(tokens, made.total or 0, made.event_ends)
    loop = next(n for n, token in enumerate(tokens, 1) if token.text == " so")
    assert 60 <= scale.first_token(loop) <= 91
    assert made.total == len(words)


_PROSE = [" The", " boat", " left", " the", " harbour", " early", ".", " Nobody", " saw", " it"]
_NAME = [" J", "ęd", "rze", "jew", "ski", ",", " K", "rzy", "szt", "of"]


@given(
    prose=st.integers(1, 120),
    loop=st.integers(1, 120),
    counted=st.lists(st.booleans(), min_size=1, max_size=12),
    drafted=st.booleans(),
)
def test_no_position_is_late_where_some_events_have_logprobs(
    prose: int, loop: int, counted: list[bool], drafted: bool
) -> None:
    """llama.cpp sends no logprobs with the tokens of a draft: with `--spec-type ngram-simple` those of a
    loop. Its events were laid over the prose before it: T = 578 was certified where all looped by 400."""
    words = [_PROSE[n % len(_PROSE)] for n in range(prose)] + [_NAME[n % len(_NAME)] for n in range(loop)]
    made = TokenAssembler()
    tokens: list[Token] = []
    for n, word in enumerate(words):
        is_counted = n < prose if drafted else counted[n % len(counted)]
        entries = [entry(word)] if is_counted else None
        tokens += made.add_chunk(decoded(chunk(word, entries=entries)), 1.0)
    tokens += made.flush(1.0)
    scale = TokenScale(tokens, len(words), made.event_ends)
    ends = list(accumulate(len(word) for word in words))
    at = 0
    for k, token in enumerate(tokens, 1):
        true = bisect_right(ends, at) + 1
        assert scale.first_token(k) <= true
        if drafted and true == prose + 1:
            assert scale.first_token(k) >= true - 2
        at += len(token.text)


def test_a_count_of_nothing_beside_text_counts_nothing() -> None:
    """A gateway writes 0 until the last event, whose total was then shared out over all of the text."""
    made = TokenAssembler()
    tokens: list[Token] = []
    for _ in range(40):
        event = {
            "choices": [{"index": 0, "delta": {"content": "the sea "}}],
            "usage": {"completion_tokens": 0},
        }
        tokens += made.add_chunk(decoded(event), 1.0)
    last = {"index": 0, "delta": {}, "finish_reason": "stop"}
    tokens += made.add_chunk(decoded({"choices": [last], "usage": {"completion_tokens": 80}}), 1.0)
    tokens += made.flush(1.0)
    assert "".join(token.text for token in tokens) == "the sea " * 40
    assert made.uncounted_texts == [token.text for token in tokens]
    assert made.total == 80


def test_events_of_other_apis_are_read() -> None:
    """Some end with `choices: null`, and Together gives each token's logprob as a bare number."""
    made = TokenAssembler()
    made.add_chunk(decoded({"choices": [{"delta": {"content": "Hi"}, "logprobs": -0.5}]}), 1.0)
    made.add_chunk(decoded({"choices": None, "usage": {"completion_tokens": 1}}), 1.0)
    assert [token.text for token in made.flush(1.0)] == ["Hi"]
    assert (made.total, made.top_seen) == (1, 0)


def test_a_held_word_comes_before_what_is_counted_after_it() -> None:
    """A server that tells the answer's tokens and not the thought's: no thought in the answer."""
    made = TokenAssembler()
    thought = {"index": 0, "delta": {"reasoning": "think hard"}}
    answer = {"index": 0, "delta": {"content": "Hi"}, "token_ids": [5]}
    tokens = made.add_chunk(decoded({"choices": [thought]}), 1.0)
    tokens += made.add_chunk(decoded({"choices": [answer]}), 1.0) + made.flush(1.0)
    assert [(token.text, token.id, token.reasoning) for token in tokens] == [
        ("think", None, True), (" hard", None, True), ("Hi", 5, False)
    ]  # fmt: skip


@pytest.mark.parametrize("ids", [[7], [7, 8]])
def test_a_token_without_text_is_of_the_kind_before_it(ids: list[int]) -> None:
    """The first tokens of an emoji come without text. As answers they cut a thought up, and a loop with
    one emoji in it was never seen."""
    made = TokenAssembler()
    events = [
        ({"reasoning": "so"}, [5]),
        ({}, ids),
        ({"reasoning": "🙂"}, [9]),
        ({"content": "Yes"}, [4]),
        ({}, ids),
    ]
    kinds = [
        token.reasoning
        for delta, numbers in events
        for token in made.add_chunk(
            decoded({"choices": [{"index": 0, "delta": delta, "token_ids": numbers}]}), 1.0
        )
    ]
    assert kinds == [True] * (2 + len(ids)) + [False] * (1 + len(ids))


def test_a_thought_and_an_answer_in_one_event_are_cut_apart() -> None:
    """As a gateway sends them that turns a whole body into a stream."""
    event = {"index": 0, "delta": {"reasoning": "I think so. " * 9, "content": "Yes, I am sure. " * 9}}
    tokens = TokenAssembler().add_chunk(decoded({"choices": [event]}), 1.0)
    assert {token.reasoning for token in tokens} == {True, False}
    assert "".join(token.text for token in tokens if token.reasoning) == "I think so. " * 9


@given(st.lists(st.tuples(TEXT, st.none() | st.integers(0, 9), st.booleans()), max_size=8))
def test_tokens_without_a_time_are_those_with_one(pieces: list[tuple[str, int | None, bool]]) -> None:
    """Readers without a clock share the objects of equal tokens; nothing else differs."""
    timed, shared = TokenAssembler(), TokenAssembler()
    for text, number, reasoning in pieces:
        delta = {"reasoning" if reasoning else "content": text}
        ids = {} if number is None else {"token_ids": [number]}
        made = decoded({"choices": [{"index": 0, "delta": delta, **ids}]})
        with_time, without = timed.add_chunk(made, 5.0), shared.add_chunk(made, 0.0)
        assert without == [replace(token, arrived=0.0) for token in with_time]


@pytest.mark.parametrize("number", ["null", "NaN", "-Infinity"])
def test_a_model_whose_numbers_overflow_is_read_to_its_failure(number: str) -> None:
    """vLLM writes null for NaN. The stream was "lost" at the first such token, which is the failure's, and
    left out of the sample: "none of 22", where nine of 38 end in "!!!!"."""
    content = f'[{{"token": "!", "logprob": {number}, "top_logprobs": [{{"logprob": {number}}}]}}]'
    raw = f'{{"choices": [{{"delta": {{"content": "!"}}, "logprobs": {{"content": {content}}}}}]}}'
    [token] = TokenAssembler().add_chunk(decode_chunk(raw.encode()), 1.0)
    assert (token.text, token.logprob) == ("!", None)
    lists = f'"tokens": ["!"], "token_logprobs": [{number}], "top_logprobs": [{{"!": {number}}}]'
    raw = f'{{"choices": [{{"text": "!", "logprobs": {{{lists}}}}}]}}'
    [token] = TokenAssembler().add_chunk(decode_chunk(raw.encode()), 1.0)
    assert (token.text, token.logprob) == ("!", None)


def test_halves_of_an_emoji_are_no_fault_of_the_stream() -> None:
    """Gateways in JavaScript cut one in two: an answer was lost at its first emoji, where its flood began."""
    made = TokenAssembler()
    tokens: list[Token] = []
    for half in ("\\ud83d", "\\ude00") * 20:
        raw = f'{{"choices": [{{"delta": {{"content": "{half}"}}, "token_ids": [7]}}]}}'
        tokens += made.add_chunk(decode_chunk(raw.encode()), 1.0)
    assert [token.text for token in tokens] == ["\ufffd"] * 40
