"""`doctor` on the terminal and as JSON: the checks, or an explained startup log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stresstest.diagnosis.capacity import FailureChain, KvCapacity
from stresstest.endpoint.cpu_vllm import REMEDY, WHY_SEEDS_KILL
from stresstest.features.doctor.startup_log import may_die_of_seeds
from stresstest.model import Subject
from stresstest.model.percent import percent
from stresstest.model.server import CheckState, HealthCheck
from stresstest.records.startup_log import StartupFacts
from stresstest.render.text import NOT_MEASURED, sanitize, subject_name

if TYPE_CHECKING:
    from rich.console import Console

_STYLE = {
    CheckState.OK: "green",
    CheckState.DEGRADED: "yellow",
    CheckState.MISSING: "yellow",
    CheckState.FAILED: "bold red",
    CheckState.UNKNOWN: "dim",
}

_MEANINGS: dict[tuple[str, str | None], str] = {
    ("quantization, kernel", None): "how weights are stored and multiplied",
    ("quantization, kernel", "none named"): "",
    ("maximum length", None): "prompt and answer together",
    ("weights", None): "memory that the KV cache cannot have",
    ("torch.compile", None): "once; kept for the next start",
    ("KV cache size", None): "shared by all requests that run",
    ("maximum concurrency", None): "at once before vLLM must preempt",
    ("CUDA graphs", None): "captured at the start; their memory is not the KV cache's",
    ("chunked prefill", "on"): "long prompts are read in parts, beside other requests",
    ("prefix caching", "on"): "equal beginnings of prompts are computed once",
    ("eager mode", "on"): "no CUDA graphs: slower steps, the same text",
    ("sampling defaults", None): "applied to all that a request does not say",
}
"""Explanation of a row by its name and value; None matches any value."""


def print_checks(console: Console, checks: Sequence[HealthCheck]) -> None:
    """Print one check per row; below one that is not ok, its cost and its remedy."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        result = Text(sanitize(check.found))
        if check.cost:
            result.append(f"\nlost:  {sanitize(check.cost)}", style="dim")
        if check.remedy and check.remedy not in check.found:
            result.append(f"\nfix:   {sanitize(check.remedy)}", style="cyan")
        table.add_row(Text(str(check.state), style=_STYLE[check.state]), check.name, result)
    console.print(table)
    failed = sum(check.state is CheckState.FAILED for check in checks)
    incomplete = sum(check.state is not CheckState.OK for check in checks) - failed
    if failed:
        line = _failure_line(checks)
    elif incomplete:
        line = (
            f"Ready to measure. {incomplete} of {len(checks)} checks found something that cannot be measured."
        )
    else:
        line = "Ready to measure. Nothing is missing."
    console.print(Text(line, style="bold"))


def _failure_line(checks: Sequence[HealthCheck]) -> str:
    """What failed, what else was checked, and what could not be checked because of it."""
    failed = [check.name for check in checks if check.state is CheckState.FAILED]
    others = [check.name for check in checks if check.state is not CheckState.FAILED]
    line = f"Failed: {', '.join(failed)}. No measurement is possible until that is fixed."
    if "endpoint" in failed:
        line += " The server's model, logprobs, token counts, metrics and defaults were not checked"
        line += f"; {', '.join(others[:-1])} and {others[-1]} were." if len(others) > 1 else "."
    return line


def checks_document(checks: Sequence[HealthCheck]) -> dict[str, Any]:
    """``doctor --json``."""
    usable = not any(c.state is CheckState.FAILED for c in checks)
    return {"usable": usable, "checks": [asdict(check) for check in checks]}


