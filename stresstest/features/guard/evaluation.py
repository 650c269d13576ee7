"""Every judged answer as OpenTelemetry's event `gen_ai.evaluation.result`, where an OTLP endpoint is set.

Source: OpenTelemetry semantic conventions for generative AI, events (status: development). The packages of
the extra `otel` are imported here, and only if an endpoint is set; they read the other standard variables
(headers, certificates, timeout) themselves.
"""

from __future__ import annotations

import importlib
import logging
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from stresstest.errors import UsageError
from stresstest.features.guard.journal import JournalEntry
from stresstest.features.guard.watch import JudgedChoice

EVENT = "gen_ai.evaluation.result"
METRIC = "degeneration"
SERVICE = "stresstest-guard"
HEALTHY = "healthy"
UNREAD = "unread"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_CREDENTIAL_PROVIDERS = (
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_LOGS_CREDENTIAL_PROVIDER",
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER",
)
"""With one of them, the exporter has a session of the provider's."""
_NANOSECONDS = 1_000_000_000
_MOST_READ = 64 * 1024
"""Bytes of a receiver's answer."""
_LAST_S = 1.5
"""Seconds in which what is waiting is sent at the end: a second Ctrl-C ends the guard within two."""


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
        session = None if any(map(environment.get, _CREDENTIAL_PROVIDERS)) else _bounded_session()
        exporter = OTLPLogExporter(session=session)
        resource = Resource.create({} if named else {"service.name": SERVICE})
        self._provider = LoggerProvider(resource, shutdown_on_exit=False)
        self._provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
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
        """Send what is waiting, unless the receiver takes its time."""
        ending = threading.Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        ending.join(_LAST_S)


def _bounded_session() -> Any:
    """A session of `requests` that reads so much of an answer, and unpacks nothing."""
    session = importlib.import_module("requests").Session()
    session.headers["Accept-Encoding"] = "identity"
    send = session.send

    def send_bounded(request: Any, **options: Any) -> Any:
        response = send(request, **{**options, "stream": True})
        response._content = response.raw.read(_MOST_READ, decode_content=False)
        response._content_consumed = True
        response.close()
        return response

    session.send = send_bounded
    return session


class _Warnings(logging.Handler):
    """Tells once of each kind of problem that the SDK logs. Its own words are left out: they quote addresses
    and headers, in which keys travel."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else record.levelname
        where = f"{record.name}: {kind}"
        if where not in self._told:
            self._told.add(where)
            sys.stderr.write(
                f"warning: OpenTelemetry reports a problem ({where}): events may not arrive. Its own words "
                "are not shown, because they may quote credentials.\n"
            )


@contextmanager
def _warnings_without_credentials() -> Iterator[None]:
    """What the SDK logs meanwhile is reported without its own words, and goes nowhere else."""
    logger, handler = logging.getLogger("opentelemetry"), _Warnings()
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


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
    with _warnings_without_credentials():
        events = _made(environment)
        try:
            yield events
        finally:
            if events is not None:
                events.close()


def _made(environment: Mapping[str, str]) -> EvaluationEvents | None:
    try:
        return EvaluationEvents(environment)
    except ImportError:
        sys.stderr.write(
            "warning: an OTLP endpoint is set, but OpenTelemetry is not installed: no events are sent. "
            "Install it with: pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http\n"
        )
        return None
    except Exception as error:  # noqa: BLE001  the SDK reads its variables, each with an exception of its own
        raise UsageError(
            f"OpenTelemetry cannot be set up from its variables ({type(error).__name__}).",
            hint="They begin with OTEL_; without OTEL_EXPORTER_OTLP_ENDPOINT, no events are sent.",
        ) from None
