"""The plain log: one form for symptoms and numbers, one line for an onset."""

from __future__ import annotations

import io

from stresstest.campaign.execution.events import AlarmRaised, GenerationFinished
from stresstest.model import SymptomKind
from stresstest.render.plain_progress import PlainProgress
from tests.support.generations import make, make_job


def test_an_onset_is_named_once_in_the_form_of_every_report() -> None:
    """What is suspected at the alarm may be dated and named otherwise at the end, so only the end is told."""
    out = io.StringIO()
    plain = PlainProgress(out)
    plain.measuring("certify", 1)
    answer = make(make_job(), 1500, 1176, symptom=SymptomKind.NEAR_LOOP)
    plain.event(AlarmRaised(answer.key, 1300))
    plain.event(GenerationFinished(answer))
    lines = [line for line in out.getvalue().splitlines() if "from token" in line]
    assert len(lines) == 1
    assert "1/1 certify/1/0: 1,500 tokens, near-loop from token 1,176" in lines[0]
    assert "near_loop" not in out.getvalue()
