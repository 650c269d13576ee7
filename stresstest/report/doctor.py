"""What `doctor` prints: the checks, and a startup log explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stresstest.diagnosis.capacity import Capacity, Chain
from stresstest.model.health import Check, State
from stresstest.records.startup_log import StartupFacts
from stresstest.report.text import NOT_MEASURED, clean

if TYPE_CHECKING:
    from rich.console import Console

_STYLE = {
    State.OK: "green",
    State.DEGRADED: "yellow",
    State.MISSING: "yellow",
    State.FAILED: "bold red",
    State.UNKNOWN: "dim",
}


def print_checks(console: Console, checks: Sequence[Check]) -> None:
    """One check a row; under each that is not ok, what it costs and what mends it."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        said = Text(clean(check.found))
        if check.cost:
            said.append(f"\ncosts: {clean(check.cost)}", style="dim")
        if check.mend:
            said.append(f"\nmend:  {clean(check.mend)}", style="cyan")
        table.add_row(Text(str(check.state), style=_STYLE[check.state]), check.name, said)
    console.print(table)
    bad = [c for c in checks if c.state is State.FAILED]
    lost = [c for c in checks if c.state in (State.DEGRADED, State.MISSING, State.UNKNOWN)]
    if bad:
        line = f"{len(bad)} of {len(checks)} checks stand in the way of a measurement."
    elif lost:
        line = f"Ready to measure; {len(lost)} of {len(checks)} checks say what a measurement will lack."
    else:
        line = "Ready to measure; nothing is missing."
    console.print(Text(line, style="bold"))


def checks_document(checks: Sequence[Check]) -> dict[str, Any]:
    """``doctor --json``."""
    usable = not any(c.state is State.FAILED for c in checks)
    return {"usable": usable, "checks": [asdict(check) for check in checks]}


def print_startup(
    console: Console, facts: StartupFacts, chain: Chain | None, held: Sequence[tuple[str, Capacity]]
) -> None:
    """The startup table, then why it failed or what its KV cache holds."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in startup_rows(facts):
        style = "dim" if value == NOT_MEASURED else ""
        table.add_row(name, Text(clean(value), style=style))
    console.print(table)
    if chain is not None:
        console.print(Text("Why it did not start:", style="bold red"))
        for sentence in chain.sentences:
            console.print(Text(f"  {sentence}"))
        console.print(Text("What would make it start, any one of:", style="bold"))
        for option in chain.options:
            line = Text(f"  {option.flag}", style="cyan")
            line.append(f"  {option.because}", style="")
            console.print(line)
    elif facts.error:
        console.print(Text(f"It ended with: {clean(facts.error)}", style="bold red"))
    for sentence in capacity_sentences(held):
        console.print(Text(sentence))


def startup_rows(facts: StartupFacts) -> list[tuple[str, str]]:
    """The log's table, in the order in which a server starts. "–": not in the log."""

    def gib(size: float | None, seconds: float | None = None) -> str:
        words = [f"{size:g} GiB"] if size is not None else []
        words += [f"{seconds:g} s"] if seconds is not None else []
        return " in ".join(words) or NOT_MEASURED

    def switch(on: bool | None, more: str = "") -> str:
        return NOT_MEASURED if on is None else ("on" + more if on else "off")

    batch = f", {facts.batched_tokens:,} tokens a step" if facts.batched_tokens else ""
    quantization = " · ".join(x for x in (facts.quantization, facts.kernel) if x and x != facts.quantization)
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
        ("quantization, kernel", quantization or facts.quantization or "none named"),
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
        ("sampling defaults", facts.sampling_defaults or NOT_MEASURED),
        ("ready", "yes" if facts.ready else "not in this log"),
    ]


def capacity_sentences(held: Sequence[tuple[str, Capacity]]) -> list[str]:
    """The join of the log and the stored limits."""
    sentences: list[str] = []
    for subject, capacity in held:
        if capacity.at_safe is not None and capacity.safe is not None:
            sentences.append(
                f"At the safe max_tokens of {capacity.safe:,} ({clean(subject)}) this server holds "
                f"{capacity.at_safe:,} requests at once (prompts of {capacity.prompt_tokens:,} tokens)."
            )
    if held and held[0][1].loop_tokens is not None and held[0][1].loop_share is not None:
        capacity = held[0][1]
        sentences.append(
            f"One request that loops to the end of its context takes {capacity.loop_tokens:,} tokens, "
            f"{capacity.loop_share:.1%} of the KV cache; {capacity.at_full_length:,} such fill it."
        )
    return sentences


def startup_document(
    facts: StartupFacts, chain: Chain | None, held: Sequence[tuple[str, Capacity]]
) -> dict[str, Any]:
    """``doctor --log FILE --json``."""
    return {
        "startup": asdict(facts),
        "failure": asdict(chain) if chain else None,
        "capacity": [{"subject": subject, **asdict(capacity)} for subject, capacity in held],
    }
