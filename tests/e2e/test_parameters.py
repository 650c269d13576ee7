"""Real vLLM refuses invalid values of every sampling parameter, so that it shows which ones it reads."""

from __future__ import annotations

import pytest

from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.probe import unread_parameters
from stresstest.model.request import PARAMETERS
from tests.support.gateways import dropping_gateway

pytestmark = pytest.mark.vllm


async def test_vllm_is_seen_to_read_each_parameter_unless_a_gateway_drops_it(lab_url: str) -> None:
    """Otherwise each run with a penalty would say that it may not be in force, or none would."""
    dropped = ["top_k", "repetition_penalty"]
    with dropping_gateway(lab_url, *dropped) as gateway:
        for url, expected in ((lab_url, []), (gateway, dropped)):
            async with Endpoint(url, model="lab") as endpoint:
                for chat in (True, False):
                    assert await unread_parameters(endpoint, PARAMETERS, chat=chat) == expected
