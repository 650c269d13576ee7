"""What vLLM's `repetition_detection` costs its scheduler, from a measured table.

vLLM's check is Python code in the scheduler, run once a token of every request that asks for it; it tries one
pattern size after the other, so that the number of sizes decides the cost and the number of copies little
does. Measured with `benchmarks/repetition_check.py` on vLLM 0.32.0 (CPU time, AMD EPYC, Python 3.11): no more
than 3 % between 2 and 8 copies. A faster core scales all of it.
"""

from __future__ import annotations

from bisect import bisect_left

from stresstest.economics.mitigation import RepetitionSetting

SOURCE = "vLLM 0.32.0 on an AMD EPYC core"

_MEASURED = ((0, 0.0), (1, 0.5), (4, 1.5), (20, 6.9), (64, 21.1), (125, 41.3), (497, 172.6), (1_024, 373.9))
_LARGEST = (2_048, 746.6)
"""(pattern sizes tried, microseconds a token)."""


def check_microseconds(setting: RepetitionSetting) -> float:
    """CPU time of the check for one token of one long answer, interpolated between what was measured.

    A pattern whose copies would be longer than the answer is not tried: short answers cost less.
    """
    sizes = setting.max_pattern_size - setting.min_pattern_size + 1
    table = (*_MEASURED, _LARGEST)
    at = min(max(bisect_left(table, (sizes, 0.0)), 1), len(table) - 1)
    (low, below), (high, above) = table[at - 1], table[at]
    return below + (above - below) * (sizes - low) / (high - low)
