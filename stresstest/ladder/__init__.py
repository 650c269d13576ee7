"""Which rung next and when to stop. Pure: decisions depend on results, never on arrival order."""

from stresstest.ladder.ascent import Ascent, Climbed, Sighting, Why, ascend
from stresstest.ladder.climb import Certify, Choice, Climb, Done, Step, choose, next_step, share_at_risk
from stresstest.ladder.plan import LadderSetup, PlanSummary, Rung, job, look_sizes, targets, worst_case

__all__ = [
    "Ascent",
    "Certify",
    "Choice",
    "Climb",
    "Climbed",
    "Done",
    "LadderSetup",
    "PlanSummary",
    "Rung",
    "Sighting",
    "Step",
    "Why",
    "ascend",
    "choose",
    "job",
    "look_sizes",
    "next_step",
    "share_at_risk",
    "targets",
    "worst_case",
]
