"""A verdict as a flat row: a line of ``scan --out``, and what the Python API returns."""

from __future__ import annotations

from typing import Any

from stresstest.model.scanned import ScanVerdict

VERDICT_COLUMNS: dict[str, type] = {
    "id": str,
    "degenerate": bool,
    "symptom": str,
    "onset_char": int,
    "onset_token": int,
    "alarm_char": int,
    "loops_to_end": bool,
    "recovered": bool,
    "score": float,
}
"""The keys of a row in their order, with their types; any but the flags, the id and the score may be None."""


def verdict_row(judged: ScanVerdict) -> dict[str, Any]:
    """The contract's keys in its order."""
    return {
        "id": judged.id,
        "degenerate": judged.degenerate,
        "symptom": None if judged.symptom is None else str(judged.symptom),
        "onset_char": judged.onset_char,
        "onset_token": None if judged.tokens is None else judged.tokens.onset,
        "alarm_char": judged.alarm_char,
        "loops_to_end": judged.loops_to_end,
        "recovered": judged.recovered,
        "score": judged.score,
    }
