"""The paged KV cache: a pool of blocks with vLLM's prefix caching, counted but never filled.

A block is free, held by one sequence, or shared by the prompts that begin alike. A shared block that nobody
holds any more stays known until its place is needed, the longest unused one first.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b

from stresstest.simulation.engine.scenario.spec import KV_BLOCK_TOKENS


def block_keys(prompt_ids: Sequence[int]) -> list[bytes]:
    """One key a full block of the prompt; equal keys mean equal prompts up to the block's end."""
    keys: list[bytes] = []
    parent = b""
    for start in range(0, len(prompt_ids) - KV_BLOCK_TOKENS + 1, KV_BLOCK_TOKENS):
        ids = array("q", prompt_ids[start : start + KV_BLOCK_TOKENS]).tobytes()
        parent = blake2b(parent + ids, digest_size=12).digest()
        keys.append(parent)
    return keys


class BlockPool:
    """`total` blocks of 16 tokens. `used`: held by sequences; the rest can be taken."""

    __slots__ = ("_held", "_idle", "total", "used")

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0
        self._held: dict[bytes, int] = {}
        self._idle: OrderedDict[bytes, None] = OrderedDict()

    @property
    def free(self) -> int:
        return self.total - self.used

    def allocate(self, blocks: int) -> bool:
        """Take blocks for one sequence; False, and nothing taken, when there are not enough."""
        if self.used + blocks > self.total:
            return False
        self.used += blocks
        while self.used + len(self._idle) > self.total:
            self._idle.popitem(last=False)
        return True

    def count_cached(self, keys: Sequence[bytes]) -> int:
        """How many blocks from the first on are cached."""
        for count, key in enumerate(keys):
            if key not in self._held and key not in self._idle:
                return count
        return len(keys)

    def acquire_cached(self, keys: Sequence[bytes]) -> bool:
        """Hold cached blocks; False, and none held, when they no longer fit beside what is used."""
        waking = sum(key in self._idle for key in keys)
        if self.used + waking > self.total:
            return False
        for key in keys:
            if key in self._idle:
                del self._idle[key]
                self.used += 1
            self._held[key] = self._held.get(key, 0) + 1
        return True

    def publish(self, keys: Sequence[bytes]) -> list[bytes]:
        """Make a sequence's own blocks known; returns the keys that it now shares instead of owning.

        A block that another sequence published first is not merged: it stays this one's own, as in vLLM.
        """
        fresh = [key for key in keys if key not in self._held and key not in self._idle]
        for key in fresh:
            self._held[key] = 1
        return fresh

    def release(self, own: int, shared: Sequence[bytes]) -> None:
        """Give back a sequence's own blocks and let go of the shared ones."""
        self.used -= own
        for key in reversed(shared):  # the end of a prompt is the first to be forgotten
            if self._held[key] > 1:
                self._held[key] -= 1
            else:
                del self._held[key]
                self._idle[key] = None
                self.used -= 1
