"""An interruption says what it drops: answers that were under way, and how many of them had failed."""

from __future__ import annotations

from stresstest.campaign.execution.events import (
    AlarmRaised,
    GenerationAdvanced,
    GenerationFinished,
    GenerationStarted,
)
from stresstest.campaign.execution.under_way import UnderWay
from tests.support.stored_data import make_generation


def test_what_has_not_ended_is_told() -> None:
    """The screen showed them, so that "no degeneration seen" contradicted it."""
    watch, ended = UnderWay(), make_generation()
    assert watch.dropped() is None
    for key in ("a", "b", ended.job.key):
        watch.follow(GenerationStarted(key, 0.0))
        watch.follow(GenerationAdvanced(key, 1_500))
    watch.follow(AlarmRaised("a", 1_400))
    watch.follow(GenerationFinished(ended))
    assert watch.dropped() == (
        "2 answers were under way when the run was interrupted (1 already degenerate): no number here counts "
        "them or their 3,000 tokens, and --resume asks for them again."
    )
