"""Whether outputs fail later where a longer answer was requested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stresstest.model.scanned import LengthEffect
from stresstest.statistics.survival import clustered_onset_ratio


def length_effect(onsets: Mapping[float, Sequence[Sequence[int]]]) -> LengthEffect | None:
    """Onsets of the longest requested length against the shortest; None with fewer than two lengths.

    onsets: requested length → the onsets of each prompt that has any.
    """
    if len(onsets) < 2:
        return None
    low, high = min(onsets), max(onsets)
    short, long = onsets[low], onsets[high]
    ratio = clustered_onset_ratio(short, long)
    names = f"{low:g}", f"{high:g}"
    if ratio is None:
        n_short, n_long = (sum(map(len, prompts)) for prompts in (short, long))
        if (n_short, n_long) == (len(short), len(long)):
            lacking = f"{n_short} onsets at {names[0]} and {n_long} at {names[1]}: five are needed"
        else:
            lacking = (
                f"onsets of {len(short)} prompts at {names[0]} and of {len(long)} at {names[1]}: "
                "five prompts are needed at each"
            )
        return LengthEffect(*names, n_short=n_short, n_long=n_long, lacking=lacking)
    return LengthEffect(
        *names, ratio.ratio, ratio.lo, ratio.hi, ratio.n_short, ratio.n_long, ratio.independent
    )
