"""OpenTelemetry's GenAI spans and log records to plain rows: a collector's OTLP JSON, and what SDKs print.

Attributes as in the GenAI semantic conventions (1.27 and later), with the names that vLLM's own spans
(`--otlp-traces-endpoint`), OpenLLMetry, OpenInference, Langfuse and Logfire use for the same things, and
answers in events. Spans of other kinds are left out. `tests/integrations/check_writers.py` reads what their
SDKs write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from stresstest.records.formats.adapter import Envelope, Row
from stresstest.records.formats.fields import TEXTLESS
from stresstest.records.formats.tracers.opentelemetry.counted import has_generated, is_beside
from stresstest.records.formats.tracers.opentelemetry.generation import Generation, has_marks, read_generation
from stresstest.records.formats.tracers.opentelemetry.otlp import is_export, spans
from stresstest.records.record import FieldMapping


def _recognises(row: Row, mapped: FieldMapping) -> bool:
    """Whether a row is an OTLP export or a span with GenAI attributes; a user's mapping overrides both."""
    return not mapped.fields and (is_export(row) or has_marks(row.get("attributes")))


def _unwrapped(row: Row, mapped: FieldMapping) -> list[Row]:
    """The generations of an export, or of a single span, as plain rows in order; other spans left out.

    Without `mapped.textless`, those that kept no text and surely are no others' are marked.
    """
    found = [each for span, writer in spans(row) if (each := read_generation(span, writer)) is not None]
    if mapped.textless:
        return [each.row for each in found]
    traces = Counter(each.span.get("traceId") for each in found)
    parents = {each.span.get("parentSpanId") for each in found} - {None, ""}
    kept = (each for each in found if not is_beside(each, traces[each.span.get("traceId")] > 1, parents))
    return [row for each in kept for row in _rows(each, parents)]


def _rows(found: Generation, parents: Collection[object]) -> list[Row]:
    if "response" in found.row:
        return [found.row]
    if not has_generated(found, parents):
        return []
    # What it spent is of all its choices together.
    spent = {"completion_tokens": None} if found.choices > 1 else {}
    return [{**found.row, **spent, TEXTLESS: True}] * found.choices


FORMAT = Envelope("OpenTelemetry spans", _recognises, _unwrapped)
