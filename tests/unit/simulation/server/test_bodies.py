"""What the simulated server refuses, as vLLM does: with an answer, not with a traceback."""

from __future__ import annotations

import json

import pytest

from stresstest.simulation.server.bodies import ChatBody, parse_body
from stresstest.simulation.server.refusal import RequestRejected


@pytest.mark.parametrize("field", ['"model": "\\ud800"', '"\\ud83d": 1', '"temperature": "\\udfff"'])
def test_half_of_a_surrogate_pair_is_refused(field: str) -> None:
    """It was an answer of 500, and a traceback on the terminal."""
    found = json.loads(f'{{"messages": [], {field}}}')
    with pytest.raises(RequestRejected) as refused:
        parse_body(found, ChatBody)
    assert refused.value.status == 400
    assert refused.value.body().decode()
