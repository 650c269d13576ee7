"""`plan`: what a run would ask for, without a server."""

from __future__ import annotations

from stresstest.ladder import PlanSummary, worst_case
from stresstest.model import RunSettings
from stresstest.workflows.setting import DEFAULT_HORIZON, ladder_setup, load_source


def plan_campaign(settings: RunSettings) -> PlanSummary:
    """The worst case for these settings. The context's room is not known here: the horizon is the
    one given, else 16,384 tokens."""
    return worst_case(ladder_setup(settings, load_source(settings), settings.horizon or DEFAULT_HORIZON))
