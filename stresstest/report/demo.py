"""The words around a demo: what will happen, and what was seen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stresstest.model import RunResult
from stresstest.report.text import clean, count, percent


def before(scenario: str, truth: str) -> str:
    """Said before anything is sent. scenario, truth: its name and its summary, from its file."""
    return (
        f"A simulated vLLM server is started and measured exactly as a real one would be: prompts that ask "
        f"for ever longer texts, every token watched. No GPU, no model; nothing goes into your store.\n"
        f"Scenario {clean(scenario)}, its truth: {clean(truth)}."
    )


def after(result: RunResult, reports: Sequence[Path]) -> str:
    """What was seen, in a few lines, and where to go from here."""
    threshold = result.threshold
    lines = ["", "What you have just seen:", _seen(result)]
    if threshold.certified:
        bound = f"{percent(threshold.alpha)} at {percent(threshold.confidence)} confidence"
        reach = "≥ " if threshold.censored_at else ""
        lines.append(
            f"- T = {reach}{count(threshold.tokens)} tokens is certified from {threshold.n} answers at risk: "
            f"risk ≤ {bound}. With {percent(result.run.settings.margin)} margin: max_tokens "
            f"{count(result.safe_max_tokens)}."
        )
    elif threshold.lacking:
        lines.append(f"- Nothing is certified: {clean(threshold.lacking)}")
    lines += [
        f"- The report is in {' and '.join(clean(str(report)) for report in reports)}.",
        "",
        "Is your server ready:  stresstest doctor --base-url URL",
        "Measure it:            stresstest run --base-url URL --lang it",
        "Other scenarios:       stresstest sim --list",
    ]
    return "\n".join(lines)


def _seen(result: RunResult) -> str:
    total = len(result.generations)
    failing = sum(1 for g in result.generations if g.verdict.degenerate)
    lost = sum(1 for g in result.generations if g.failure is not None)
    kv = result.server.kv_peak if result.server else None
    said = f"{failing} of {total} answers" if failing else "No answer"
    said += " stopped making sense"
    if lost:
        return f"- {said}; {lost} of {total} were lost to failures of the server, and count apart."
    if failing and kv is not None:
        said += f", on a server that looked healthy: KV cache at most {percent(kv)} full, no request failed"
    return f"- {said}."
