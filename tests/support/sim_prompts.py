"""Requests to the simulated engine, for its tests."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from stresstest.simulation.engine import Engine, Scenario, Sequence, SimRequest, vocabulary
from stresstest.simulation.engine.virtual import run_virtual
from stresstest.tasks import Task, load_task


@lru_cache
def shipped(task: str) -> Task:
    return load_task(task)


def prompt_ids(
    units: int = 30, *, index: int = 0, language: str = "it", task: str = "narrative",
    system: str | None = None, open_structure: bool = False, answer: tuple[int, ...] = (),
) -> tuple[int, ...]:  # fmt: skip
    """A shipped task's chat prompt, with the answer so far behind it."""
    prompt = shipped(task).prompt(language, index, units, system, open_structure)
    return (*vocabulary.encode_chat([(m.role, m.content) for m in prompt.messages]), *answer)


def asking(units: int = 30, *, index: int = 0, max_tokens: int = 8_000, **options: Any) -> SimRequest:
    """A request for so many units; options of `SimRequest` and of `prompt_ids`."""
    about = {
        k: options.pop(k) for k in ("language", "task", "system", "open_structure", "answer") if k in options
    }
    options.setdefault("seed", index)
    return SimRequest(prompt_ids(units, index=index, **about), max_tokens, **options)


def alone(scenario: Scenario, request: SimRequest) -> Sequence:
    """One request on an idle server."""
    return run_virtual(Engine(scenario), [request], concurrency=1).sequences[0]


def silent(tokens: int, prompt: int = 100) -> SimRequest:
    """An answer of so many tokens without text."""
    return SimRequest((7,) * prompt, tokens, silent=tokens)


def ids(sequence: Sequence) -> list[int]:
    return [written.id for written in sequence.output]


def text(sequence: Sequence) -> str:
    return vocabulary.decode([i for i in ids(sequence) if i != vocabulary.EOS])


def sized(scenario: Scenario, **engine: Any) -> Scenario:
    """The scenario with another engine; `max_model_len` is brought down to its KV cache."""
    spec = replace(scenario.engine, **engine)
    longest = min(scenario.model.max_model_len, spec.kv_cache_tokens)
    return replace(scenario, engine=spec, model=replace(scenario.model, max_model_len=longest))
