"""`doctor --log`: explains a vLLM startup log and relates it to the stored limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stresstest.diagnosis.capacity import FailureChain, KvCapacity, explain_kv_shortage, kv_capacity
from stresstest.endpoint.cpu_vllm import ROOMY_STEP
from stresstest.model import Subject
from stresstest.records.startup_log import StartupFacts, read_startup_log
from stresstest.store import StoredThreshold

DEFAULT_PROMPT_TOKENS = 256
"""Assumed length of a prompt: short compared with the outputs that are limited here."""


@dataclass(frozen=True, slots=True)
class StartupExplanation:
    """Facts of a startup log, why the start failed (None if it did not), and the KV capacity by subject."""

    facts: StartupFacts
    chain: FailureChain | None
    held: tuple[tuple[Subject | None, KvCapacity], ...]


def may_die_of_seeds(facts: StartupFacts) -> bool:
    """Whether a request with a seed may end this server (`endpoint.cpu_vllm`)."""
    return facts.device == "cpu" and (facts.batched_tokens or 0) < ROOMY_STEP


def explain_startup_log(
    lines: Iterable[str], limits: Iterable[StoredThreshold], *, prompt_tokens: int = DEFAULT_PROMPT_TOKENS
) -> StartupExplanation:
    """Explain a log. limits: the latest threshold of each subject. prompt_tokens: usual prompt length."""
    facts = read_startup_log(lines)
    short = facts.shortage
    chain = None
    if short is not None:
        chain = explain_kv_shortage(
            max_model_len=short.max_model_len or facts.max_model_len,
            needed_gib=short.needed,
            available_gib=short.available,
            estimated=short.estimated,
            weights_gib=facts.weights_gib,
            utilization=facts.utilization,
            total_gib=facts.total_gib,
            kv_cache_dtype=facts.kv_cache_dtype,
        )
    held: list[tuple[Subject | None, KvCapacity]] = []
    if facts.kv_cache_tokens:
        certified = (row for row in limits if row.threshold.certified and not row.overruled_by)
        known = [row for row in certified if not row.simulated]
        ours = [row for row in known if facts.model in (row.subject.model, None)] or known
        limited: list[tuple[Subject | None, int | None]]
        limited = [(row.subject, row.safe_max_tokens) for row in ours] or [(None, None)]
        for subject, safe in limited:
            fits = kv_capacity(
                facts.kv_cache_tokens,
                facts.max_model_len,
                safe,
                prompt_tokens=prompt_tokens,
                max_num_seqs=facts.max_num_seqs,
            )
            held.append((subject, fits))
    return StartupExplanation(facts, chain, tuple(held))
