"""What OpenTelemetry is told of judged answers. Its own packages are tried in tests/integrations."""

from __future__ import annotations

import logging
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from stresstest.errors import UsageError
from stresstest.features.guard.evaluation import (
    EvaluationEvents,
    _warnings_without_credentials,
    attributes,
    evaluation_events,
)
from stresstest.features.guard.journal import JournalEntry
from stresstest.features.guard.watch import JudgedChoice
from tests.support.fake_vllm import DONE, Events, sse
from tests.support.guarded import ASK, CHAT, HEALTHY, LOOP, chat_events, guarded

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=1"}


class Told:
    """Keeps the attributes of each event, and the trace context."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.traces: list[dict[str, str]] = []

    def write(self, entry: JournalEntry, choice: JudgedChoice) -> None:
        self.events.append(attributes(entry, choice))
        self.traces.append(dict(entry.trace))


async def told(script: Events, path: str = CHAT, **headers: str) -> Told:
    found = Told()
    async with guarded(script, sinks=(found,)) as here:
        await here.ask(path, ASK, **headers)
        await here.judged(1)
    return found


async def test_a_loop_is_scored_and_dated() -> None:
    """Score 1, the symptom as label, where it began; no text of the answer."""
    found = await told(Events([*chat_events(HEALTHY + LOOP), DONE]), **TRACE)
    (event,) = found.events
    assert event["gen_ai.evaluation.score.value"] == 1.0
    assert event["gen_ai.evaluation.score.label"] == "loop"
    assert event["gen_ai.request.model"] == "lab"
    assert event["stresstest.onset"] < event["stresstest.alarm"] < event["gen_ai.usage.output_tokens"]
    assert "miller" not in str(event)
    assert found.traces == [TRACE]


async def test_a_healthy_answer_is_an_event_too() -> None:
    """Otherwise there is no rate."""
    (event,) = (await told(Events([*chat_events(HEALTHY), DONE]))).events
    assert event["gen_ai.evaluation.score.value"] == 0.0
    assert event["gen_ai.evaluation.score.label"] == "healthy"
    assert "stresstest.onset" not in event


async def test_a_response_has_its_id() -> None:
    """In the Responses API it stands in the response of the first event."""
    created = {"type": "response.created", "response": {"id": "resp_1"}}
    delta = {"type": "response.output_text.delta", "delta": "Well."}
    done = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}
    (event,) = (await told(Events(sse(created, delta, done)), "/v1/responses")).events
    assert event["gen_ai.response.id"] == "resp_1"


async def test_no_field_of_an_event_is_long() -> None:
    """Events wait by number: two thousand with ids and names of 3 MB were all of the memory."""
    long = "x" * 100_000
    events = sse({"id": long, "choices": [{"index": 0, "delta": {"content": "Well."}}]})
    found = Told()
    async with guarded(Events([*events, DONE]), sinks=(found,), every=True) as here:
        await here.ask(body={**ASK, "model": long}, traceparent=TRACE["traceparent"], tracestate=long[:9000])
        await here.judged(1)
    (event,) = found.events
    for name in ("gen_ai.response.id", "gen_ai.request.model"):
        assert event[name] == "x" * 511 + "…"
    assert found.traces == [{"traceparent": TRACE["traceparent"]}]
    assert len(here.out.getvalue()) < 3000


def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The guard works without it: an endpoint is often set for all programs of a machine."""
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with evaluation_events(ENDPOINT) as events:
        assert events is None
    assert "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http" in capsys.readouterr().err


@pytest.mark.parametrize(
    "environment",
    [{}, ENDPOINT | {"OTEL_SDK_DISABLED": "true"}, ENDPOINT | {"OTEL_LOGS_EXPORTER": "none"}],
    ids=["no endpoint", "disabled", "no logs"],
)
def test_nothing_is_loaded_unless_wanted(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor is anything said."""
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with evaluation_events(environment) as events:
        assert events is None
    assert capsys.readouterr().err == ""


def test_what_the_sdk_logs_is_told_without_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    """It quotes addresses with a token in their path, and headers that it cannot read: each kind of problem
    is reported once, in words of our own, and the log is given back."""
    logger = logging.getLogger("opentelemetry.exporter.x")
    with _warnings_without_credentials():
        for _ in range(3):
            logger.warning("Header format invalid: Authorization: Bearer %s", "sekret12")
        try:
            raise ValueError("sekret12")
        except ValueError:
            logger.exception("sekret12")
    said = capsys.readouterr().err
    assert "sekret" not in said
    assert "Traceback" not in said
    assert said.count("opentelemetry.exporter.x: WARNING") == said.count("x: ValueError") == 1
    assert logging.getLogger("opentelemetry").handlers == []


def test_a_receiver_that_does_not_answer_is_not_waited_for() -> None:
    """The end of the guard was the exporter's timeout away, after however many signals."""
    answered = threading.Event()
    events = EvaluationEvents.__new__(EvaluationEvents)
    events._provider = SimpleNamespace(shutdown=answered.wait)
    events.close()
    assert not answered.is_set()
    answered.set()


def test_variables_that_the_sdk_refuses_are_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each variable of the SDK has an exception of its own, which was an "internal error"."""

    def refuse(self: EvaluationEvents, environment: object) -> None:
        raise ValueError("max_export_batch_size must be less than or equal to max_queue_size")

    monkeypatch.setattr(EvaluationEvents, "__init__", refuse)
    with pytest.raises(UsageError, match="cannot be set up from its variables"), evaluation_events(ENDPOINT):
        pass
