"""Writes one file of lines as an SDK writes them: `python writers.py WRITER URL STREAMED OUT`.

A process for each, since their instrumentations cannot be taken off again.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.scripted_openai import ANSWERS, TOOL, prompt_for

NAMES = [*ANSWERS, "said+loops"]
_IDS = frozenset({"traceId", "spanId", "parentSpanId"})
Ask = Callable[[str], object]
"""Asks for the answers of a name."""
Taken = Callable[[], list[Any]]
"""The lines that were written since it was called before."""


class Telemetry:
    """Providers that keep what they are given, and give it as a collector writes it."""

    def __init__(self) -> None:
        from opentelemetry import _logs, trace
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self._spans, self._logs = InMemorySpanExporter(), InMemoryLogRecordExporter()
        self.processor = SimpleSpanProcessor(self._spans)
        self.tracers, self.loggers = TracerProvider(), LoggerProvider()
        self.tracers.add_span_processor(self.processor)
        self.loggers.add_log_record_processor(SimpleLogRecordProcessor(self._logs))
        self._set = (trace.set_tracer_provider, _logs.set_logger_provider)

    def set_global(self) -> None:
        """For instrumentations that take the providers from there."""
        for install, provider in zip(self._set, (self.tracers, self.loggers), strict=True):
            install(provider)

    def spans(self) -> list[Any]:
        """One export of the spans so far, which are forgotten."""
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

        found = self._spans.get_finished_spans()
        self._spans.clear()
        return [_plain(encode_spans(found))]

    def logs(self) -> list[Any]:
        """One export of the log records so far, which are forgotten."""
        from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs

        found = self._logs.get_finished_logs()
        self._logs.clear()
        return [_plain(encode_logs(found))]


def _plain(message: Any) -> Any:
    from google.protobuf.json_format import MessageToDict

    return _hexed(MessageToDict(message))


def _hexed(value: Any) -> Any:
    """OTLP's JSON has ids in hexadecimal digits, where protobuf's has base64."""
    if isinstance(value, dict):
        return {
            key: base64.b64decode(each).hex() if key in _IDS else _hexed(each) for key, each in value.items()
        }
    return [_hexed(each) for each in value] if isinstance(value, list) else value


def _openai(url: str, streamed: bool) -> Ask:
    import openai

    return _asks(openai.OpenAI(base_url=url, max_retries=0), streamed)


def _asks(client: Any, streamed: bool) -> Ask:
    def ask(name: str) -> None:
        asked: dict[str, Any] = {"messages": [{"role": "user", "content": prompt_for(name)}]}
        asked |= {"n": 2} if "+" in name else {"tools": [TOOL]} if name == "calls" else {}
        asked |= {"stream": True, "stream_options": {"include_usage": True}} if streamed else {}
        answer = client.chat.completions.create(model="m", max_tokens=512, **asked)
        if streamed:
            list(answer)

    return ask


def _genai(content: str, url: str, streamed: bool) -> tuple[Ask, Telemetry]:
    os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = content
    from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor

    kept = Telemetry()
    OpenAIInstrumentor().instrument(tracer_provider=kept.tracers, logger_provider=kept.loggers)
    return _openai(url, streamed), kept


def genai_spans(url: str, streamed: bool) -> tuple[Ask, Taken]:
    """OpenTelemetry's own instrumentation, contents in spans."""
    ask, kept = _genai("SPAN_ONLY", url, streamed)
    return ask, kept.spans


def genai_events(url: str, streamed: bool) -> tuple[Ask, Taken]:
    """The same, contents in log records."""
    ask, kept = _genai("EVENT_ONLY", url, streamed)
    return ask, kept.logs


def openllmetry(url: str, streamed: bool) -> tuple[Ask, Taken]:
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor

    kept = Telemetry()
    OpenAIInstrumentor().instrument(tracer_provider=kept.tracers)
    return _openai(url, streamed), kept.spans


def openinference(url: str, streamed: bool) -> tuple[Ask, Taken]:
    from openinference.instrumentation.openai import OpenAIInstrumentor

    kept = Telemetry()
    OpenAIInstrumentor().instrument(tracer_provider=kept.tracers)
    return _openai(url, streamed), kept.spans


def logfire(url: str, streamed: bool) -> tuple[Ask, Taken]:
    import logfire as sdk

    kept = Telemetry()
    sdk.configure(send_to_logfire=False, additional_span_processors=[kept.processor], console=False)
    sdk.instrument_openai()
    return _openai(url, streamed), kept.spans


def langfuse(url: str, streamed: bool) -> tuple[Ask, Taken]:
    from langfuse import Langfuse
    from langfuse.openai import OpenAI

    kept = Telemetry()
    kept.set_global()
    nowhere = "http://127.0.0.1:9"
    Langfuse(public_key="pk", secret_key="sk", host=nowhere, tracer_provider=kept.tracers, flush_at=500)
    return _asks(OpenAI(base_url=url, max_retries=0), streamed), kept.spans


def _langchain(url: str, streamed: bool, callbacks: list[Any]) -> Ask:
    from langchain_openai import ChatOpenAI

    def ask(name: str) -> None:
        chat = ChatOpenAI(
            model="m", base_url=url, max_retries=0, max_tokens=512, n=2 if "+" in name else None
        )
        asked = chat.bind_tools([TOOL]) if name == "calls" else chat
        if streamed:
            list(asked.stream(prompt_for(name), config={"callbacks": callbacks}))
        else:
            asked.invoke(prompt_for(name), config={"callbacks": callbacks})

    return ask


def langchain(url: str, streamed: bool) -> tuple[Ask, Taken]:
    """LangChain's client, in OpenInference's spans."""
    from openinference.instrumentation.langchain import LangChainInstrumentor

    kept = Telemetry()
    LangChainInstrumentor().instrument(tracer_provider=kept.tracers)
    return _langchain(url, streamed, []), kept.spans


def langsmith(url: str, streamed: bool) -> tuple[Ask, Taken]:
    """LangChain's client, in LangSmith's runs."""
    from langchain_core.tracers.base import BaseTracer

    runs: list[Any] = []

    class Tracer(BaseTracer):  # type: ignore[misc]
        def _persist_run(self, run: Any) -> None:
            runs.append(json.loads(run.model_dump_json(exclude={"child_runs"})))

    def taken() -> list[Any]:
        found = runs[:]
        runs.clear()
        return found

    return _langchain(url, streamed, [Tracer()]), taken


WRITERS = {
    each.__name__: each
    for each in (
        *(genai_spans, genai_events, openllmetry, openinference, logfire, langfuse, langchain, langsmith),
    )
}


def main() -> None:
    writer, url, streamed, out = sys.argv[1:]
    ask, taken = WRITERS[writer](url, bool(streamed))
    lines = {}
    for name in NAMES:
        ask(name)
        lines[name] = taken()
    Path(out).write_text(json.dumps(lines))
    # Exporters that cannot reach their server would go on trying.
    os._exit(0)


if __name__ == "__main__":
    main()
