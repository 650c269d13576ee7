"""Which rung next and when to stop. Pure: decisions depend on results, never on arrival order."""

from stresstest.campaign.ladder.climb import (
    CertifyStep,
    ClimbStep,
    LadderDone,
    certified_length,
    next_step,
)
from stresstest.campaign.ladder.plan import (
    ALARM_HEADROOM,
    LadderSetup,
    PlanSummary,
    Rung,
    derive_seed,
    ladder_job,
    look_sizes,
    rung_targets,
    worst_case_plan,
)

__all__ = [
    "ALARM_HEADROOM",
    "CertifyStep",
    "ClimbStep",
    "LadderDone",
    "LadderSetup",
    "PlanSummary",
    "Rung",
    "certified_length",
    "derive_seed",
    "ladder_job",
    "look_sizes",
    "next_step",
    "rung_targets",
    "worst_case_plan",
]