def print_startup(
    console: Console,
    facts: StartupFacts,
    chain: FailureChain | None,
    held: Sequence[tuple[Subject | None, KvCapacity]],
) -> None:
    """Print the startup table, then why the start failed or what the KV cache holds."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in startup_rows(facts):
        known = value != NOT_MEASURED
        cell = Text(sanitize(value), style="" if known else "dim")
        if known and (meaning := _meaning(name, value)):
            cell.append(f"\n{meaning}", style="dim")
        table.add_row(name, cell)
    console.print(table)
    if chain is not None:
        console.print(Text("Why it did not start:", style="bold red"))
        for sentence in chain.sentences:
            console.print(Padding(Text(sentence), (0, 0, 0, 2)))
        console.print(Text("What would make it start, any one of:", style="bold"))
        for option in chain.options:
            line = Text(option.flag, style="cyan")
            line.append(f"  {option.because}", style="not cyan")
            console.print(Padding(line, (0, 0, 0, 2)))
    elif facts.error:
        console.print(Text(f"It ended with: {sanitize(facts.error)}", style="bold red"))
    for sentence in capacity_sentences(held):
        console.print(Text(sentence))
    if may_die_of_seeds(facts):
        console.print(Text(f"{WHY_SEEDS_KILL}: {REMEDY}.", style="yellow"))


def _meaning(name: str, value: str) -> str | None:
    if name == "weights" and "GiB" not in value:
        return None
    return _MEANINGS.get((name, value.partition(",")[0]), _MEANINGS.get((name, None)))


def startup_rows(facts: StartupFacts) -> list[tuple[str, str]]:
    """Rows of (name, value) in the order in which a server starts. "–": not in the log."""

    def gib(size: float | None, seconds: float | None = None) -> str:
        words = [f"{size:g} GiB"] if size is not None else []
        words += [f"{seconds:.3g} s"] if seconds is not None else []
        loaded = "loaded in " if size is None and words else ""
        return loaded + " in ".join(words) or NOT_MEASURED

    def switch(on: bool | None, more: str = "") -> str:
        return NOT_MEASURED if on is None else ("on" + more if on else "off")

    batch = f", {facts.batched_tokens:,} tokens a step" if facts.batched_tokens else ""
    quantization = " · ".join(dict.fromkeys(filter(None, (facts.quantization, facts.kernel))))
    graphs = ", ".join(f"{n} {kind}" for kind, n in facts.graphs.items())
    memory = gib(facts.graph_gib, facts.graph_seconds)
    length = f"{facts.max_model_len:,}" if facts.max_model_len else "full length"
    loading = facts.loading_seconds if facts.loading_seconds is not None else facts.weights_seconds
    return [
        ("engine", f"vLLM {facts.version}" if facts.version else NOT_MEASURED),
        ("model", facts.model or NOT_MEASURED),
        ("architecture", facts.architecture or NOT_MEASURED),
        ("device", facts.device or NOT_MEASURED),
        ("dtype", facts.dtype or NOT_MEASURED),
        ("quantization, kernel", quantization or "none named"),
        ("attention backend", facts.attention or NOT_MEASURED),
        ("maximum length", f"{facts.max_model_len:,} tokens" if facts.max_model_len else NOT_MEASURED),
        ("weights", gib(facts.weights_gib, loading)),
        (
            "torch.compile",
            f"{facts.compile_seconds:g} s" if facts.compile_seconds is not None else NOT_MEASURED,
        ),
        ("KV cache memory", gib(facts.kv_cache_gib)),
        ("KV cache size", f"{facts.kv_cache_tokens:,} tokens" if facts.kv_cache_tokens else NOT_MEASURED),
        (
            "maximum concurrency",
            f"{facts.concurrency:g} requests of {length} tokens" if facts.concurrency else NOT_MEASURED,
        ),
        ("CUDA graphs", "; ".join(x for x in (graphs, memory) if x and x != NOT_MEASURED) or NOT_MEASURED),
        ("chunked prefill", switch(facts.chunked_prefill, batch)),
        ("prefix caching", switch(facts.prefix_caching)),
        ("eager mode", switch(facts.eager)),
        ("sampling defaults", _bare(facts.sampling_defaults) or NOT_MEASURED),
        ("ready", "yes" if facts.ready else "not in this log"),
    ]


def _bare(settings: str | None) -> str:
    """The repr of a dictionary without braces and quotes."""
    return (settings or "").strip().strip("{}").replace("'", "").replace('"', "").replace(": ", " ")


def capacity_sentences(held: Sequence[tuple[Subject | None, KvCapacity]]) -> list[str]:
    """Sentences on what the KV cache holds at the stored limits, and on what a loop takes of it."""
    sentences: list[str] = []
    for subject, each in held:
        if subject is not None and each.at_safe is not None and each.safe is not None:
            sentences.append(
                f"At the safe max_tokens of {each.safe:,} ({sanitize(subject_name(subject))}) "
                f"this server holds {each.at_safe:,} requests at once "
                f"(prompts of {each.prompt_tokens:,} tokens)."
            )
    capacity = held[0][1] if held else None
    if capacity is not None and capacity.loop_tokens is not None and capacity.loop_share is not None:
        sentences.append(
            f"One request that loops to the end of its context takes {capacity.loop_tokens:,} tokens, "
            f"{percent(capacity.loop_share, 1)} of the KV cache; {capacity.at_full_length:,} such fill it."
        )
    return sentences


def startup_document(
    facts: StartupFacts, chain: FailureChain | None, held: Sequence[tuple[Subject | None, KvCapacity]]
) -> dict[str, Any]:
    """``doctor --log FILE --json``."""
    return {
        "startup": asdict(facts),
        "failure": asdict(chain) if chain else None,
        "capacity": [{"subject": str(subject or ""), **asdict(capacity)} for subject, capacity in held],
        "seeds": f"{WHY_SEEDS_KILL}: {REMEDY}." if may_die_of_seeds(facts) else None,
    }
