"""The guard with OpenTelemetry's own SDK, and a receiver that reads the OTLP that it sends.

build/integrations/otel/bin/python -m pytest tests/integrations/check_otel.py
"""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

from stresstest.simulation.engine.scenario.distribution import FixedDistribution
from stresstest.simulation.engine.scenario.spec import Hazard, ModelSpec, Scenario
from tests.support.guard_process import guard
from tests.support.simulated_servers import served

ONSET = 120
LOOPS = Scenario(
    "loops",
    "every answer of more than 120 tokens loops",
    model=ModelSpec(max_model_len=4096),
    hazards=(Hazard("loop", onset=FixedDistribution(ONSET)),),
)
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TEXT = "Scrivi una storia in 40 paragrafi numerati."


class Receiver:
    """An OTLP/HTTP receiver. requests: (path, decoded body) of all that came."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, Any]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((self.path, ExportLogsServiceRequest.FromString(body)))
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.end_headers()
                self.wfile.write(ExportLogsServiceResponse().SerializeToString())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def events(self) -> list[Any]:
        """All log records, in the order in which their answers ended."""
        resources = [each for _, request in self.requests for each in request.resource_logs]
        found = [record for each in resources for scope in each.scope_logs for record in scope.log_records]
        return sorted(found, key=lambda record: record.time_unix_nano)

    def services(self) -> set[str]:
        resources = [each.resource for _, request in self.requests for each in request.resource_logs]
        return {values(each.attributes)["service.name"] for each in resources}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    threading.Thread(target=found.server.serve_forever, daemon=True).start()
    yield found
    found.server.shutdown()
    found.server.server_close()


def values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


def ask(url: str, max_tokens: int, **headers: str) -> str:
    """The id of an answer."""
    body = {
        "model": "sim",
        "messages": [{"role": "user", "content": TEXT}],
        "max_tokens": max_tokens,
        "seed": 3,
    }
    sent = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(url + "/chat/completions", json.dumps(body).encode(), sent)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(json.loads(answer.read())["id"])


def test_every_judged_answer_is_an_event_of_the_convention(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name, score, label and explanation, the answer's id, and the client's span as parent; no text."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    with served(LOOPS, name="sim") as server, guard(server.base_url, folder=tmp_path) as (url, process):
        first = ask(url, 100)
        second = ask(url, 600, traceparent=f"00-{TRACE}-{SPAN}-01")
    assert process.returncode == 0
    healthy, looping = receiver.events()
    assert {path for path, _ in receiver.requests} == {"/v1/logs"}
    assert receiver.services() == {"stresstest-guard"}
    assert {healthy.event_name, looping.event_name} == {"gen_ai.evaluation.result"}

    said = values(healthy.attributes)
    assert said["gen_ai.evaluation.name"] == "degeneration"
    assert said["gen_ai.evaluation.score.value"] == 0.0
    assert said["gen_ai.evaluation.score.label"] == "healthy"
    assert said["gen_ai.response.id"] == first
    assert not healthy.trace_id

    said = values(looping.attributes)
    assert said["gen_ai.evaluation.score.value"] == 1.0
    assert said["gen_ai.evaluation.score.label"] == "loop"
    assert said["gen_ai.response.id"] == second
    assert said["gen_ai.request.model"] == "sim"
    assert abs(said["stresstest.onset"] - ONSET) < 40
    assert f"loop from token {said['stresstest.onset']} of 600 on" in said["gen_ai.evaluation.explanation"]
    assert (looping.trace_id.hex(), looping.span_id.hex()) == (TRACE, SPAN)
    assert "Paragrafo" not in str(receiver.requests)


def test_a_receiver_that_is_gone_harms_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers pass, and the guard ends as it does without one."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with served(LOOPS, name="sim") as server, guard(server.base_url, folder=tmp_path) as (url, process):
        assert ask(url, 600)
    assert process.returncode == 0


def test_nothing_is_sent_where_it_is_turned_off(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the standard variable for it."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with served(LOOPS, name="sim") as server, guard(server.base_url, folder=tmp_path) as (url, _):
        ask(url, 100)
    assert receiver.requests == []
