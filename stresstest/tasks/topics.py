"""Topics from templates: every combination of the slots once, in an order that varies everything at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from stresstest.tasks._foreign import Malformed
from stresstest.tasks.prompt import PLACEHOLDER, fill

MAX_TOPICS = 100_000
"""Slots multiply quickly; beyond this a task file is a mistake, and would fill the memory."""


def expand_topics(templates: list[str], slots: Mapping[str, list[str]], key: str) -> tuple[str, ...]:
    """All distinct topics, the templates taking turns, neighbours differing in every slot."""
    sizes = [[len(slots[name]) for name in dict.fromkeys(PLACEHOLDER.findall(t))] for t in templates]
    total = sum(math.prod(each) for each in sizes)
    if total > MAX_TOPICS:
        raise Malformed(f"{key} expands to {total} topics; at most {MAX_TOPICS} are allowed")
    turns = zip_longest(*(_expand(template, slots) for template in templates))
    return tuple(dict.fromkeys(topic for turn in turns for topic in turn if topic is not None))


def _expand(template: str, slots: Mapping[str, list[str]]) -> Iterator[str]:
    names = list(dict.fromkeys(PLACEHOLDER.findall(template)))
    for digits in diagonal_product([len(slots[name]) for name in names]):
        chosen = {name: slots[name][digit] for name, digit in zip(names, digits, strict=True)}
        yield fill(template, chosen)


def diagonal_product(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every tuple of ``product(range(n) for n in sizes)`` once, in an order where all digits keep moving.

    Counting k up with every digit k mod n visits only lcm(sizes) tuples; each time the digits before n come
    back in step with it, n's digit is shifted by one, which reaches the others. A small sample is thus as
    varied as the slots allow.
    """
    for k in range(math.prod(sizes)):
        digits, before = [], 1
        for size in sizes:
            position = k % (before * size)
            digits.append((position + position // math.lcm(before, size)) % size)
            before *= size
        yield tuple(digits)
