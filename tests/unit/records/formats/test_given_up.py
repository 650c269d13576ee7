"""Rows that say in words of their own that the request failed."""

from __future__ import annotations

from typing import Any

import pytest

from stresstest.records.formats.given_up import marked_as_given_up
from stresstest.records.record import Record

FAILED: tuple[dict[str, Any], ...] = (
    *(
        {"status": word}
        for word in ("error", "TIMEOUT", "timed_out", "aborted", "interrupted", "expired", "504")
    ),
    *(
        {"status": 504},
        {"status_code": "504"},
        {"http_status": "499"},
        {"success": False},
        {"success": "false"},
    ),
    *(
        {"error": "out of memory"},
        {"state": "TraceState.ERROR"},
        {"error_code": "timeout"},
        {"is_error": True},
        {"cancelled": "true"},
    ),
    *({"level": "ERROR"}, {"aborted": True}),
)
WELL: tuple[dict[str, Any], ...] = (
    *({"status": "success"}, {"status": "200"}, {"status": 200}, {"status_code": "2026"}, {"success": True}),
    *(
        {"success": "yes"},
        {"error": ""},
        {"error_code": 0},
        {"is_error": False},
        {"aborted": 0},
        {"failed": 3},
    ),
    *({"level": "DEFAULT"}, {"success": None}, {"cancelled": "false"}),
)


@pytest.mark.parametrize("row", FAILED, ids=str)
def test_a_row_that_failed_was_given_up(row: dict[str, Any]) -> None:
    """120 of 200 answers broke off in mid-sentence, and a gate passed where a table had codes as texts."""
    found = marked_as_given_up(Record("x", "f", 1, "It was a dark and"), row)
    assert found.finish_reason == "error"


@pytest.mark.parametrize("row", WELL, ids=str)
def test_a_row_that_went_well_was_not(row: dict[str, Any]) -> None:
    """Numbers may be metrics of that name."""
    assert marked_as_given_up(Record("x", "f", 1, "It was."), row).finish_reason is None
