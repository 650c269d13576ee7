"""Runs as Markdown, one page after another."""

from __future__ import annotations

from collections.abc import Sequence

from stresstest.features.diagnose.console import diagnosis_markdown
from stresstest.render.markdown import run_markdown
from stresstest.render.report_data import ReportData


def write(runs: Sequence[ReportData]) -> str:
    """Each run with its diagnosis, if it has one."""
    pages = []
    for each in runs:
        section = "" if each.diagnosis is None else diagnosis_markdown(each.diagnosis)
        pages.append(run_markdown(each.result, found=each.diagnosis, diagnosis=section))
    return "\n---\n\n".join(pages)
