"""The simulated server for tests that speak to it from outside: in a thread, on a free port."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stresstest.campaign.execution.eventloop import loop_factory
from stresstest.simulation.engine.scenario.spec import Scenario
from stresstest.simulation.server.start import RunningServer, serve_scenario

LOOPS_BELOW_1_1 = """
name = "loops"
[[hazard]]
symptom = "loop"
plane = "decoding"
onset = { distribution = "lognormal", median = 80, sigma = 0.1 }
requires = { repetition_penalty = "<1.1" }
"""
"""A scenario: every answer loops near token 80, and a repetition penalty of 1.1 prevents it."""


@contextmanager
def served(scenario: Scenario, *, speed: float = 0, name: str | None = None) -> Iterator[RunningServer]:
    """Serve `scenario` for the length of a `with` block; speed 0: as fast as possible."""
    ready = threading.Event()
    found: list[RunningServer] = []
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        ended = asyncio.Event()
        async with serve_scenario(scenario, speed=speed, served_model_name=name) as running:
            found.append(running)
            stop.append((asyncio.get_running_loop(), ended))
            ready.set()
            await ended.wait()

    def main() -> None:
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(serve())
        finally:
            ready.set()

    thread = threading.Thread(target=main, daemon=True)
    thread.start()
    assert ready.wait(60)
    assert found, "the simulator did not start"
    try:
        yield found[0]
    finally:
        loop, ended = stop[0]
        loop.call_soon_threadsafe(ended.set)
        thread.join(60)
        assert not thread.is_alive()


def post(base_url: str, path: str, body: dict[str, Any], *, timeout: float = 60) -> Any:
    """The JSON answer to a POST under the base URL. Raises urllib's errors."""
    request = urllib.request.Request(
        base_url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.loads(answer.read())
