"""The rows and remarks of a cost, as the terminal and Markdown show them."""

from __future__ import annotations

from stresstest.economics.optimum import CapOptimum
from stresstest.model.cost import Cost, CostRatio
from stresstest.model.percent import percent, percent_change
from stresstest.render.text import NOT_MEASURED, duration, format_count


def cost_rows(cost: Cost) -> list[tuple[str, str, str]]:
    """Rows of (quantity, value, how it is known). Quantities that were not measured are left out."""
    rate, label = cost.rate, cost.labels
    rows: list[tuple[str, str, str]] = []
    if rate is not None:
        share = f"{percent(rate.value, 1)}{_interval(rate, percent_=True)}"
        words = f"{cost.degenerate} of {format_count(rate.n)} requests, {share}"
        rows.append(("degenerate", words, label.get("rate", "")))
    elif cost.degenerate:
        words = (
            f"at least {cost.degenerate} of {format_count(cost.requests)} requests; most were not seen whole"
        )
        rows.append(("degenerate", words, label.get("rate", "")))
    if cost.dharma_rate is not None:
        share = f"{percent(cost.dharma_rate.value, 1)}{_interval(cost.dharma_rate, percent_=True)}"
        rows.append(("… and ended by the cap", share, label.get("dharma_rate", "")))
    if cost.planted:
        rows.append(
            ("stand-ins for loops", f"{cost.planted} of {format_count(cost.requests)} requests", "planted")
        )
    if cost.failed:
        rows.append(("lost", _lost_words(cost), "measured"))
    rows += _time_rows(cost)
    rows += _waste_rows(cost)
    return rows


def _lost_words(cost: Cost) -> str:
    looped = sum(span.failure is not None and span.degenerate is True for span in cost.spans)
    return f"{cost.failed} requests{f', {looped} of them degenerate by then' if looped else ''}"


def _time_rows(cost: Cost) -> list[tuple[str, str, str]]:
    rows, label = [], cost.labels
    slow = cost.healthy_slowdown
    if slow is not None:
        pairs = f", {slow.n} pairs" if label.get("healthy_slowdown") == "measured" else ""
        words = f"× {slow.value:.3f}{_interval(slow)}{pairs}"
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
        words = percent_change(cost.inflation or 0.0)
        if cost.wall_clock_ratio is not None:
            words += _change_interval(cost.wall_clock_ratio)
        rows.append(("loops lengthen a batch by", words, known))
    return rows


def _batch_words(cost: Cost) -> str:
    if cost.pairs and cost.counterfactual is None:
        return f"{precise_time(cost.wall_clock)} without loops, with them {NOT_MEASURED}"
    return f"{precise_time(cost.wall_clock)} with loops, {precise_time(cost.counterfactual)} without"


def _waste_rows(cost: Cost) -> list[tuple[str, str, str]]:
    rows, label = [], cost.labels
    if cost.wasted_tokens is not None:
        part = cost.wasted_tokens / cost.output_tokens if cost.output_tokens else None
        words = (
            f"{format_count(cost.wasted_tokens)} of {format_count(cost.output_tokens)}, {percent(part, 1)}"
        )
        rows.append(("tokens after the onset", words, label.get("wasted_tokens", "")))
    if cost.kv_share is not None:
        words = f"{percent(cost.kv_share, 1)} over time, at most {percent(cost.kv_peak)}"
        rows.append(("KV held by loops, of what is held", words, label.get("kv_share", "")))
    if cost.gpu_seconds is not None:
        after, used = cost.gpu_seconds_after_onset, cost.gpu_seconds_used
        if after is not None and used:
            words = f"{format_count(after)} of {format_count(used)}, {percent(after / used, 1)}"
            rows.append(("GPU seconds that loops use", words, label.get("gpu_seconds_after_onset", "")))
        rows.append(("GPU seconds that loops add", f"{cost.gpu_seconds:,.1f}", label.get("gpu_seconds", "")))
    if cost.energy_joules is not None:
        rows.append(("energy for loops", f"{cost.energy_joules / 1000:,.1f} kJ", "measured"))
    if cost.money is not None:
        rows += _money_rows(cost)
    return rows


def _money_rows(cost: Cost) -> list[tuple[str, str, str]]:
    """What the two kinds of GPU seconds cost: those that loops use, and those by which they lengthen it."""
    price, label, rows = cost.gpu_hour_price or 0.0, cost.labels, []
    if cost.gpu_seconds_after_onset is not None:
        used = cost.gpu_seconds_after_onset / 3600 * price
        known = label.get("gpu_seconds_after_onset", "")
        rows.append(("price of what loops use", _money_words(used, cost), known))
    rows.append(("price of what loops add", _money_words(cost.money or 0.0, cost), label.get("money", "")))
    return rows


def _money_words(money: float, cost: Cost) -> str:
    """An amount, in the currency of the price that was given."""
    each = f" ({_amount(money / cost.requests * 1000)} per 1,000 requests)" if cost.requests else ""
    return f"{_amount(money)}{each} at {cost.gpu_hour_price or 0.0:g} a GPU-hour"


def _amount(money: float) -> str:
    """With two decimals, or two digits where it is less than 1."""
    return f"{money:,.2f}" if abs(money) >= 1 else f"{money:.2g}"


