"""Real vLLM refuses invalid values of every sampling parameter, so that it shows which ones it reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stresstest.endpoint.capabilities import profile_endpoint
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.parameters import unread_parameters
from stresstest.model import MissingCapability
from stresstest.model.request import PARAMETERS
from stresstest.model.server import PLAIN_PROMPTS_ONLY
from tests.support.gateways import checking_gateway, dropping_gateway

pytestmark = pytest.mark.vllm


async def test_vllm_is_seen_to_read_each_parameter_unless_a_gateway_drops_it(lab_url: str) -> None:
    """Otherwise each run with a penalty would say that it may not be in force, or none would."""
    dropped = ["top_k", "repetition_penalty"]
    with dropping_gateway(lab_url, *dropped) as gateway:
        for url, expected in ((lab_url, []), (gateway, dropped)):
            async with Endpoint(url, model="lab") as endpoint:
                profile = await profile_endpoint(endpoint, "lab")
                for missing in ((), (MissingCapability(PLAIN_PROMPTS_ONLY, "only plain prompts work"),)):
                    asked = replace(profile, missing=missing)
                    assert [*(await unread_parameters(endpoint, asked, PARAMETERS)).taken] == expected


@pytest.mark.parametrize("dropped", [(), PARAMETERS])
async def test_valid_values_show_what_reaches_vllm(lab_url: str, dropped: tuple[str, ...]) -> None:
    """Where a frontend checks a parameter and drops it, only answers tell: whatever is not known for vLLM
    itself is asked so. Penalties are told by greedy answers, which nobody gets without a temperature."""
    with checking_gateway(lab_url, *dropped) as gateway:
        async with Endpoint(gateway, model="lab") as endpoint:
            profile = replace(await profile_endpoint(endpoint, "lab"), version=None)
            found = await unread_parameters(endpoint, profile, PARAMETERS)
    untold = tuple(name for name in dropped if name.endswith("_penalty"))
    assert (found.taken, found.untold) == ((), untold)
    assert {*found.idle} == {*dropped} - {*untold}
