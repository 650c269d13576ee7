"""Every judged answer as OpenTelemetry's event `gen_ai.evaluation.result`, where an OTLP endpoint is set.

Source: OpenTelemetry semantic conventions for generative AI, events (status: development). The packages of
the extra `otel` are imported here, and only if an endpoint is set; they read the other standard variables
(headers, certificates, timeout) themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from stresstest.features.guard.journal import JournalEntry
from stresstest.features.guard.watch import JudgedChoice

EVENT = "gen_ai.evaluation.result"
METRIC = "degeneration"
SERVICE = "stresstest-guard"
HEALTHY = "healthy"
UNREAD = "unread"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_NANOSECONDS = 1_000_000_000


class EvaluationEvents:
    """Hands events to the SDK, which sends them in batches from a thread of its own.

    Raises ImportError where the extra `otel` is not installed.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        from opentelemetry._logs import SeverityNumber
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        from stresstest import __version__

        named = "OTEL_SERVICE_NAME" in environment
        named = named or "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
        self._provider = LoggerProvider(Resource.create({} if named else {"service.name": SERVICE}))
        self._provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
        self._logger = self._provider.get_logger("stresstest.guard", __version__)
        self._parent = TraceContextTextMapPropagator().extract
        self._severities = {True: SeverityNumber.WARN, False: SeverityNumber.INFO}

    def write(self, entry: JournalEntry, choice: JudgedChoice) -> None:
        """One event for a choice, parented to the span that the client has sent along, if any."""
        self._logger.emit(
            timestamp=round(entry.end * _NANOSECONDS),
            context=self._parent(entry.trace),
            severity_number=self._severities[choice.verdict.degenerate],
            event_name=EVENT,
            attributes=attributes(entry, choice),
        )

    def close(self) -> None:
        """Send what is waiting; gives up after the exporter's timeout."""
        self._provider.shutdown()


def attributes(entry: JournalEntry, choice: JudgedChoice) -> dict[str, Any]:
    """The event's attributes: those of the convention, and ours. None holds text of an answer."""
    verdict = choice.verdict
    found = {
        "gen_ai.evaluation.name": METRIC,
        "gen_ai.evaluation.score.value": None if choice.unread else float(verdict.degenerate),
        "gen_ai.evaluation.score.label": verdict.symptom or (UNREAD if choice.unread else HEALTHY),
        "gen_ai.evaluation.explanation": _explanation(choice),
        "gen_ai.response.id": entry.id,
        "gen_ai.request.model": entry.model or None,
        "gen_ai.usage.output_tokens": choice.tokens,
        "stresstest.choice": choice.index,
        "stresstest.onset": verdict.onset,
        "stresstest.alarm": verdict.alarm,
        "stresstest.action": entry.action,
        "stresstest.dry_run": entry.dry_run,
    }
    return {name: value for name, value in found.items() if value is not None}


def _explanation(choice: JudgedChoice) -> str:
    verdict = choice.verdict
    if choice.hidden:
        if choice.broken:
            return f"Only {choice.seen} tokens could be read."
        if choice.seen:
            return f"{choice.unseen} of {choice.tokens} tokens are not in the text that was sent."
        return f"No text of {choice.tokens} tokens was sent." if choice.tokens else "No text was sent."
    if choice.unread:
        return f"Nothing but reasoning was sent in {choice.tokens} tokens, and no answer."
    if verdict.symptom is None:
        return f"No symptom in {choice.tokens} tokens."
    return (
        f"{verdict.symptom} from token {verdict.onset} of {choice.tokens} on, known at token {verdict.alarm}."
    )


@contextmanager
def evaluation_events(environment: Mapping[str, str]) -> Iterator[EvaluationEvents | None]:
    """The events of one guard, sent to the end; None where none are wanted, or their packages are missing."""
    off = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    wanted = not off and any(environment.get(name) for name in _ENDPOINTS)
    if not wanted or environment.get("OTEL_LOGS_EXPORTER", "otlp") != "otlp":
        yield None
        return
    try:
        events = EvaluationEvents(environment)
    except ImportError:
        sys.stderr.write(
            "warning: an OTLP endpoint is set, but OpenTelemetry is not installed: no events are sent. "
            "Install it with: pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http\n"
        )
        yield None
        return
    try:
        yield events
    finally:
        events.close()
