"""Probes: repeated where a server fails in passing, and invalid values that show what it reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stresstest.endpoint.capabilities import profile_endpoint
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.parameters import missing_reading, unread_parameters
from stresstest.errors import EndpointError
from stresstest.model import PARAMETERS
from tests.support.fake_vllm import Answer, Asked, Events, Page, Reset, answer, fake_vllm, page


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
        assert (await unread_parameters(endpoint, profile, names)).taken == ("repetition_penalty",)


async def test_a_server_that_hangs_up_at_a_field_is_asked_without_it() -> None:
    """mlx-lm closes the connection where more than ten logprobs are wanted: it could not be measured."""

    def strict(asked: Asked) -> Answer:
        return Reset() if (asked.body or {}).get("top_logprobs", 0) > 10 else Events(answer(["Ciao", "!"]))

    async with fake_vllm(strict) as server, Endpoint(server.url) as endpoint:
        found = await profile_endpoint(endpoint, "lab")
    assert found.top_logprobs == 5
    assert found.token_ids


async def test_where_there_are_no_completions_the_refusal_of_the_chat_is_told() -> None:
    """OpenAI's reasoning models refuse max_tokens; what was told was that the address is not known."""

    def refuses(asked: Asked) -> Answer:
        if asked.path.endswith("/chat/completions"):
            return page({"error": {"message": "Unsupported parameter: 'max_tokens'"}}, 400)
        return page({"error": {"message": "Not Found"}}, 404)

    async with fake_vllm(refuses) as server, Endpoint(server.url) as endpoint:
        with pytest.raises(EndpointError, match="Unsupported parameter"):
            await profile_endpoint(endpoint, "lab")


@pytest.mark.parametrize("name", sorted(PARAMETERS))
@pytest.mark.parametrize("reads", [True, False])
async def test_a_parameter_that_is_checked_and_dropped_is_not_known_to_be_read(
    name: str, reads: bool
) -> None:
    """NVIDIA Dynamo's frontend refuses invalid values, and its SGLang worker did not pass the valid ones on:
    a limit was certified for a penalty that no model had seen."""

    def frontend(asked: Asked) -> Answer:
        body = asked.body or {}
        value, seed = body.get(name), body.get("seed")
        if value in (-1.0, 2.0, -7, 9.0) and name != "presence_penalty" and name != "frequency_penalty":
            return page({"error": {"message": f"{name} is out of range"}}, 400)
        if value == 9.0:
            return page({"error": {"message": f"{name} is out of range"}}, 400)
        if "penalty" in name:
            return Events(answer(["Once ", f"more {value}" if reads else "more"]))
        return Events(answer(["Once ", "more" if reads else f"more {seed}"]))

    async with fake_vllm(frontend) as server, Endpoint(server.url, model="lab") as endpoint:
        server.pages["/metrics"] = Page(b"", 404)
        profile = await profile_endpoint(endpoint, "lab")
        found = await unread_parameters(endpoint, profile, [name])
    assert (found.taken, found.idle, found.untold) == ((), () if reads else (name,), ())
    assert [gap.what for gap in missing_reading(found)] == ([] if reads else [f"a sign that it reads {name}"])


@pytest.mark.parametrize("name", ["repetition_penalty", "top_p"])
@pytest.mark.parametrize("trouble", ["random", "limited", "failing"])
async def test_what_answers_do_not_tell_is_not_known_to_be_read(name: str, trouble: str) -> None:
    """Behind a router to several servers, two greedy answers differ anyway; a limit on requests refuses no
    value. In both cases a parameter that a gateway drops counted as read."""
    asked_for: list[int] = []

    def gateway(asked: Asked) -> Answer:
        body = asked.body or {}
        asked_for.append(len(asked_for))
        if name in body or body.get("temperature") == 0.0:
            if trouble == "failing":
                return page({"error": {"message": "overloaded"}}, 503)
            if trouble == "limited":
                return page({"error": {"message": "slow down"}}, 429, retry_after="0.01")
            if body.get(name) in (-1.0, 2.0):
                return page({"error": {"message": f"{name} is out of range"}}, 400)
        return Events(answer(["Once ", f"more {asked_for[-1]}"]))

    async with fake_vllm(gateway) as server, Endpoint(server.url, model="lab") as endpoint:
        profile = replace(await profile_endpoint(endpoint, "lab"), version=None)
        found = await unread_parameters(endpoint, profile, [name])
    told = found.idle if trouble == "random" and name == "top_p" else found.untold
    assert told == found.names == (name,)
