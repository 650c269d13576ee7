"""What a person reads on stdout after a scan: a table to paste, what stands behind it, the worst outputs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stresstest.model import SymptomKind
from stresstest.model.scanned import GroupResult, LengthEffect, ScanResult, Shown
from stresstest.report.text import NOT_MEASURED, SYMPTOM_WORDS, clean, count, percent

if TYPE_CHECKING:
    from rich.console import Console

OTHER_LANGUAGE = "other language than the group's"
"""As `scan` names this source of a language."""
SHOWN_GROUPS = 40
"""Groups that are explained one by one below the table; with more of them the table must do."""


def print_scan(console: Console, result: ScanResult) -> None:
    """The table, a line on each group's limit, the notes that the numbers need, the worst outputs."""
    from rich.text import Text

    if result.interrupted:
        console.print(Text("INTERRUPTED: what was judged so far", style="bold yellow"))
    _print_table(console, result)
    for group in result.groups[:SHOWN_GROUPS]:
        _print_limit(console, group)
    for note in notes(result):
        console.print(Text(clean(note), style="dim"))
    for n, shown in enumerate(result.worst, 1):
        _print_worst(console, n, shown)


def _print_table(console: Console, result: ScanResult) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    for key in result.group_by or ("",):
        table.add_column(clean(key), overflow="fold")
    for name in ("requests", "degenerate", "95 % interval", "Dharma", "wasted", _limit_header(result)):
        table.add_column(name, justify="right", no_wrap=name != "safe max_tokens")
    for group in result.groups:
        values = [Text(clean(value or NOT_MEASURED)) for value in group.key.values()] or [Text("all")]
        low, high = group.rate_ci
        table.add_row(
            *values,
            count(group.requests),
            Text(_share(group.rate), style="bold red" if group.degenerate else "bold green"),
            f"{_share(low).removesuffix(' %')}–{_share(high)}",
            _share(group.dharma_rate),
            _share(group.wasted / group.total if group.total else None),
            Text(_limit(group), style="bold"),
        )
    console.print(table)


def _limit_header(result: ScanResult) -> str:
    units = {group.unit for group in result.groups}
    return "T, words" if units == {"words"} else "safe max_tokens"


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
    console.print(Padding(line, (0, 0, 0, 2)))


def group_name(group: GroupResult) -> str:
    """The values of its key, or nothing where all requests are one group."""
    return " · ".join(value or NOT_MEASURED for value in group.key.values())


def limit_sentence(group: GroupResult) -> str:
    """What failed, how far the group is coherent and what that stands on, what a cap there would cut."""
    parts = [_failed(group)]
    elsewhere = group.language_sources.get(OTHER_LANGUAGE, 0)
    if elsewhere:
        parts.append(f"{count(elsewhere)} in another language than the group's")
    threshold = group.threshold
    if threshold.certified:
        onsets = "1 onset" if threshold.onsets == 1 else f"{threshold.onsets} onsets"
        parts.append(f"T {_reach(group)} {group.unit} ({count(threshold.n)} at risk, {onsets})")
        where = "there" if group.safe_max_tokens is None else f"at {count(group.safe_max_tokens)}"
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
    verdict = (
        "independent of the requested length"
        if effect.independent
        else "not shown to be independent (that needs 0.8–1.25)"
    )
    return (
        f"{between}: median onset × {effect.ratio:.2f} "
        f"(90 % interval {effect.lo:.2f}–{effect.hi:.2f}, {effect.n_long} and {effect.n_short} onsets), "
        f"{verdict}"
    )


def notes(result: ScanResult) -> list[str]:
    """What a reader must know of the numbers: damage, units, languages, clusters, samples."""
    found = []
    standing = [group.threshold for group in result.groups if group.threshold.certified]
    if standing:
        alpha, confidence = percent(standing[0].alpha), percent(standing[0].confidence)
        found.append(
            f"T: with {confidence} confidence at most {alpha} of the requests that run so long degenerate "
            "by then."
        )
    if result.damaged:
        found.append(f"{count(result.damaged)} damaged lines were left out; {_first(result)}")
    empty = sum(group.empty for group in result.groups)
    if empty:
        found.append(f"Empty answers: {count(empty)}. They count as requests; nothing can fail in them.")
    units = Counter[str]()
    sources, languages = Counter[str](), Counter[str]()
    for group in result.groups:
        units[group.unit] += group.requests
        sources.update(group.language_sources)
        languages.update(group.languages)
    if units["words"]:
        found.append(
            "Lengths are in words (punctuation marks and line breaks count too): the records have no token "
            "counts. For max_tokens give --tokenizer FILE, or records with completion_tokens."
        )
    if units["tokens (estimate)"]:
        found.append(
            "Token positions are estimates: completion_tokens spread over the text. "
            "--tokenizer FILE is exact."
        )
    found += _language_notes(sources, languages)
    dharma = sum(group.dharma_known for group in result.groups)
    if dharma < result.requests:
        known = f"of {count(dharma)} requests" if dharma else "of no request"
        found.append(
            "Dharma (DharmaOCR's rule: ended by the cap, and the tail stands four times) needs a finish "
            f"reason, or a cap and token counts: known {known} out of {count(result.requests)}."
        )
    repeated = [g for g in result.groups if g.prompts is not None and g.prompts < g.requests]
    if repeated:
        found.append(
            "Prompts with several outputs count as clusters: wider intervals, and one output of each for the "
            "threshold."
        )
    if any(group.sampled for group in result.groups):
        found.append("Thresholds of very large groups stand on a random part of their prompts.")
    return found


def _language_notes(sources: Counter[str], languages: Counter[str]) -> list[str]:
    words = {
        "record": "said by the record",
        "given": "given by --lang",
        "group": "inferred from the group's first answers",
        "prompt": "that of the prompt",
        OTHER_LANGUAGE: "its own, plainly another than its group's",
        "answer": "inferred from the start of the answer itself",
        "unknown": "not known, so drift was not looked for",
    }
    if not sources:
        return []
    ways = "; ".join(f"{words.get(source, source)} ({count(n)})" for source, n in sources.most_common())
    most = [f"{language} {count(n)}" for language, n in languages.most_common(6) if language != "unknown"]
    return [f"Wanted language: {ways}." + (f" Languages: {', '.join(most)}." if most else "")]


def _first(result: ScanResult) -> str:
    shown = "; ".join(result.damaged_examples[:2])
    return f"for example {shown}" if shown else ""


def _print_worst(console: Console, n: int, shown: Shown) -> None:
    from rich.text import Text

    head = Text(f"\n{n}. {clean(shown.id)}", style="bold")
    head.append(f"  {SYMPTOM_WORDS[shown.symptom]}, score {shown.score:.2f}", style="red")
    console.print(head)
    text = Text(f"… {_flat(shown.before)}", style="dim")
    text.append(" ▶ ", style="bold red")
    text.append(_flat(shown.after), style="red")
    text.append(" …", style="dim")
    console.print(text)
    if shown.summary:
        console.print(Text(_flat(shown.summary), style="yellow"))


def _flat(text: str) -> str:
    return " ".join(clean(text).split())


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
