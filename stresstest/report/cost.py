"""A cost on the terminal, as JSON and as Markdown. Computes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stresstest.economics.timeline import batches, outline
from stresstest.model.cost import Cost, CostArm, Modelled, Ratio, Span
from stresstest.report.glyphs import BLOCKS, Glyphs, glyphs_for, strip
from stresstest.report.text import NOT_MEASURED, SIMULATED_WARNING, clean, count, duration, percent

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH = 48


def cost_document(cost: Cost) -> dict[str, Any]:
    """``cost --json``: DESIGN's keys and more; absent values are null, never 0."""
    return {
        "requests": cost.requests,
        "degenerate": cost.degenerate,
        "planted": cost.planted,
        "failed": cost.failed,
        "batches": cost.batches,
        "pairs": cost.pairs,
        "rate": cost.rate and cost.rate.value,
        "rate_ci": _ci(cost.rate),
        "dharma_rate": cost.dharma_rate and cost.dharma_rate.value,
        "dharma_rate_ci": _ci(cost.dharma_rate),
        "wall_clock_s": cost.wall_clock,
        "counterfactual_s": cost.counterfactual,
        "share_of_time": cost.share_of_time,
        "inflation": cost.inflation,
        "wall_clock_ratio": _ratio(cost.wall_clock_ratio),
        "healthy_slowdown": _ratio(cost.healthy_slowdown),
        "step_ratio": _ratio(cost.step_ratio),
        "output_tokens": cost.output_tokens,
        "wasted_tokens": cost.wasted_tokens,
        "gpus": cost.gpus,
        "gpu_seconds": cost.gpu_seconds,
        "gpu_seconds_used": cost.gpu_seconds_used,
        "gpu_seconds_after_onset": cost.gpu_seconds_after_onset,
        "energy_joules": cost.energy_joules,
        "gpu_hour_price": cost.gpu_hour_price,
        "money": cost.money,
        "kv_share": cost.kv_share,
        "kv_peak": cost.kv_peak,
        "kv_cache_tokens": cost.kv_cache_tokens,
        "modelled": [_modelled(each) for each in cost.modelled],
        "naive": None
        if cost.naive is None
        else {
            "inside_s": cost.naive.inside,
            "outside_s": cost.naive.outside,
            "ratio": cost.naive.ratio,
            "n_inside": cost.naive.n_inside,
            "n_outside": cost.naive.n_outside,
            "bias": cost.naive.bias,
        },
        "labels": {key: str(label) for key, label in cost.labels.items()},
        "notes": list(cost.notes),
        "subject": None
        if cost.subject is None
        else {
            "model": cost.subject.model,
            "task": cost.subject.task,
            "language": cost.subject.language,
        },
        "source": cost.source,
        "simulated": cost.simulated,
        "complete": cost.complete,
        "timeline": [_span(span) for span in cost.spans],
    }


def empty_cost_document() -> dict[str, Any]:
    """``cost --json`` when it was interrupted before a batch was over: every key, nothing measured."""
    document = cost_document(Cost(requests=0, complete=False, batches=0))
    return document | {"output_tokens": None}


def _ci(ratio: Ratio | None) -> list[float | None] | None:
    return None if ratio is None or ratio.lo is None else [ratio.lo, ratio.hi]


def _ratio(ratio: Ratio | None) -> dict[str, Any]:
    if ratio is None:
        return {"ratio": None, "ci": None, "n": None, "method": None}
    return {"ratio": ratio.value, "ci": _ci(ratio), "n": ratio.n, "method": ratio.method}


def _modelled(each: Modelled) -> dict[str, Any]:
    return {
        "method": each.method,
        "wall_clock_s": each.wall_clock,
        "counterfactual_s": each.counterfactual,
        "share_of_time": each.share_of_time,
        "inflation": each.inflation,
        "healthy_slowdown": each.healthy_slowdown,
    }


def _span(span: Span) -> dict[str, Any]:
    return {
        "id": span.id,
        "batch": span.batch or None,
        "arm": span.arm or None,
        "submitted": span.submitted,
        "first_token": span.first_token,
        "end": span.end,
        "prompt_tokens": span.prompt_tokens,
        "output_tokens": span.output_tokens,
        "degenerate": span.degenerate,
        "planted": span.planted,
        "onset": span.onset,
        "onset_at": span.onset_at,
        "capped": span.capped,
        "failure": span.failure,
    }


