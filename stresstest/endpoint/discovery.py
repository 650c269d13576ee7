"""Finds servers on this machine, and asks a server which models it serves."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from stresstest.endpoint.capabilities import fetch_served_models
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.outcome import Timeouts
from stresstest.errors import EndpointError

LOCAL_PORTS = (8000, 8080, 30000, 1234, 11434, 4000)
"""Usual ports of vLLM, llama.cpp, SGLang, LM Studio, Ollama and LiteLLM."""
_PATIENCE = Timeouts(connect=2.0, probe=5.0)


@dataclass(frozen=True, slots=True)
class AskedServer:
    """An address and what answered there. trouble: why `models` is empty, None if it is not."""

    base_url: str
    models: tuple[str, ...] = ()
    simulated: bool = False
    trouble: str | None = None


async def ask_server(base_url: str, *, api_key: str | None = None) -> AskedServer:
    """The models served at this address. Raises UsageError for an invalid address or key."""
    async with Endpoint(base_url, api_key=api_key, timeouts=_PATIENCE) as endpoint:
        try:
            models, simulated = await fetch_served_models(endpoint)
        except EndpointError as error:
            return AskedServer(endpoint.base_url, trouble=str(error))
    trouble = None if models else f"The server at {endpoint.base_url} lists no model."
    return AskedServer(endpoint.base_url, tuple(models), simulated, trouble)


async def find_local_servers() -> list[AskedServer]:
    """The servers on this machine that list models, in the order of `LOCAL_PORTS`. No key is sent to them."""
    asked = await asyncio.gather(*(ask_server(f"http://localhost:{port}/v1") for port in LOCAL_PORTS))
    return [server for server in asked if server.models]
