"""What a report says of a comparison that is stored beside its run."""

from __future__ import annotations

import pytest

from stresstest.model import DocumentKind
from stresstest.render.html.findings import finding_sections
from stresstest.store import StoredDocument


@pytest.mark.parametrize(("method", "of"), [("clopper-pearson", "candidate"), ("tango", "difference")])
def test_an_interval_stands_beside_what_it_is_of(method: str, of: str) -> None:
    """Without pairs the bounds are of the candidate's own share; they were shown as the difference's."""
    body = {"baseline": "a", "candidate": "b", "at_tokens": 900, "method": method}
    body |= {"p_baseline": 0.0, "p_candidate": 0.2, "difference": 0.2, "interval": [0.098, 1.0]}
    document = StoredDocument(
        "c", DocumentKind.CHECK, 1.0, complete=True, simulated=False, runs=(), body=body
    )
    facts = dict(finding_sections([document])[0].facts)
    bounds = " (9.8 % to 100.0 %)"
    assert facts["failed by then, candidate"] == "20.0 %" + (bounds if of == "candidate" else "")
    assert facts["difference"] == "+20.0 points" + (bounds if of == "difference" else "")