def cost_rows(cost: Cost) -> list[tuple[str, str, str]]:
    """(what, how much, how it is known), in the order of the story; what was not measured is left out."""
    rate, label = cost.rate, cost.labels
    rows: list[tuple[str, str, str]] = []
    if rate is not None:
        share = f"{percent(rate.value, 1)}{_interval(rate, percent_=True)}"
        words = f"{cost.degenerate} of {count(rate.n)} requests, {share}"
        rows.append(("degenerate", words, label.get("rate", "")))
    if cost.dharma_rate is not None:
        share = f"{percent(cost.dharma_rate.value, 1)}{_interval(cost.dharma_rate, percent_=True)}"
        rows.append(("… and ended by the cap", share, label.get("dharma_rate", "")))
    if cost.planted:
        rows.append(("stand-ins for loops", f"{cost.planted} of {count(cost.requests)} requests", "planted"))
    if cost.failed:
        rows.append(("lost", f"{cost.failed} requests", "measured"))
    rows += _time_rows(cost)
    rows += _waste_rows(cost)
    return rows


def _time_rows(cost: Cost) -> list[tuple[str, str, str]]:
    rows, label = [], cost.labels
    slow = cost.healthy_slowdown
    if slow is not None:
        stands_on = f", {slow.n} pairs" if label.get("healthy_slowdown") == "measured" else ""
        words = f"× {slow.value:.3f}{_interval(slow)}{stands_on}"
        rows.append(("healthy requests slowed down", words, label.get("healthy_slowdown", "")))
    elif cost.pairs:
        why = "no pair had a loop" if cost.counterfactual is None else "none was healthy in both batches"
        rows.append(("healthy requests slowed down", f"{NOT_MEASURED} ({why})", ""))
    if cost.step_ratio is not None:
        words = f"× {cost.step_ratio.value:.3f}{_interval(cost.step_ratio)}"
        rows.append(("… a token's time, at equal load", words, label.get("step_ratio", "")))
    if cost.wall_clock is not None:
        known = label.get("counterfactual_s", label.get("wall_clock_s", ""))
        rows.append(("a batch takes", _batch_words(cost), known))
    if cost.share_of_time is not None:
        known = label.get("share_of_time", "")
        rows.append(("share of observed time lost", percent(cost.share_of_time, 1), known))
        words = f"{100 * (cost.inflation or 0.0):+.1f} %"
        ratio = cost.wall_clock_ratio
        if ratio is not None and ratio.lo is not None and ratio.hi is not None:
            words += f" ({100 * (ratio.lo - 1):+.1f} to {100 * (ratio.hi - 1):+.1f} %)"
        rows.append(("loops lengthen a batch by", words, known))
    return rows


def _batch_words(cost: Cost) -> str:
    if cost.pairs and cost.counterfactual is None:
        return f"{_time(cost.wall_clock)} without loops, with them {NOT_MEASURED}"
    return f"{_time(cost.wall_clock)} with loops, {_time(cost.counterfactual)} without"


def _waste_rows(cost: Cost) -> list[tuple[str, str, str]]:
    rows, label = [], cost.labels
    if cost.wasted_tokens is not None:
        part = cost.wasted_tokens / cost.output_tokens if cost.output_tokens else None
        words = f"{count(cost.wasted_tokens)} of {count(cost.output_tokens)}, {percent(part, 1)}"
        rows.append(("tokens after the onset", words, label.get("wasted_tokens", "")))
    if cost.kv_share is not None:
        words = f"{percent(cost.kv_share, 1)} over time, at most {percent(cost.kv_peak)}"
        rows.append(("KV held by loops, of what is held", words, label.get("kv_share", "")))
    if cost.gpu_seconds is not None:
        used = f"{count(cost.gpu_seconds_used)} used, {count(cost.gpu_seconds_after_onset)} of them by loops"
        words = f"{cost.gpu_seconds:,.1f} for loops ({used})"
        rows.append(("GPU seconds", words, label.get("gpu_seconds", "")))
    if cost.energy_joules is not None:
        rows.append(("energy for loops", f"{cost.energy_joules / 1000:,.1f} kJ", "measured"))
    if cost.money is not None:
        each = cost.money / cost.requests * 1000 if cost.requests else 0.0
        words = f"{cost.money:,.4g}, {each:,.3g} per 1,000 requests at {cost.gpu_hour_price:g} a GPU-hour"
        rows.append(("money for loops", words, label.get("money", "")))
    return rows


