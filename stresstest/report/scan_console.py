"""What a person reads on stdout after a scan: a table to paste, what stands behind it, the worst outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stresstest.model import SymptomKind
from stresstest.model.scanned import GroupResult, LengthEffect, ScanResult, Shown
from stresstest.report.glyphs import Glyphs, glyphs_for
from stresstest.report.scan_notes import OTHER_LANGUAGE, group_name, notes, uncertified
from stresstest.report.text import NOT_MEASURED, SYMPTOM_WORDS, clean, count, flat, percent

if TYPE_CHECKING:
    from rich.console import Console

SHOWN_GROUPS = 40
"""Groups that are explained one by one below the table; with more of them the table must do."""
_SAFE = "safe max_tokens"
_SPARE = ("95 % interval", "Dharma")
"""Columns that a narrow terminal does without: the groups stay legible, and --json has the rest."""
_NUMBERS = 60
"""Columns of a terminal that the numbers take, at most."""
_NAMES = 16
"""Columns for the names of the groups, at least."""


def print_scan(console: Console, result: ScanResult) -> None:
    """The table, a line on each group's limit, the notes that the numbers need, the worst outputs."""
    from rich.text import Text

    if result.interrupted:
        console.print(Text("INTERRUPTED: what was judged so far", style="bold yellow"))
    _print_table(console, result)
    for group in result.groups[:SHOWN_GROUPS]:
        _print_limit(console, group)
    for note in notes(result, _left_out(console, result)):
        console.print(Text(clean(note), style="dim"))
    nothing = uncertified(result)
    if nothing and not result.interrupted:
        console.print(Text(nothing, style="yellow"))
    for n, shown in enumerate(result.worst, 1):
        _print_worst(console, n, shown, glyphs_for(console))


def _print_table(console: Console, result: ScanResult) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    for key in result.group_by or ("",):
        table.add_column(Text(clean(key)), overflow="fold", min_width=min(len(key), _NAMES))
    left_out = _left_out(console, result)
    for name in ("requests", "degenerate", *_SPARE, "wasted", _limit_header(result)):
        if name in left_out:
            continue
        wraps = name == _SAFE
        table.add_column(name, justify="right", no_wrap=not wraps, min_width=10 if wraps else None)
    for group in result.groups:
        values = [Text(clean(value or NOT_MEASURED)) for value in group.key.values()] or [Text("all")]
        low, high = group.rate_ci
        interval = f"{_share(low).removesuffix(' %')}–{_share(high)}"
        table.add_row(
            *values,
            count(group.requests),
            Text(_share(group.rate), style="bold red" if group.degenerate else "bold green"),
            *(() if left_out else (interval, _share(group.dharma_rate))),
            _share(group.wasted / group.total if group.total else None),
            Text(_limit(group), style="bold"),
        )
    console.print(table)


def _left_out(console: Console, result: ScanResult) -> tuple[str, ...]:
    """The columns that this terminal has no room for beside the names of the groups."""
    names = sum(min(len(key), _NAMES) + 1 for key in result.group_by)
    return _SPARE if console.width < _NUMBERS + max(_NAMES, names) else ()


def _limit_header(result: ScanResult) -> str:
    units = {group.unit for group in result.groups}
    return "T, words" if units == {"words"} else _SAFE


def _limit(group: GroupResult) -> str:
    """The limit as the column has it: safe max_tokens, ≈ for estimates, T where only words are known."""
    threshold = group.threshold
    if not threshold.certified or threshold.tokens is None:
        return NOT_MEASURED
    if group.safe_max_tokens is not None:
        return ("≈ " if "estimate" in group.unit else "") + count(group.safe_max_tokens)
    return _reach(group)


def _reach(group: GroupResult) -> str:
    threshold = group.threshold
    return f"≥ {count(threshold.tokens)}" if threshold.censored_at else count(threshold.tokens)


