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
    assert "1/1 certifying answer 1: 1,500 tokens, near-loop from token 1,176" in lines[0]
    assert "near_loop" not in out.getvalue()


def test_an_onset_in_a_continued_answer_counts_from_its_first_token() -> None:
    """A fork is cut at token 600: its onset is compared with those of whole answers."""
    out = io.StringIO()
    plain = PlainProgress(out)
    answer = make(make_job(), 300, 120, symptom=SymptomKind.LOOP)
    plain.measuring("unchanged: 1 fork, nothing changed", 1, {answer.key: 600})
    plain.event(GenerationFinished(answer))
    assert "300 tokens after the cut at 600, loop from token 720" in out.getvalue()
