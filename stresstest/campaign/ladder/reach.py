"""Whether a certifying sample says anything of the onset that the climb suspects, or ends before it.

Decided from lengths and endings, never from the sample's own onsets: to take another sample because many
have failed, or few, would choose the threshold.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from stresstest.model import GenerationRecord, Rigor
from stresstest.statistics.sample import ended_by_itself


@dataclass(frozen=True, slots=True)
class SampleReach:
    """`ended` of `size` answers ended by themselves before `tokens`. needed: where fewer are left, no T from
    there on can be certified, whatever the onsets."""

    tokens: int
    ended: int
    size: int
    needed: int

    @property
    def enough(self) -> bool:
        return self.size - self.ended >= self.needed


def sample_reach(sample: Collection[GenerationRecord], tokens: int, rigor: Rigor) -> SampleReach:
    """How many answers of a certifying sample (with `tighten`, of its first look) ended by themselves before
    `tokens`."""
    ended = sum(1 for g in sample if ended_by_itself(g) and g.verdict.tokens < tokens)
    return SampleReach(tokens, ended, len(sample), rigor.floor)
