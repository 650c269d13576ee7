"""An open loop: requests leave at their times, and one that is lost takes no other with it."""

from __future__ import annotations

import asyncio

import pytest

from stresstest import clock
from stresstest.campaign.execution.attempt import GenerationTask
from stresstest.campaign.execution.openloop import drive_open_loop
from stresstest.detectors.entry import DetectorSpec
from stresstest.endpoint.client import Endpoint
from stresstest.errors import EndpointError
from stresstest.model import Decoding, Generation, GenerationRequest, Job, Message, Phase
from tests.support.fake_campaign import Behaviour, campaign_server


def work(index: int) -> GenerationTask:
    job = Job(Phase.COST, 0, index, None, index, index, 40)
    request = GenerationRequest(
        "fake", 40, Decoding(), messages=(Message("user", f"Scrivi {index + 1} paragrafi."),), seed=index
    )
    return GenerationTask(job, request, f"p{index}", "?", DetectorSpec("it"))


async def driven(url: str, arrivals: list[float], stop: asyncio.Event | None = None) -> list[Generation]:
    async with Endpoint(url, model="fake") as endpoint:
        works = [work(i) for i in range(len(arrivals))]
        return [g async for g in drive_open_loop(endpoint, works, arrivals, stop=stop)]


async def test_no_request_leaves_before_its_time() -> None:
    """Each is sent at its own time or, on a busy machine, later; all are answered."""
    arrivals = [0.0, 0.05, 0.1]
    begun = clock.now()
    with campaign_server(Behaviour()) as (server, _):
        found = await driven(server.url, arrivals)
    by_index = sorted(found, key=lambda g: g.job.index)
    assert [g.job.index for g in by_index] == [0, 1, 2]
    assert all(g.started - begun >= at for g, at in zip(by_index, arrivals, strict=True))
    assert all(g.failure is None and g.output_tokens for g in by_index)


async def test_a_stop_drops_what_has_not_left_yet() -> None:
    """Ctrl-C does not wait for arrivals an hour away."""
    stop = asyncio.Event()
    stop.set()
    with campaign_server(Behaviour()) as (server, _):
        assert await driven(server.url, [0.0, 3600.0], stop) == []


@pytest.mark.slow
async def test_nobody_there_is_an_endpoint_error() -> None:
    """With every request lost there is nothing to report but the error."""
    with pytest.raises(EndpointError):
        await driven("http://127.0.0.1:9/v1", [0.0, 0.0])
