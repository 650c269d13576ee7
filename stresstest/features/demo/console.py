"""The introduction and the summary of a demo."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from stresstest.model import Diagnosis, RunResult
from stresstest.model.percent import percent_at_most
from stresstest.render.diagnosis import cost_line
from stresstest.render.run_summary import cost_sentence
from stresstest.render.text import sanitize


def intro_text(scenario: str, truth: str, store: Path) -> str:
    """The introduction. truth: the summary in the scenario's file, which names the true limit. store: file
    that keeps the runs."""
    return (
        "This demo starts a simulated vLLM server and measures it exactly like a real one: with prompts that "
        "request longer and longer texts, checking every token. It needs no GPU and no model, and keeps its "
        f"runs in {sanitize(str(store))}.\n"
        f"What it should find (scenario {sanitize(scenario)}): {sanitize(truth)}."
    )


def summary_text(
    result: RunResult,
    diagnosis: Diagnosis | None,
    reports: Sequence[Path],
    program: str,
    activate: Path | None = None,
) -> str:
    """The main observation, the report, and the next commands. program: the beginning of a command on the
    demo's store. activate: the script after which a shell finds the program, if it does not yet."""
    found = (
        ()
        if activate is None
        else ("So that the shell finds stresstest:", f"  . {shlex.quote(str(activate))}")
    )
    return "\n".join(
        [
            cost_sentence(result) if diagnosis is None else cost_line(diagnosis),
            "",
            _observations(result),
            f"Report:  {' and '.join(sanitize(str(report)) for report in reports)}",
            *found,
            "Show this run again:",
            f"  {program} runs show {result.run.id}",
            "",
            "Now your own server:",
            "  stresstest init --base-url URL --lang it    # writes stresstest.toml",
            "  stresstest doctor                           # what can be measured there",
            "  stresstest plan --rigor quick               # what a run would send",
            "  stresstest run --rigor quick                # a first certified number",
            "Other scenarios: stresstest sim --list",
        ]
    )


def _observations(result: RunResult) -> str:
    whose, answers = ("sample", result.certifying) if result.certifying else ("run", result.generations)
    total = len(answers)
    failing = sum(1 for g in answers if g.verdict.degenerate)
    lost = sum(1 for g in answers if g.failure is not None)
    kv = result.server.kv_peak if result.server else None
    line = f"{failing or 'None'} of the {whose}'s {total} answers stopped making sense"
    if failing == total > 1:
        line = f"All {total} answers of the {whose} stopped making sense"
    if lost:
        return f"{line}; {lost} were lost to server failures, which are counted separately."
    if failing and kv is not None:
        calm = f"KV cache at most {percent_at_most(kv)} full, no failed request"
        line += f" on a server that looked healthy: {calm}"
    return f"{line}."
