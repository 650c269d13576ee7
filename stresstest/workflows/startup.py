"""`doctor --log`: a vLLM startup log explained, and joined with the limits that are stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stresstest.diagnosis.capacity import Capacity, Chain, capacity, explain_shortage
from stresstest.records.startup_log import StartupFacts, read_startup_log
from stresstest.store import StoredThreshold

PROMPT_TOKENS = 256
"""Taken for a prompt where nobody says: short against the outputs that are limited here."""


@dataclass(frozen=True, slots=True)
class Explained:
    """A startup log: its facts, why it failed if it did, and what its cache holds by subject."""

    facts: StartupFacts
    chain: Chain | None
    held: tuple[tuple[str, Capacity], ...]


def explain(
    lines: Iterable[str], limits: Iterable[StoredThreshold], *, prompt_tokens: int = PROMPT_TOKENS
) -> Explained:
    """Read the log and compute what follows from it. limits: the latest threshold of each subject."""
    facts = read_startup_log(lines)
    short = facts.shortage
    chain = None
    if short is not None:
        chain = explain_shortage(
            max_model_len=short.max_model_len or facts.max_model_len,
            needed_gib=short.needed,
            available_gib=short.available,
            estimated=short.estimated,
            weights_gib=facts.weights_gib,
            utilization=facts.utilization,
            total_gib=facts.total_gib,
            kv_cache_dtype=facts.kv_cache_dtype,
        )
    held: list[tuple[str, Capacity]] = []
    if facts.kv_cache_tokens:
        known = [row for row in limits if row.threshold.certified and not row.simulated]
        ours = [row for row in known if facts.model in (row.subject.model, None)] or known
        for subject, safe in [(str(row.subject), row.safe_max_tokens) for row in ours] or [("", None)]:
            fits = capacity(
                facts.kv_cache_tokens,
                facts.max_model_len,
                safe,
                prompt_tokens=prompt_tokens,
                max_num_seqs=facts.max_num_seqs,
            )
            held.append((subject, fits))
    return Explained(facts, chain, tuple(held))