def remarks(cost: Cost) -> list[str]:
    """Sentences that the numbers need."""
    found = []
    for each in cost.modelled:
        if cost.labels.get("counterfactual_s") == "measured":
            found.append(
                f"modelled, for contrast: {_time(each.wall_clock)} with loops, {_time(each.counterfactual)} "
                f"without ({percent(each.share_of_time, 1)} of the time, {100 * each.inflation:+.1f} %): "
                f"{each.method}"
            )
        else:
            found.append(f"modelled, no interval is claimed: {each.method}")
    if cost.naive is not None:
        found.append(
            f"naive: healthy requests that met a loop took × {cost.naive.ratio:.2f} "
            f"({cost.naive.n_inside} against {cost.naive.n_outside}); {cost.naive.bias}"
        )
    return [*found, *cost.notes]


def print_cost(console: Console, cost: Cost) -> None:
    """The account, the timeline of the first batch, and what must be known to read them."""
    from rich.table import Table
    from rich.text import Text

    if cost.simulated:
        console.print(Text(SIMULATED_WARNING, style="bold yellow"))
    subject = "" if cost.subject is None else f"{cost.subject} · "
    console.print(Text(clean(f"{subject}{cost.source}"), style="bold"))
    rows = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for name, words, known in cost_rows(cost):
        style = "bold" if known == "measured" else ""
        rows.add_row(Text(name), Text(clean(words), style=style), Text(str(known), style="dim"))
    console.print(rows)
    for line, style in timeline(cost, glyphs_for(console)):
        console.print(Text(line, style=style))
    for remark in remarks(cost):
        console.print(Text(clean(remark), style="dim"))
    if not cost.complete:
        console.print(Text("Not complete: pairs of batches are missing.", style="yellow"))


def timeline(cost: Cost, glyphs: Glyphs = BLOCKS) -> list[tuple[str, str]]:
    """Sparklines of the first batch with loops and, where there is one, the same batch with loops capped."""
    by_batch = batches(cost.spans)
    first = next((b for b in by_batch.values() if b[0].arm != CostArm.CAPPED), None)
    if first is None:
        return []
    whole = outline(first, _WIDTH)
    if not whole.running:
        return []
    top = max(whole.running)
    size = f"{_time(whole.seconds)}, at most {top:.0f} at once"
    lines = [
        (f"running  {_strip(whole.running, glyphs, top)} {size}", ""),
        (f"in loops {_strip(whole.looping, glyphs, top)}", "red"),
    ]
    pair = first[0].pair
    other = next((b for b in by_batch.values() if b[0].arm == CostArm.CAPPED and b[0].pair == pair), None)
    if other is not None and pair is not None:
        capped = outline(other, _WIDTH, whole.seconds)
        lines.append((f"capped   {_strip(capped.running, glyphs, top)}", "green"))
    return lines


def _strip(values: tuple[float, ...], glyphs: Glyphs, top: float) -> str:
    """Nothing running is a blank."""
    return strip([value or None for value in values], glyphs, top=top)


def cost_markdown(cost: Cost) -> str:
    """The account as a Markdown table with its remarks."""
    lines = ["| what | how much | known |", "| --- | --- | --- |"]
    lines += [f"| {name} | {_cell(words)} | {known} |" for name, words, known in cost_rows(cost)]
    lines += ["", *(f"- {_cell(remark)}" for remark in remarks(cost))]
    head = f"{SIMULATED_WARNING}\n\n" if cost.simulated else ""
    return head + "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return clean(text).replace("|", "\\|")


def _time(seconds: float | None) -> str:
    if seconds is None:
        return NOT_MEASURED
    return f"{seconds:.2f} s" if seconds < 60 else duration(seconds)


def _interval(ratio: Ratio, *, percent_: bool = False) -> str:
    if ratio.lo is None or ratio.hi is None:
        return ""
    if percent_:
        return f" (95 % {100 * ratio.lo:.1f}–{percent(ratio.hi, 1)})"
    return f" (95 % {ratio.lo:.3f}–{ratio.hi:.3f})"
