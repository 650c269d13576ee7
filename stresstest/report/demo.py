"""The words around a demo: what will happen, and what was seen."""

from __future__ import annotations

from pathlib import Path

from stresstest.model import RunResult
from stresstest.report.text import clean, count, percent


def before(scenario: str) -> str:
    """Said before anything is sent."""
    return (
        f"A simulated vLLM server is started (scenario {clean(scenario)}), then measured exactly as a real "
        "one: prompts that ask for ever longer texts, every token watched. No GPU, no model, nothing is kept."
    )


def after(result: RunResult, report: Path) -> str:
    """What was seen, in a few lines, and where to go from here."""
    threshold = result.threshold
    failing = [g for g in result.generations if g.verdict.degenerate]
    kv = result.server.kv_peak if result.server else None
    lines = ["", "What you have just seen:"]
    if failing:
        green = (
            f" while the KV cache never passed {percent(kv)} and no request failed" if kv is not None else ""
        )
        lines.append(f"- {len(failing)} of {len(result.generations)} answers stopped making sense{green}.")
    else:
        lines.append("- No answer stopped making sense up to the horizon.")
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
        f"- The report is in {clean(str(report))}.",
        "",
        "On your own server:   stresstest run --base-url http://localhost:8000/v1 --lang it",
        "Is everything ready:  stresstest doctor",
        "Other scenarios:      stresstest sim --list",
    ]
    return "\n".join(lines)
