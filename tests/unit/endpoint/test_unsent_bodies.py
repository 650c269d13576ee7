"""Large requests: they arrive whole, wait for room, and leave nothing of themselves behind."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.unsent_bodies import MOST_BYTES, UnsentBodies, when_sent
from stresstest.model import Decoding, GenerationRequest, Message, Token
from tests.support.fake_vllm import Events, answer, fake_vllm

SMALL = GenerationRequest("lab", 8, Decoding(), messages=(Message("user", "Ciao"),))


def large(size: int) -> GenerationRequest:
    """A request with a picture of so many characters."""
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'A' * size}"}}
    wire = json.dumps({"role": "user", "content": [part]})
    return replace(SMALL, messages=(Message("user", "", wire=wire),))


def ignore(tokens: list[Token]) -> bool:
    return False


async def test_pictures_arrive_whole_at_once_and_in_turn() -> None:
    """Sixteen bodies of 3 MB are more than may be unsent at once; none is cut, none waits for ever."""
    asked = [large(3_000_000 + n) for n in range(16)]
    async with fake_vllm(Events(answer(["ok"]))) as server, Endpoint(server.url) as endpoint:
        endpoint.can_tokenize = endpoint.can_estimate = False
        found = await asyncio.gather(*(endpoint.generate(each, ignore) for each in asked))
    assert all(each.failure is None for each in found)
    sizes = [
        len(each.body["messages"][0]["content"][0]["image_url"]["url"]) - 22 for each in server.generations
    ]
    assert sorted(sizes) == [3_000_000 + n for n in range(16)]


async def test_a_body_beyond_the_budget_waits_until_others_are_sent() -> None:
    """32 requests with a photo of 4 MB each were all encoded at once: 700 MB."""
    bodies, order = UnsentBodies(), []

    async def send(name: str, size: int, until: asyncio.Event) -> None:
        async with bodies.hold(large(size)):
            order.append(name)
            await until.wait()
            when_sent()()
            order.append(f"{name} sent")
            await asyncio.sleep(0.01)

    go = asyncio.Event()
    one = asyncio.create_task(send("one", MOST_BYTES, go))
    await asyncio.sleep(0)
    two = asyncio.create_task(send("two", MOST_BYTES * 2, go))
    await asyncio.sleep(0)
    async with bodies.hold(SMALL):
        order.append("small")
    assert order == ["one", "small"]
    go.set()
    await asyncio.gather(one, two)
    assert order == ["one", "small", "one sent", "two", "two sent"]


async def test_a_request_that_is_cancelled_gives_its_room_back() -> None:
    """While it waits, and while it is sent."""
    bodies = UnsentBodies()

    async def send() -> None:
        async with bodies.hold(large(MOST_BYTES)):
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(send()) for _ in range(3)]
    await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    async with asyncio.timeout(5), bodies.hold(large(MOST_BYTES)):
        pass