def _print_limit(console: Console, group: GroupResult) -> None:
    from rich.padding import Padding
    from rich.text import Text

    line = Text()
    name = group_name(group)
    if name:
        line.append(f"{clean(name)}: ", style="bold")
    line.append(clean(limit_sentence(group)))
    console.print(Padding(line, (0, 0, 0, 2), expand=False))


def limit_sentence(group: GroupResult) -> str:
    """What failed, how far the group is coherent and what that stands on, what a cap there would cut."""
    parts = [_failed(group)]
    elsewhere = group.language_sources.get(OTHER_LANGUAGE, 0)
    if elsewhere:
        answers = "1 answer" if elsewhere == 1 else f"{count(elsewhere)} answers"
        parts.append(f"{answers} in another language than the group's")
    threshold = group.threshold
    if threshold.certified:
        onsets = "1 onset" if threshold.onsets == 1 else f"{threshold.onsets} onsets"
        parts.append(f"T {_reach(group)} {group.unit} ({count(threshold.n)} at risk, {onsets})")
        where = "there" if group.safe_max_tokens is None else f"at {count(group.safe_max_tokens)}"
        if group.healthy_cut is not None:
            parts.append(f"a cap {where} cuts {_share(group.healthy_cut)} of the healthy")
    else:
        lacking = threshold.lacking or "too few data"
        parts.append(f"nothing is certified: {lacking[:1].lower()}{lacking[1:].rstrip('.')}")
    if group.by_length is not None:
        parts.append(length_sentence(group.by_length))
    return "; ".join(parts)


def _failed(group: GroupResult) -> str:
    if not group.symptoms:
        return "nothing degenerates"
    found = ", ".join(f"{n} {_plural(kind, n)}" for kind, n in group.symptoms.items())
    return f"{found} ({group.recovered} recovered)" if group.recovered else found


def length_sentence(effect: LengthEffect) -> str:
    """Does onset depend on the requested length?"""
    between = f"requested length {effect.longest} against {effect.shortest}"
    if effect.ratio is None:
        return f"{between}: {effect.lacking}"
    verdict = "not shown to be independent (that needs 0.8–1.25)"
    if effect.independent:
        verdict = "independent of the requested length"
    elif not _reaches(effect, 0.8, 1.25):
        verdict = "it depends on the requested length (outside 0.8–1.25)"
    return (
        f"{between}: median onset × {effect.ratio:.2f} "
        f"(90 % interval {effect.lo:.2f}–{effect.hi:.2f}, {effect.n_long} and {effect.n_short} onsets), "
        f"{verdict}"
    )


def _reaches(effect: LengthEffect, low: float, high: float) -> bool:
    """Whether any of the effect's interval lies inside these."""
    lo, hi = effect.lo, effect.hi
    return lo is None or hi is None or (lo <= high and hi >= low)


def _print_worst(console: Console, n: int, shown: Shown, glyphs: Glyphs) -> None:
    from rich.text import Text

    head = Text(f"\n{n}. {clean(shown.id)}", style="bold")
    head.append(f"  {SYMPTOM_WORDS[shown.symptom]}, score {shown.score:.2f}", style="red")
    console.print(head)
    text = Text(f"{glyphs.more} {flat(shown.before)}", style="dim")
    text.append(f" {glyphs.here} ", style="bold red")
    text.append(flat(shown.after), style="red")
    text.append(f" {glyphs.more}", style="dim")
    console.print(text)
    if shown.summary:
        console.print(Text(flat(shown.summary), style="yellow"))


def _share(share: float | None) -> str:
    """``0.0105`` → ``1.05 %``: two digits below 10 %, one above."""
    if share is None:
        return NOT_MEASURED
    digits = 2 if share < 0.0995 else 1
    return percent(share, digits)


def _plural(kind: str, n: int) -> str:
    word = SYMPTOM_WORDS[SymptomKind(kind)]
    countable = kind in {SymptomKind.LOOP, SymptomKind.NEAR_LOOP, SymptomKind.TRUNCATION}
    countable = countable or kind in {SymptomKind.STRUCTURE_BREAK, SymptomKind.LANGUAGE_DRIFT}
    return f"{word}s" if n != 1 and countable else word
