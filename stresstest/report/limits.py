"""Stored limits arranged for use: one model under one decoding, a limit a task and language, the smallest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stresstest.model import Decoding
from stresstest.report.console import when
from stresstest.report.text import clean, count, percent
from stresstest.store import StoredThreshold

Row = StoredThreshold
FLOOR = "a floor: no onset was seen, the sample thins out there"
"""Of a limit whose T is "≥ C"."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What is certified for one model under one decoding.

    rows: one a task and language, by name; of several (rigors, prompt files) the one with the smallest
    limit. uncovered: tasks and languages whose newest measurement certified nothing.
    """

    model: str
    decoding: Decoding
    simulated: bool
    rows: tuple[Row, ...]
    uncovered: tuple[Row, ...] = ()

    @property
    def smallest(self) -> Row:
        """The row whose limit is safe for every task and language in `rows`."""
        return min(self.rows, key=safe)


def safe(row: Row) -> int:
    """A certified row's limit, tokens."""
    return row.safe_max_tokens or 0


def limits_of(rows: Sequence[Row]) -> list[Limits]:
    """Rows by model and decoding, newest first; models of which nothing is certified are left out."""
    groups: dict[tuple[str, Decoding, bool], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.subject.model, row.decoding, row.simulated), []).append(row)
    found = [_limits(key, group) for key, group in groups.items()]
    return [limits for limits in found if limits.rows]


def _limits(key: tuple[str, Decoding, bool], rows: Sequence[Row]) -> Limits:
    model, decoding, simulated = key
    subjects = sorted({(r.subject.task, r.subject.language) for r in rows})
    certified, uncovered = [], []
    for task, language in subjects:
        own = [r for r in rows if (r.subject.task, r.subject.language) == (task, language)]
        usable = [r for r in own if r.threshold.certified and r.safe_max_tokens]
        if usable:
            certified.append(min(usable, key=safe))
        else:
            uncovered.append(own[0])
    return Limits(model, decoding, simulated, tuple(certified), tuple(uncovered))


def one_line(text: str) -> str:
    """Foreign text as one line without control sequences: fit for a comment."""
    return " ".join(clean(text).split())


def decoding_words(decoding: Decoding, *, nothing: str = "server's defaults") -> str:
    """``temperature 0.7, top_k 20, system prompt``; the system prompt itself is not shown."""
    words = [f"{name} {value}" for name, value in decoding.sent().items()]
    return ", ".join([*words, *(["system prompt"] if decoding.system_prompt is not None else [])]) or nothing


def is_floor(row: Row) -> bool:
    """Whether T is where the sample thins out, not where the model fails ("≥ C")."""
    return row.threshold.censored_at is not None


def smallest_line(limits: Limits) -> str:
    """Which limit of several is applied, and whether that one is a floor."""
    row = limits.smallest
    words = (
        f"{limits.model}: the smallest of {len(limits.rows)} limits is {safe(row)} ({row.subject.task}, "
        f"{row.subject.language})"
    )
    return f"{words}; it is {FLOOR}." if is_floor(row) else f"{words}."


def stands_on(row: Row) -> tuple[str, ...]:
    """What a limit stands on, in lines: subject and limit, risk and n, when and with which versions."""
    threshold = row.threshold
    at_least = "at least " if is_floor(row) else ""
    return tuple(
        one_line(line)
        for line in (
            f"{row.subject}: {safe(row)} tokens (coherent up to {at_least}{count(threshold.tokens)}, less "
            f"{percent(row.margin)})",
            f"{percent(threshold.confidence)} confidence that at most {percent(threshold.alpha)} of the "
            f"requests that run so long degenerate: n = {threshold.n}, onsets {threshold.onsets}, distinct "
            f"prompts {count(row.distinct_prompts)}",
            f"measured {when(row.created)} UTC, run {row.run_id}, vLLM {row.server_version or 'unknown'}, "
            f"stresstest {row.tool_version}",
            *([f"{FLOOR}; a sample that runs longer may certify more"] if is_floor(row) else []),
        )
    )
