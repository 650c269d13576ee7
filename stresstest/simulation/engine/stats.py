"""What the engine tells about itself: the numbers behind vLLM's metrics."""

from __future__ import annotations

from dataclasses import dataclass, field

from stresstest.simulation.engine.sequence import Sequence


@dataclass(slots=True)
class Counters:
    """Totals since the start. finished: by finish reason."""

    preemptions: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    finished: dict[str, int] = field(default_factory=dict)
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Stats:
    """A snapshot. running, waiting: sequences. kv_usage: share of blocks held, 0-1. The rest: totals.

    prefix_queries, prefix_hits: prompt tokens looked up in, and found in, the prefix cache.
    """

    running: int
    waiting: int
    kv_usage: float
    preemptions: int
    prompt_tokens: int
    generation_tokens: int
    finished: dict[str, int]
    prefix_queries: int
    prefix_hits: int


@dataclass(frozen=True, slots=True)
class Step:
    """One engine step. at, duration: engine seconds. emitted: sequences that got a token, whose time is
    at + duration; finished: those of them that are over. tokens: computed in all (prompt and decode)."""

    at: float
    duration: float
    emitted: list[Sequence]
    finished: list[Sequence]
    tokens: int
    preempted: int
