"""Answers that a row calls failed in words of its own: `error` beside them, a status, a level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stresstest.model.finish_reason import STOP, normalize_finish_reason
from stresstest.records.record import Record
from stresstest.records.replaced import LEAST_HTTP_ERROR, is_error

_FAILED = frozenset(
    {"error", "failed", "failure", "timeout", "timed_out", "cancelled", "canceled", "aborted", "interrupted"}
    | {"expired", "killed", "incomplete", "status_code_error"}
)
"""Statuses of LiteLLM, LangSmith, OpenTelemetry and of queues, in lower case."""
_OTEL_ERROR = 2
"""OpenTelemetry's code of the same, within a status."""
_NOTHING = frozenset(
    {"", "none", "null", "nil", "nan", "false", "no", "0", "n/a", "na", "-", "no error", "success", "ok"}
)
_CAUSES = ("error", "errors", "exception", "error_message", "error_code", "error_type")
_HTTP_DIGITS = 3
_CODES = ("status", "status_code", "http_status")
_FLAGS = ("is_error", "failed", "cancelled", "canceled", "aborted", "timed_out", "interrupted")
_TRUE, _FALSE = (True, "true", "True"), (False, "false", "False")
"""Tables hold truth values and codes as texts."""


def marked_as_given_up(record: Record, row: Mapping[str, Any]) -> Record:
    """The record with the finish reason ``error`` where its row says that the request failed, and no finish
    reason says how the answer ended: what it has of a text was cut. So where its text is an error that the
    application logged in the place of an answer, though a logger writes `stop` for it."""
    known = normalize_finish_reason(record.finish_reason)
    if (known is None and _has_failed(row)) or (known in (None, STOP) and is_error(record.text)):
        return replace(record, finish_reason="error")
    return record


def _has_failed(row: Mapping[str, Any]) -> bool:
    status = row.get("status")
    if isinstance(status, Mapping):
        status = status.get("status_code", status.get("code"))
        if status == _OTEL_ERROR:
            return True
    codes = (row.get(name) for name in _CODES)
    return (
        any(_is_cause(row.get(name)) for name in _CAUSES)
        or str(status).lower() in _FAILED
        or str(row.get("state")).rpartition(".")[2].lower() in _FAILED
        or any(map(_is_http_error, codes))
        or str(row.get("level")).lower() == "error"
        or any(row.get(name) in _TRUE for name in _FLAGS if type(row.get(name)) in (bool, str))
        or (type(row.get("success")) in (bool, str) and row.get("success") in _FALSE)
    )


def _is_http_error(code: Any) -> bool:
    if isinstance(code, str) and len(code) == _HTTP_DIGITS and code.isdecimal():
        code = int(code)
    return type(code) is int and code >= LEAST_HTTP_ERROR


def _is_cause(value: Any) -> bool:
    """Whether a value tells of a failure. A number may be a metric of that name."""
    if isinstance(value, str):
        return value.strip().lower() not in _NOTHING
    if isinstance(value, Mapping | list):
        parts = value.values() if isinstance(value, Mapping) else value
        return any(_is_cause(part) or (type(part) is int and part != 0) for part in parts)
    return value is True
