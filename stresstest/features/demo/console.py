"""The introduction and the summary of a demo."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stresstest.model import RunResult
from stresstest.model.percent import percent
from stresstest.render.text import sanitize


def intro_text(scenario: str, truth: str) -> str:
    """The introduction. truth: the summary in the scenario's file, which names the true limit."""
    return (
        "This demo starts a simulated vLLM server and measures it exactly like a real one: with prompts that "
        "request longer and longer texts, checking every token. It needs no GPU and no model and leaves your "
        f"store alone.\nScenario {sanitize(scenario)}. What is true of it: {sanitize(truth)}."
    )


def summary_text(result: RunResult, reports: Sequence[Path]) -> str:
    """The main observation, the report, and the next commands."""
    return "\n".join(
        [
            "",
            _observations(result),
            f"Report: {' and '.join(sanitize(str(report)) for report in reports)}",
            "",
            "Check your own server:  stresstest doctor --base-url URL",
            "Measure it:             stresstest run --base-url URL --lang it",
            "Other scenarios:        stresstest sim --list",
        ]
    )


def _observations(result: RunResult) -> str:
    total = len(result.generations)
    failing = sum(1 for g in result.generations if g.verdict.degenerate)
    lost = sum(1 for g in result.generations if g.failure is not None)
    kv = result.server.kv_peak if result.server else None
    line = f"{failing} of {total} answers" if failing else "No answer"
    line += " stopped making sense"
    if lost:
        return f"{line}; {lost} of {total} were lost to server failures, which are counted separately."
    if failing and kv is not None:
        line += f" on a server that looked healthy: KV cache at most {percent(kv)} full, no failed request"
    return f"{line}."