def remarks(cost: Cost) -> list[str]:
    """Sentences needed to interpret the numbers."""
    found = []
    for each in cost.modelled:
        if cost.labels.get("counterfactual_s") == "measured":
            found.append(
                f"modelled, for contrast: {precise_time(each.wall_clock)} with loops, "
                f"{precise_time(each.counterfactual)} without ({percent(each.share_of_time, 1)} of the time, "
                f"{percent_change(each.inflation)}): {each.method}"
            )
        else:
            found.append(f"modelled, no interval is claimed: {each.method}")
    if cost.naive is not None:
        found.append(
            f"naive, for contrast: healthy requests that met a loop took × {cost.naive.ratio:.2f} as long as "
            f"the others ({cost.naive.n_inside} against {cost.naive.n_outside}); {cost.naive.bias}"
        )
    return [*found, *cost.notes]


_NEGLIGIBLE = 0.005
"""Share of the time below which loops are not worth a measure of their own."""
_NEGLIGIBLE_AT_MOST = 0.01
"""The same, of the upper end of its interval."""


def conclusion(cost: Cost, best_cap: CapOptimum | None) -> str:
    """What loops cost here and what to do about it, in one or two sentences."""
    if cost.degenerate is None and not cost.planted:
        return "The log has no text, so whether loops cost anything is not known: log the answers' texts too."
    share, count = cost.share_of_time, format_count(cost.requests)
    unknown = _not_judged(cost)
    little = not cost.degenerate or cost.rate is None or (share is not None and share < _NEGLIGIBLE)
    if unknown and not cost.planted and little:
        return (
            f"What loops cost is not known: of {format_count(unknown)} of {count} requests not all was seen. "
            "Record whole answers, with their reasoning."
        )
    if not cost.degenerate and not cost.planted:
        if cost.failed:
            return (
                f"No request that was answered degenerates, so there is no cost to reduce; {cost.failed} of "
                f"{count} were given up, and whether they were loops is not known."
            )
        return "No request degenerates, so there is no cost to reduce."
    if cost.wall_clock_ratio is not None and _is_noise(cost.wall_clock_ratio):
        longer = percent_change(cost.wall_clock_ratio.value - 1)
        within = _change_interval(cost.wall_clock_ratio)
        return (
            f"What loops cost is not known: a batch took {longer} longer with them{within}, which noise "
            "explains. Measure more pairs (--pairs), on a quiet server."
        )
    if share is not None and share < _NEGLIGIBLE:
        return _negligible_words(cost)
    if share is None:
        facts = f"{cost.degenerate} of {count} requests degenerate; the time they cost was not measured"
    else:
        how = cost.labels.get("share_of_time", "modelled")
        facts = f"Loops cost {percent(share)} of the observed time ({how})"
        slow = cost.healthy_slowdown
        if slow is not None and slow.lo is not None and slow.lo > 1:
            facts += f" and make healthy requests take {percent(slow.value - 1)} longer"
    if best_cap is not None and best_cap.lacking is None:
        cap = f"set max_tokens to {best_cap.cap:,}, the cheapest cap for these requests (modelled)"
        return f"{facts}. To reduce that: {cap}; stresstest run certifies a safe one."
    ways = "stresstest run certifies a max_tokens, and stresstest guard ends loops early"
    return f"{facts}. To reduce that: {ways}."


def _negligible_words(cost: Cost) -> str:
    """That loops cost no time here, and whether they used the GPU all the same."""
    after, used = cost.gpu_seconds_after_onset, cost.gpu_seconds_used
    if cost.share_of_time is not None and cost.share_of_time < -_NEGLIGIBLE:
        return (
            "Loops ended sooner than healthy answers in their place would have, so by this method they cost "
            "no time: what they cost is answers that nobody can use, and requests that are sent again."
        )
    if after is None or not used or after < _NEGLIGIBLE_AT_MOST * used:
        return "Loops cost less than 1 % of the observed time, so there is nothing to do about their cost."
    return (
        f"Loops cost less than 1 % of the observed time, as the load leaves room for them, but "
        f"{percent(after / used)} of the GPU seconds in use: where the GPU is full or shared, that is what "
        f"they cost. stresstest run certifies a max_tokens, and stresstest guard ends loops early."
    )


def _not_judged(cost: Cost) -> int:
    """Requests that were answered, and of which nobody knows whether they degenerate."""
    if cost.rate is None:
        return sum(span.degenerate is None and span.failure is None for span in cost.spans)
    return max(0, cost.requests - cost.planted - cost.failed - cost.rate.n)


def _is_noise(ratio: CostRatio) -> bool:
    """Whether a ratio of measured times leaves open whether loops cost anything: its interval holds both none
    and more than a negligible share, or there is no interval and no effect."""
    if ratio.lo is None or ratio.hi is None:
        return ratio.value <= 1
    return ratio.lo <= 1 and 1 - 1 / ratio.hi >= _NEGLIGIBLE_AT_MOST


def _change_interval(ratio: CostRatio) -> str:
    if ratio.lo is None or ratio.hi is None:
        return ""
    return f" ({100 * (ratio.lo - 1):+.1f} to {percent_change(ratio.hi - 1)})"


def precise_time(seconds: float | None) -> str:
    if seconds is None:
        return NOT_MEASURED
    return f"{seconds:.2f} s" if seconds < 60 else duration(seconds)


def _interval(ratio: CostRatio, *, percent_: bool = False) -> str:
    if ratio.lo is None or ratio.hi is None:
        return ""
    if percent_:
        return f" (95 % {100 * ratio.lo:.1f}–{percent(ratio.hi, 1)})"
    return f" (95 % {ratio.lo:.3f}–{ratio.hi:.3f})"
