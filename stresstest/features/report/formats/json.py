"""Runs as one JSON document."""

from __future__ import annotations

from collections.abc import Sequence

from stresstest.features.diagnose.document import chain_keys
from stresstest.render.json_text import dumps
from stresstest.render.report_data import ReportData
from stresstest.render.run_document import full_document


def write(runs: Sequence[ReportData]) -> str:
    """One run's document, or `{"runs": [...]}` for several."""
    documents = []
    for each in runs:
        more = {} if each.diagnosis is None else {"diagnosis": chain_keys(each.diagnosis)}
        documents.append(full_document(each.result, each.load) | more)
    return dumps(documents[0] if len(documents) == 1 else {"runs": documents}) + "\n"
