"""One run as an HTML page, or several side by side."""

from __future__ import annotations

from collections.abc import Sequence

from stresstest.render.html import compared_html, run_html
from stresstest.render.report_data import ReportData


def write(runs: Sequence[ReportData]) -> str:
    """A self-contained page that opens without a network."""
    return run_html(runs[0]) if len(runs) == 1 else compared_html(runs)
