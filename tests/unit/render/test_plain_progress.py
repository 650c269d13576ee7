"""The plain log: one form for symptoms and numbers, one line for an onset."""

from __future__ import annotations

import io
from dataclasses import replace
from types import SimpleNamespace

import pytest

from stresstest.campaign.execution.events import AlarmRaised, GenerationAdvanced, GenerationFinished
from stresstest.model import SymptomKind
from stresstest.render.plain_progress import PlainProgress
from tests.support.generations import make, make_job
from tests.support.stored_data import make_run


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


def test_a_minute_without_a_line_is_no_standstill(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pipeline's log, eight answers of 16,000 tokens were five minutes of silence."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("stresstest.render.plain_progress.time.monotonic", lambda: clock.now)
    out = io.StringIO()
    plain = PlainProgress(out)
    plain.measuring("certify", 8)
    for clock.now in range(1, 130):
        plain.event(GenerationAdvanced("a", 16 * clock.now))
        plain.event(GenerationAdvanced("b", 20 * clock.now))
    lines = out.getvalue().splitlines()
    assert lines[1:] == [
        "[01:00] 0/8 ended; 2 answers have begun, the longest with 1,180 tokens so far",
        "[02:00] 0/8 ended; 2 answers have begun, the longest with 2,380 tokens so far",
    ]


def test_the_time_left_counts_what_runs_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 38 answers, eight at a time, the first ended after a minute: "ends in 37 min" was said of four."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("stresstest.render.plain_progress.time.monotonic", lambda: clock.now)
    out = io.StringIO()
    plain = PlainProgress(out)
    run = make_run("r")
    plain.started("r", replace(run.settings, concurrency=8), run.profile)
    plain.measuring("certify", 38)
    clock.now = 60.0
    plain.event(GenerationFinished(make(make_job(), 1500, None)))
    assert out.getvalue().rstrip().endswith("ends in 7 min 27 s")
