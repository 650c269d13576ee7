"""How much evidence a run asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Rigor:
    """Statistical settings of a run. alpha: tolerated degeneration risk; confidence: one-sided;
    planned/floor: planned and minimum number of requests at risk."""

    name: str
    alpha: float
    confidence: float
    planned: int
    floor: int


RIGORS: Mapping[str, Rigor] = MappingProxyType(
    {
        "quick": Rigor("quick", 0.10, 0.90, 38, 22),
        "standard": Rigor("standard", 0.05, 0.95, 124, 59),
        "strict": Rigor("strict", 0.01, 0.95, 473, 299),
    }
)


UNMASKING_HEADROOM = 2
"""A campaign that a diagnosis starts plans the floor of its rigor, and this many more for lost answers."""
