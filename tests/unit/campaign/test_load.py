"""The load that a sample puts on the server, and that a limit is certified for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stresstest.campaign.campaign_setup import ladder_without_server
from stresstest.campaign.provenance.doubts import doubts, load_notes
from tests.support.stored_data import make_run


@pytest.mark.parametrize(
    ("options", "reached", "hint"),
    [
        ({"rigor": "quick", "concurrency": 64}, 38, " Rigor standard sends 124."),
        ({"rigor": "standard", "concurrency": 200}, 124, " Rigor strict sends 473."),
        ({"rigor": "standard", "concurrency": 64, "budget_tokens": 10_000}, 59, " Rigor standard sends 124."),
        ({"rigor": "strict", "concurrency": 600}, 473, "larger load."),
        ({"rigor": "quick", "concurrency": 8}, 8, ""),
    ],
)
def test_no_larger_load_is_claimed_than_the_sample_has_requests(
    options: dict[str, object], reached: int, hint: str
) -> None:
    """38 requests at --concurrency 64 certified a limit "with 64 in flight", at which 80 % looped."""
    run = make_run()
    settings = replace(run.settings, **options)  # type: ignore[arg-type]
    assert settings.in_flight == reached
    told = load_notes(settings)
    assert bool(told) == (reached < settings.concurrency)
    assert all(f"as few as {reached} requests" in note and note.endswith(hint) for note in told)
    assert set(told) <= set(doubts(replace(run, settings=settings), [], []))


@pytest.mark.parametrize(("concurrency", "noted"), [(8, False), (41, False), (42, True), (124, True)])
def test_a_load_that_ebbs_away_is_noted(concurrency: int, noted: bool) -> None:
    """Half of a sample of 124 with 64 in flight runs while ever fewer are: 50 % failed, where 80 % would."""
    settings = replace(make_run().settings, rigor="standard", concurrency=concurrency)
    assert settings.in_flight == concurrency
    assert ["ever fewer" in note for note in load_notes(settings)] == [True] * noted


def test_a_diagnosis_own_campaign_puts_the_whole_load_on() -> None:
    """Its small sample of 24 requests certified a remedy for 32 in flight, under which all of them looped."""
    settings = replace(make_run().settings, rigor="quick", concurrency=32, parent="r1")
    assert ladder_without_server(settings).rigor.planned == settings.in_flight == 32
    assert ladder_without_server(replace(settings, concurrency=1)).rigor.planned == 24
