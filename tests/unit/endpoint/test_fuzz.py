"""The stream parser against mutated streams: no crash, no lost text, no lost token. `make fuzz` does more."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stresstest.endpoint.assembly import TokenAssembler
from stresstest.model import Token
from tests.fuzz.__main__ import fuzz
from tests.fuzz.mutation import KINDS, SCALE, Change, corpus, mutated
from tests.fuzz.reading import check, endpoint, read
from tests.support.fake_vllm import DONE, chunk, sse

STREAMS = corpus()
_NUMBER = st.integers(0, SCALE - 1)
_CHANGES = st.lists(st.builds(Change, st.integers(0, KINDS - 1), _NUMBER, _NUMBER), max_size=6)


def test_the_streams_to_be_mutated_are_whole() -> None:
    """Every stream of the corpus, unmutated, ends and gives tokens: what is broken is broken by us."""

    async def read_all() -> list[int]:
        asked = endpoint()
        found = [await read([stream], asked) for stream in STREAMS]
        for one, stream in zip(found, STREAMS, strict=True):
            check(one, stream)
        return [len(one.tokens) for one in found]

    counts = asyncio.run(read_all())
    assert len(counts) > 15
    assert min(counts) >= 1


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(st.sampled_from(STREAMS), _CHANGES, st.lists(_NUMBER, max_size=6), st.integers(1, 3))
@example(STREAMS[0], [], [1, 2, 3], 1)
def test_any_mutation_ends_in_an_outcome(
    stream: bytes, changes: list[Change], marks: list[int], stop_at: int
) -> None:
    """Whatever the bytes: an outcome, every token counted, all text given, and the same however the network
    cuts them, a byte at a time included; an abort accounts for what it took."""
    bytes_ = mutated(stream, changes, STREAMS)
    places = sorted(len(bytes_) * mark // SCALE for mark in marks)
    reads = [bytes_[a:b] for a, b in zip([0, *places], [*places, len(bytes_)], strict=True)]

    async def play() -> None:
        asked = endpoint()
        found = await read(reads, asked)
        check(found, bytes_)
        singly = [bytes_[i : i + 1] for i in range(min(len(bytes_), 3000))] + [bytes_[3000:]]
        for other in ([bytes_], singly):
            assert (await read(other, asked)).facts == found.facts
        check(await read([bytes_], asked, stop_at=stop_at), bytes_)

    asyncio.run(play())


def test_three_thousand_streams_of_the_long_fuzzer() -> None:
    """A small share of `make fuzz`, so that it is known to run: outcomes of many kinds come up."""
    ends = asyncio.run(fuzz(3000, seed=7))
    tokens = ends.pop("tokens")
    assert sum(ends.values()) == 3000
    assert tokens > 3000
    assert {"malformed", "cut", "stream_error", "finish stop", "finish length"} <= ends.keys()


@pytest.mark.parametrize("fault", ["a token that is not counted", "text that is dropped"])
def test_the_checks_would_notice(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """A parser that loses a token or its text does not pass: the fuzzer's silence means something."""

    def lossy(self: TokenAssembler, at: float) -> list[Token]:
        found = flush(self, at)
        if fault == "text that is dropped":
            return [Token("") for _ in found]
        self.produced -= len(found)
        return found

    flush = TokenAssembler.flush
    stream = b"".join([*sse(chunk("a", ids=[1]), chunk("b", ids=[], finish="stop")), DONE])

    async def play() -> None:
        check(await read([stream], endpoint()), stream)

    asyncio.run(play())
    monkeypatch.setattr(TokenAssembler, "flush", lossy)
    with pytest.raises(AssertionError):
        asyncio.run(play())


def test_mutations_do_not_depend_on_anything_else() -> None:
    """The same changes give the same bytes, so that a failure can be played again from its seed."""
    rng = random.Random(3)
    changes = [Change(rng.randrange(KINDS), rng.randrange(SCALE), rng.randrange(SCALE)) for _ in range(5)]
    assert mutated(STREAMS[1], changes, STREAMS) == mutated(STREAMS[1], changes, STREAMS) != STREAMS[1]
