"""`stresstest guard` as a process, before the simulated server: as its users start, watch and end it."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from stresstest.simulation.engine.scenario.distribution import FixedDistribution
from stresstest.simulation.engine.scenario.spec import Hazard, ModelSpec, Scenario
from tests.support.guard_process import guard
from tests.support.simulated_servers import post, served

pytestmark = pytest.mark.simulated

LOOPS = Scenario(
    "loops",
    "every answer loops",
    model=ModelSpec(max_model_len=4096),
    hazards=(Hazard("loop", onset=FixedDistribution(120)),),
)
ASK: dict[str, Any] = {
    "model": "sim",
    "messages": [{"role": "user", "content": "Scrivi una storia in 40 paragrafi numerati."}],
    "max_tokens": 600,
    "seed": 3,
}


def page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return str(answer.read().decode())


def page_with(url: str, text: str) -> str:
    """The page once it holds the text; an answer is judged after it was passed on."""
    deadline = time.monotonic() + 60
    while text not in (found := page(url)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def test_it_counts_what_the_simulator_plants(tmp_path: Path) -> None:
    """And answers are those of the server itself; the log continues behind a line that was cut."""
    log = tmp_path / "guard.jsonl"
    log.write_text('{"id": "an earlier guard was kil')
    with served(LOOPS, name="sim") as server:
        options = ("--log", str(log), "--log-text")
        with guard(server.base_url, *options, folder=tmp_path) as (url, process):
            through, direct = (post(base, "/chat/completions", ASK) for base in (url, server.base_url))
            assert through["choices"] == direct["choices"]
            assert json.loads(page(url + "/models"))["data"][0]["id"] == "sim"
        assert process.returncode == 0
    _, whole = log.read_text("utf-8").splitlines()
    line = json.loads(whole)
    assert line["symptom"] == "loop"
    assert line["completion_tokens"] == 600
    assert abs(line["onset"] - 120) < 40


def test_a_log_that_nobody_reads_keeps_it_from_nothing(tmp_path: Path) -> None:
    """Stdout is a full pipe: answers pass, and one SIGTERM ends the process, without an error."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    with suppress(BlockingIOError):
        while os.write(write, b"x" * 4096):
            pass
    os.set_blocking(write, True)
    try:
        with served(LOOPS, name="sim") as server:
            with guard(server.base_url, folder=tmp_path, stdout=write) as (url, process):
                for _ in range(2):
                    assert post(url, "/chat/completions", ASK)["choices"]
                page_with(url.removesuffix("/v1") + "/guard/metrics", 'symptom="loop"} 2.0')
            assert process.returncode == 0
    finally:
        os.close(read)
        os.close(write)


def test_it_aborts_where_the_project_file_says_so(tmp_path: Path) -> None:
    """With the [guard] table of the folder's stresstest.toml."""
    (tmp_path / "stresstest.toml").write_text('[guard]\nrules = [{ model = "sim", policy = "abort" }]\n')
    with served(LOOPS, name="sim") as server:
        with guard(server.base_url, folder=tmp_path) as (url, _):
            long = {**ASK, "max_tokens": 3000}  # an alarm on a busy machine comes before its end
            answer = post(url, "/chat/completions", long)
            assert answer["choices"][0]["finish_reason"] == "length"
            assert answer["stresstest_guard"]["action"] == "abort"
            done = 'stresstest_guard_actions_total{action="abort",dry_run="false",model="sim"'
            assert "vllm:num_requests_running{" in page_with(url.removesuffix("/v1") + "/guard/metrics", done)
        deadline = time.monotonic() + 60
        while server.engine.stats.running and time.monotonic() < deadline:
            time.sleep(0.05)
        assert server.engine.stats.running == 0  # the upstream was told to stop


def test_it_drains_on_sigterm(tmp_path: Path) -> None:
    """A stream that runs is passed on to its end."""
    with (
        served(LOOPS, name="sim", speed=3) as server,
        guard(server.base_url, folder=tmp_path) as (url, process),
    ):
        request = urllib.request.Request(
            url + "/chat/completions",
            json.dumps({**ASK, "stream": True, "max_tokens": 150}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.readline()
            process.send_signal(signal.SIGTERM)
            assert answer.read().endswith(b"data: [DONE]\n\n")
        assert process.wait(60) == 0


def test_a_second_guard_on_the_port_says_so(tmp_path: Path) -> None:
    """The port may be shared, so that one can follow the other: who did not mean to is told."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    with served(LOOPS, name="sim") as server:
        chosen = (server.base_url, "--port", port)
        with guard(*chosen, folder=tmp_path) as (url, _), guard(*chosen, folder=tmp_path) as (again, second):
            assert again == url
            assert second.stderr is not None
            assert second.stderr.readline().startswith("another process answers at this address already")
