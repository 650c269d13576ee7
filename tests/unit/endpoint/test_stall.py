"""How long a stream may stand still follows what its server has shown; times are a clock's of the test."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpx2
import pytest

from stresstest import clock
from stresstest.endpoint.address import EndpointAddress
from stresstest.endpoint.failures import stall_failure
from stresstest.endpoint.outcome import StallLimit, Timeouts
from stresstest.endpoint.stream import ResponseStream, StreamLimits
from stresstest.endpoint.transport import BODY_EXTENSION, DirectBody
from stresstest.model import FailureKind
from tests.support.fake_vllm import answer

ADDRESS = EndpointAddress.parse("http://127.0.0.1:9/v1", None)


class _Paced:
    """A response whose reads arrive after these pauses, in seconds of the test's clock."""

    def __init__(self, pauses: Sequence[float], monkeypatch: pytest.MonkeyPatch) -> None:
        self.content, self.headers = self, dict[str, str]()
        self._reads = iter(zip(answer(["a"] * 9, finish=None), pauses, strict=False))
        self._now = 1000.0
        monkeypatch.setattr(clock, "now", lambda: self._now)

    async def readany(self) -> bytes:
        data, pause = next(self._reads, (b"", 0.0))
        self._now += pause
        return data


async def allowed_after(pauses: Sequence[float], stall: StallLimit, monkeypatch: pytest.MonkeyPatch) -> float:
    """Seconds that a stream may stand still after these pauses before its reads."""
    paced = _Paced(pauses, monkeypatch)
    request = httpx2.Request("POST", ADDRESS.base_url)
    body = DirectBody(paced, request)  # type: ignore[arg-type]
    response = httpx2.Response(200, stream=body, extensions={BODY_EXTENSION: body})
    async with asyncio.timeout(60) as guard:
        stream = ResponseStream(ADDRESS, lambda _tokens: False, guard, stall, StreamLimits.of(2048))
        await stream.read(response)
    return stream.allowed


async def test_a_quick_server_is_given_up_after_five_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default is the floor, as long as a first token is waited for: any server may pause for a minute."""
    assert await allowed_after([2.0, 0.1, 5.0, 0.1], StallLimit(Timeouts()), monkeypatch) == 300.0


async def test_a_starved_server_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took 100 s for its first token: more than 300 s for the second are no surprise there."""
    assert await allowed_after([100.0, 0.1, 0.1], StallLimit(Timeouts()), monkeypatch) == pytest.approx(400.0)


async def test_one_stream_learns_from_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit belongs to the server: what one stream has seen holds for the next."""
    stall = StallLimit(Timeouts())
    await allowed_after([1.0, 0.1, 150.0, 0.1], stall, monkeypatch)
    assert await allowed_after([1.0, 0.1, 0.1], stall, monkeypatch) == pytest.approx(600.0)


async def test_the_limit_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue of minutes before the first token must not hide a dead stream for the rest of the run."""
    assert await allowed_after([900.0, 0.1, 0.1], StallLimit(Timeouts()), monkeypatch) == 1200.0


async def test_a_limit_that_is_given_does_not_follow_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """--stall-timeout is meant as it is said, below and above the defaults."""
    for given in (20.0, 900.0):
        limits = Timeouts().with_stall(given)
        assert await allowed_after([100.0, 0.1, 0.1], StallLimit(limits), monkeypatch) == given
        assert limits.first == max(300.0, given)


def test_the_sentence_names_the_pause_before_and_the_option() -> None:
    """A stream that was given up too early is the user's to judge: by what had gone on, and how to wait."""
    failure = stall_failure(ADDRESS, 60.0, 12.34, at_token=7)
    assert failure.kind is FailureKind.STALL
    assert "stood still for 60 s after 7 output tokens" in failure.message
    assert "the longest pause of this server before was 12.3 s" in failure.message
    assert "--stall-timeout SECONDS" in failure.message
