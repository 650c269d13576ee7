"""Recorded outputs: a sample in bounded memory, its certified length, the effect of what was requested."""

from stresstest.statistics.recorded.length_effect import length_effect as length_effect
from stresstest.statistics.recorded.sample import MAX_KEPT as MAX_KEPT
from stresstest.statistics.recorded.sample import RecordedSample as RecordedSample
from stresstest.statistics.recorded.threshold import certify_outputs as certify_outputs
from stresstest.statistics.recorded.threshold import certify_recorded as certify_recorded
