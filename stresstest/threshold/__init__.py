"""How far a model stays coherent: certified bound, survival curves, safe max_tokens. Pure."""

from stresstest.threshold.certify import (
    LOOKS,
    certified_threshold,
    certify,
    certify_looks,
    needed_at_risk,
    risk_at,
    upper_bound,
    withdrawn,
)
from stresstest.threshold.safe import safe_max_tokens
from stresstest.threshold.sample import Outcome, deduplicate, observations, outcome
from stresstest.threshold.survival import (
    OnsetRatio,
    cumulative_incidence,
    incidence_at,
    kaplan_meier,
    onset_ratio,
    survival_curve,
)

__all__ = [
    "LOOKS",
    "OnsetRatio",
    "Outcome",
    "certified_threshold",
    "certify",
    "certify_looks",
    "cumulative_incidence",
    "deduplicate",
    "incidence_at",
    "kaplan_meier",
    "needed_at_risk",
    "observations",
    "onset_ratio",
    "outcome",
    "risk_at",
    "safe_max_tokens",
    "survival_curve",
    "upper_bound",
    "withdrawn",
]
