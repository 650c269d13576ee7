"""Answers that a row calls failed in words of its own: `error` beside them, a status, a level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stresstest.records.record import Record, normalize_finish_reason

_FAILED = frozenset({"error", "failed", "failure", "status_code_error", "2"})
"""Statuses of LiteLLM, LangSmith and OpenTelemetry (whose code is 2), in lower case."""
_NOTHING = frozenset({"", "none", "null", "false", "no"})


def marked_as_given_up(record: Record, row: Mapping[str, Any]) -> Record:
    """The record with the finish reason ``error`` where its row says that the request failed, and no finish
    reason says how the answer ended: what it has of a text was cut."""
    if normalize_finish_reason(record.finish_reason) is None and _has_failed(row):
        return replace(record, finish_reason="error")
    return record


def _has_failed(row: Mapping[str, Any]) -> bool:
    error, status = row.get("error"), row.get("status")
    if isinstance(status, Mapping):
        status = status.get("status_code", status.get("code"))
    told = isinstance(error, str) and error.strip().lower() not in _NOTHING
    return (
        told
        or (isinstance(error, Mapping) and bool(error))
        or str(status).lower() in _FAILED
        or row.get("level") == "ERROR"
    )
