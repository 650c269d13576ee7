"""Certified threshold, survival curves, comparison and safe max_tokens. Pure."""

from stresstest.statistics.certify import MAX_LOOKS as MAX_LOOKS
from stresstest.statistics.certify import certified_threshold as certified_threshold
from stresstest.statistics.certify import certify as certify
from stresstest.statistics.certify import risk_at as risk_at
from stresstest.statistics.certify import safe_max_tokens as safe_max_tokens
from stresstest.statistics.certify import upper_bound as upper_bound
from stresstest.statistics.certify import without_certificate as without_certificate
from stresstest.statistics.sample import deduplicate as deduplicate
from stresstest.statistics.sample import observations as observations
from stresstest.statistics.survival import onset_ratio as onset_ratio
from stresstest.statistics.survival import survival_curve as survival_curve
