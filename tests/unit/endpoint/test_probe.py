"""Probes: repeated where a server fails in passing, and invalid values that show what it reads."""

from __future__ import annotations

from stresstest.endpoint.capabilities import profile_endpoint
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.probe import unread_parameters
from tests.support.fake_vllm import Answer, Asked, Events, Reset, answer, fake_vllm, page


async def test_a_probe_that_fails_in_passing_is_repeated() -> None:
    """Each fifth request of a service failed, and so each fifth run, before its first prompt. No probe is the
    same as another: a cache in front of the server would answer it."""
    seeds: list[int] = []

    def flaky(asked: Asked) -> Answer:
        seeds.append((asked.body or {})["seed"])
        if len(seeds) < 3:
            return page({"error": {"message": "try again"}}, 503)
        return Events(answer(["Ciao", "!"]))

    async with fake_vllm(flaky) as server, Endpoint(server.url) as endpoint:
        assert (await profile_endpoint(endpoint, "lab")).top_logprobs == 20
    assert len(set(seeds[:3])) == 3


async def test_a_parameter_whose_invalid_value_is_taken_is_not_known_to_be_read() -> None:
    """A gateway drops one of two parameters; the other's invalid value is refused."""

    def gateway(asked: Asked) -> Answer:
        if (asked.body or {}).get("temperature", 1.0) < 0:
            return page({"error": {"message": "temperature must be non-negative"}}, 400)
        return Events(answer(["Ciao"]))

    async with fake_vllm(gateway) as server, Endpoint(server.url, model="lab") as endpoint:
        names = ("temperature", "repetition_penalty")
        profile = await profile_endpoint(endpoint, "lab")
        assert await unread_parameters(endpoint, profile, names) == ["repetition_penalty"]


async def test_a_server_that_hangs_up_at_a_field_is_asked_without_it() -> None:
    """mlx-lm closes the connection where more than ten logprobs are wanted: it could not be measured."""

    def strict(asked: Asked) -> Answer:
        return Reset() if (asked.body or {}).get("top_logprobs", 0) > 10 else Events(answer(["Ciao", "!"]))

    async with fake_vllm(strict) as server, Endpoint(server.url) as endpoint:
        found = await profile_endpoint(endpoint, "lab")
    assert found.top_logprobs == 5
    assert found.token_ids
