"""Continuous batching over a paged KV cache, after vLLM's V1 scheduler (v1/core/sched/scheduler.py).

First come, first served. Every step computes one token of each running sequence and, with what is left of
the token budget, prompts in chunks. When blocks run out, the sequence that was scheduled last is preempted:
its blocks are freed, it goes to the front of the queue, and all its tokens are computed again later.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from stresstest.simulation.engine.scenario.spec import KV_BLOCK_TOKENS, EngineSpec
from stresstest.simulation.engine.scheduling.kv_cache import BlockPool, block_keys
from stresstest.simulation.engine.scheduling.sequence import Sequence


@dataclass(slots=True)
class ScheduledBatch:
    """What one step computes. prefill: tokens beyond one a sequence; preempted: in this step."""

    sequences: list[Sequence] = field(default_factory=list)
    tokens: int = 0
    preempted: int = 0

    @property
    def prefill(self) -> int:
        return self.tokens - len(self.sequences)


class Scheduler:
    """waiting, running: sequences. resident: tokens of running sequences whose KV is in the cache."""

    def __init__(self, spec: EngineSpec) -> None:
        self.spec = spec
        self.pool = BlockPool(spec.blocks)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.resident = 0
        self.prefix_queries = 0
        self.prefix_hits = 0

    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Forget a sequence that is over, wherever it stands."""
        if sequence in self.running:
            self.running.remove(sequence)
            self._free(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)

    def drop(self, over: list[Sequence]) -> None:
        """Forget running sequences that have just finished."""
        gone = set(map(id, over))
        self.running = [each for each in self.running if id(each) not in gone]
        for sequence in over:
            self._free(sequence)

    def schedule(self, now: float) -> ScheduledBatch:
        """The next step's batch; `sequence.planned` says how many of its tokens are computed."""
        batch = ScheduledBatch()
        budget = self._schedule_running(batch)
        if not batch.preempted:
            self._admit(batch, budget, now)
        return batch

    def _schedule_running(self, batch: ScheduledBatch) -> int:
        budget, running, scheduled = self.spec.max_num_batched_tokens, self.running, batch.sequences
        at = 0
        while at < len(running) and budget > 0:
            sequence = running[at]
            new = min(sequence.tokens - sequence.computed, budget)
            if sequence.computed + new > sequence.capacity and not self._grow(sequence, new, batch):
                break
            sequence.planned = new
            budget -= new
            batch.tokens += new
            scheduled.append(sequence)
            at += 1
        return budget

    def _grow(self, sequence: Sequence, new: int, batch: ScheduledBatch) -> bool:
        """Blocks for `new` more tokens, preempting from the end; False when it had to go itself."""
        blocks = -(-(sequence.computed + new - sequence.capacity) // KV_BLOCK_TOKENS)
        while not self.pool.allocate(blocks):
            victim = self.running.pop()
            self._preempt(victim)
            batch.preempted += 1
            if victim is sequence:
                return False
        sequence.own_blocks += blocks
        sequence.capacity += blocks * KV_BLOCK_TOKENS
        return True

    def _preempt(self, victim: Sequence) -> None:
        self._free(victim)
        victim.preemptions += 1
        self.waiting.appendleft(victim)

    def _free(self, sequence: Sequence) -> None:
        self.pool.release(sequence.own_blocks, sequence.shared)
        self.resident -= sequence.computed
        sequence.own_blocks = sequence.capacity = sequence.computed = 0
        sequence.shared = []

    def _admit(self, batch: ScheduledBatch, budget: int, now: float) -> None:
        while self.waiting and budget > 0 and len(self.running) < self.spec.max_num_seqs:
            sequence = self.waiting[0]
            known = self._cached_blocks(sequence)
            cached = len(known) * KV_BLOCK_TOKENS
            new = min(sequence.tokens - cached, budget)
            blocks = -(-(cached + new) // KV_BLOCK_TOKENS) - len(known)
            if not self.pool.acquire_cached(known):
                break
            if not self.pool.allocate(blocks):
                self.pool.release(0, known)
                break
            self.waiting.popleft()
            self._start(sequence, known, blocks, now)
            sequence.planned = new
            budget -= new
            batch.tokens += new
            batch.sequences.append(sequence)
            self.running.append(sequence)

    def _start(self, sequence: Sequence, known: list[bytes], blocks: int, now: float) -> None:
        cached = len(known) * KV_BLOCK_TOKENS
        sequence.shared = known
        sequence.own_blocks = blocks
        sequence.capacity = cached + blocks * KV_BLOCK_TOKENS
        sequence.computed = cached
        self.resident += cached
        if sequence.scheduled is None:
            sequence.scheduled = now
            sequence.cached_tokens = cached
            if self.spec.prefix_caching:
                self.prefix_queries += sequence.prompt_tokens
                self.prefix_hits += cached

    def _cached_blocks(self, sequence: Sequence) -> list[bytes]:
        """Keys of the prompt's blocks that need no computing; the last token always does."""
        if not self.spec.prefix_caching or sequence.request.silent is not None:
            return []
        if sequence.keys is None:
            sequence.keys = block_keys(sequence.request.prompt_ids)
        keys = sequence.keys
        if keys and len(keys) * KV_BLOCK_TOKENS >= sequence.tokens:
            keys = keys[:-1]
        return keys[: self.pool.count_cached(keys)]

    def publish(self, sequence: Sequence) -> None:
        """The prompt is computed: its blocks may be shared from now on."""
        if sequence.keys and len(sequence.shared) < len(sequence.keys):
            fresh = self.pool.publish(sequence.keys[len(sequence.shared) :])
            sequence.own_blocks -= len(fresh)
            sequence.shared = [*sequence.shared, *fresh]

    def advance_uniform_steps(self, most: int) -> int:
        """Take equal steps at once, `most` at most, while blocks last.

        Returns how many; 0 when a prompt is being computed or somebody can be admitted.
        """
        running = self.running
        if not running or any(sequence.tokens - sequence.computed != 1 for sequence in running):
            return 0
        if self.waiting and len(running) < self.spec.max_num_seqs and self._could_admit():
            return 0
        low, high, middle = 0, most, most
        while low < high:
            if sum(self._extra_blocks(sequence, middle) for sequence in running) <= self.pool.free:
                low = middle
            else:
                high = middle - 1
            middle = (low + high + 1) // 2
        if low:
            self._apply_uniform_steps(low)
        return low

    def _apply_uniform_steps(self, steps: int) -> None:
        for sequence in self.running:
            blocks = self._extra_blocks(sequence, steps)
            self.pool.allocate(blocks)
            sequence.own_blocks += blocks
            sequence.capacity += blocks * KV_BLOCK_TOKENS
            sequence.computed += steps
            sequence.tokens += steps
            sequence.written += steps
        self.resident += steps * len(self.running)

    @staticmethod
    def _extra_blocks(sequence: Sequence, steps: int) -> int:
        """Blocks that so many more tokens take."""
        return max(0, -(-(sequence.computed + steps - sequence.capacity) // KV_BLOCK_TOKENS))

    def _could_admit(self) -> bool:
        head = self.waiting[0]
        new = min(head.tokens, self.spec.max_num_batched_tokens - len(self.running))
        return -(-new // KV_BLOCK_TOKENS) <= self.pool.free
