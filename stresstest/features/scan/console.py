"""A scan on the terminal: a table, explanations of its numbers, and the worst outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stresstest.detectors.registry import symptom_info
from stresstest.features.scan.notes import count_answers, group_name, scan_notes, uncertified_note
from stresstest.model import AnswerPart
from stresstest.model.comparison import GateOutcome
from stresstest.model.percent import percent
from stresstest.model.scanned import (
    OTHER_LANGUAGE,
    GroupResult,
    LengthEffect,
    PartRate,
    ScanExample,
    ScanResult,
)
from stresstest.render.glyphs import Glyphs, glyphs_for
from stresstest.render.text import NOT_MEASURED, format_count, format_threshold, sanitize, single_line

if TYPE_CHECKING:
    from rich.console import Console

    from stresstest.statistics.rate_limit import GroupRate, RateJudgement

MAX_JUDGED_GROUPS = 5
"""Groups that the sentence on --fail-above names."""
SHOWN_GROUPS = 40
"""Most groups that are explained one by one below the table."""
_SAFE = "safe max_tokens"
_OPTIONAL_COLUMNS = ("95 % interval", "looped")
"""Columns left out on a narrow terminal; --json has them."""
_NUMBER_COLUMNS_WIDTH = 60
"""Terminal width for the number columns, at most."""
_MIN_NAME_WIDTH = 16
"""Terminal width for the names of the groups, at least."""


def print_scan(console: Console, result: ScanResult) -> None:
    """Print the table, a line on each group's limit, the notes on the numbers, and the worst outputs."""
    from rich.text import Text

    if result.interrupted:
        console.print(Text("INTERRUPTED: the results so far", style="bold yellow"))
    _print_table(console, result)
    for group in result.groups[:SHOWN_GROUPS]:
        _print_limit(console, group)
    for note in scan_notes(result, _left_out(console, result)):
        console.print(Text(sanitize(note), style="dim"))
    nothing = uncertified_note(result)
    if nothing and not result.interrupted:
        console.print(Text(nothing, style="yellow"))
    for n, shown in enumerate(result.worst, 1):
        _print_worst(console, n, shown, glyphs_for(console))


def print_judgement(console: Console, judged: RateJudgement) -> None:
    """The sentence on --fail-above, the last of the scan."""
    from rich.text import Text

    styles = {GateOutcome.BREACH: "bold red", GateOutcome.PASS: "bold green"}
    console.print(Text(sanitize(judgement_sentence(judged)), style=styles.get(judged.outcome, "yellow")))


def judgement_sentence(judged: RateJudgement) -> str:
    """Whether the rates are within the limit, and of which groups that is not so."""
    limit = f"the limit of {100 * judged.limit:g} %"
    if judged.outcome is GateOutcome.PASS:
        all_groups = "Every group is" if len(judged.groups) > 1 else "The rate is"
        return f"Passed: {all_groups} within {limit}, at 95 % confidence."
    named = [each for each in judged.groups if each.outcome is judged.outcome]
    shown = "; ".join(_rate_words(each) for each in named[:MAX_JUDGED_GROUPS])
    more = f"; {len(named) - MAX_JUDGED_GROUPS} more groups" if len(named) > MAX_JUDGED_GROUPS else ""
    if judged.outcome is GateOutcome.BREACH:
        return f"Failed: above {limit}: {shown}{more}."
    doubts = _doubts(named, judged)
    if doubts:
        return (
            f"Undecided: the rate may be on either side of {limit}: {shown}{more}. {doubts} "
            f"{_enough_words(named, judged, whole=True)}"
        )
    return (
        f"Undecided: too few answers to tell which side of {limit} the rate is on: {shown}{more}. "
        f"{_enough_words(named, judged, whole=False)}"
    )


def _enough_words(named: Sequence[GroupRate], judged: RateJudgement, *, whole: bool) -> str:
    """How many answers would decide: of a group in which nothing fails, and of the others if their rates
    stay. whole: those that are there are not, so that none of them is counted."""
    found = []
    answers = "whole answers" if whole else "more answers"
    if any(not each.group.degenerate for each in named):
        needed = f"{format_count(judged.needed)} {'whole ' if whole else ''}answers"
        found.append(f"To pass, {needed} are enough if none of them degenerates.")
    failing = [each for each in named if each.group.degenerate][:MAX_JUDGED_GROUPS]
    for each in failing:
        name = f"{group_name(each.group)}: " if group_name(each.group) else ""
        side = "below" if each.group.rate < judged.limit else "above"
        rate = f"{name}The rate seen, {percent(each.group.rate, 1)}, is {side} the limit"
        if each.deciding is None:
            found.append(f"{rate} or at it; no log is large enough to show which.")
            continue
        many = each.deciding if whole else each.deciding - each.group.requests
        found.append(f"{rate}. If it stays so, about {_roughly(many)} {answers} are enough to show that.")
    return " ".join(found)


def _roughly(number: int) -> str:
    """Two digits of a count, upwards."""
    step = 10 ** max(0, len(str(number)) - 2)
    return format_count(-(-number // step) * step)


def _doubts(named: Sequence[GroupRate], judged: RateJudgement) -> str:
    """What keeps the rates from being known, and how to mend it; empty where only numbers are lacking."""
    names = ("unseen", "stopped", "unknown_language", "several_turns", "in_doubt", "lost")
    unseen, stopped, unknown, turns, in_doubt, lost = (
        sum(getattr(each.group, name) for each in named) for name in names
    )
    undecided = in_doubt - unseen - stopped - unknown - turns
    found = [
        one if number == 1 else f"{format_count(number)} {several}"
        for number, one, several in (
            (unseen, "1 answer is not whole in the log", "answers are not whole in the log"),
            (
                stopped,
                "1 answer was stopped as a repetition, or breaks off in one",
                "answers were stopped as repetitions, or break off in one",
            ),
            (
                unknown,
                "1 answer is in no language that is known here",
                "answers are in no language that is known here",
            ),
            (
                turns,
                "1 text holds turns of others, too",
                "texts hold turns of others, too",
            ),
            (
                undecided,
                "1 answer may have been failing at its end",
                "answers may have been failing at their ends",
            ),
            (
                lost,
                "1 answer was given up before it could fail",
                "answers were given up before they could fail",
            ),
            (judged.damaged, "1 line is damaged", "lines are damaged"),
            (judged.unread, "1 file was not read to its end", "files were not read to their ends"),
        )
        if number
    ]
    if not found:
        return ""
    known = " Record whole answers, with their reasoning." if unseen else ""
    known += " Log the answers alone, or the conversations as messages." if turns else ""
    known += " If one language was wanted of all answers: --lang CODE." if unknown else ""
    return f"{', '.join(found)}: more may have failed than was seen.{known}"


def _rate_words(each: GroupRate) -> str:
    group = each.group
    name = f"{group_name(group)}: " if group_name(group) else ""
    counts = f"{format_count(group.degenerate)} of {format_count(group.requests)}"
    bounds = f"between {percent(each.low, 1)} and {percent(each.high, 1)}"
    beside = "a two-sided 95 % interval is wider"
    if group.in_doubt:
        answers = "1 answer" if group.in_doubt == 1 else f"{format_count(group.in_doubt)} answers"
        beside = f"the upper one counts {answers} in doubt as failures"
    return f"{name}{counts}, {bounds} (one-sided bounds, each at 95 %; {beside})"


def _print_table(console: Console, result: ScanResult) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    for key in result.group_by or ("",):
        table.add_column(Text(sanitize(key)), overflow="fold", min_width=min(len(key), _MIN_NAME_WIDTH))
    left_out = _left_out(console, result)
    limit_name = "T, words" if {group.unit for group in result.groups} == {"words"} else _SAFE
    for name in ("answers", "degenerate", *_OPTIONAL_COLUMNS, "wasted", limit_name):
        if name in left_out:
            continue
        wraps = name == _SAFE
        table.add_column(name, justify="right", no_wrap=not wraps, min_width=10 if wraps else None)
    for group in result.groups:
        values = [Text(sanitize(value or NOT_MEASURED)) for value in group.key.values()] or [Text("all")]
        low, high = group.rate_ci
        interval = f"{_share(low).removesuffix(' %')}–{_share(high)}"
        table.add_row(
            *values,
            format_count(group.requests),
            Text(_share(_seen_rate(group)), style="bold red" if group.degenerate else "bold green"),
            *(() if left_out else (interval, _share(group.dharma_rate))),
            _share(group.wasted / group.total if group.total else None),
            Text(_limit(group), style="bold"),
        )
    console.print(table)


def _left_out(console: Console, result: ScanResult) -> tuple[str, ...]:
    """The columns that do not fit on this terminal beside the names of the groups."""
    names = sum(min(len(key), _MIN_NAME_WIDTH) + 1 for key in result.group_by)
    return _OPTIONAL_COLUMNS if console.width < _NUMBER_COLUMNS_WIDTH + max(_MIN_NAME_WIDTH, names) else ()


def _limit(group: GroupResult) -> str:
    """The cell of the limit: safe max_tokens, with ≈ for estimates, or T where lengths are in words."""
    threshold = group.threshold
    if not threshold.certified or threshold.tokens is None or group.cap_withheld:
        return NOT_MEASURED
    if group.safe_max_tokens is not None:
        return ("≈ " if "estimate" in group.unit else "") + format_count(group.safe_max_tokens)
    return format_threshold(threshold)


def _print_limit(console: Console, group: GroupResult) -> None:
    from rich.padding import Padding
    from rich.text import Text

    line = Text()
    name = group_name(group)
    if name:
        line.append(f"{sanitize(name)}: ", style="bold")
    line.append(sanitize(limit_sentence(group)))
    console.print(Padding(line, (0, 0, 0, 2), expand=False))


def limit_sentence(group: GroupResult) -> str:
    """A group's failures, its threshold and sample, and what a cap there would cut."""
    parts, advice = [_failed(group), *map(_part_words, group.parts)], ""
    elsewhere = group.language_sources.get(OTHER_LANGUAGE, 0)
    if elsewhere:
        parts.append(f"{count_answers(elsewhere)} in another language than the group's")
    threshold = group.threshold
    if threshold.certified:
        sample = f"{format_count(threshold.n)} at risk, {threshold.onsets or 'none'} degenerate by T"
        parts.append(f"T {format_threshold(threshold)} {group.unit} ({sample})")
        where = "there" if group.safe_max_tokens is None else f"at {format_count(group.safe_max_tokens)}"
        if group.cap_withheld:
            cut = _share(group.healthy_cut)
            reason = f"because a cap there would cut {cut} of the healthy answers"
            parts.append(f"no cap is recommended, {reason}")
            advice = f". {_instead_of_cap(group)}"
        elif group.healthy_cut is not None:
            parts.append(f"a cap {where} cuts {_share(group.healthy_cut)} of the healthy")
    else:
        lacking = threshold.lacking or "too few data"
        parts.append(f"nothing is certified: {lacking[:1].lower()}{lacking[1:].rstrip('.')}")
    if group.by_length is not None:
        parts.append(length_sentence(group.by_length))
    return "; ".join(parts) + advice


def _part_words(each: PartRate) -> str:
    """How often the reasoning fails, or the answer after healthy reasoning."""
    where = "in the reasoning" if each.part is AnswerPart.REASONING else "in the answer after it"
    low, high = each.rate_ci
    interval = f", 95 % interval {_share(low).removesuffix(' %')}–{_share(high)}" if each.n else ""
    return (
        f"{where} {format_count(each.degenerate)} of {format_count(each.n)} ({_share(each.rate)}{interval})"
    )


def _instead_of_cap(group: GroupResult) -> str:
    """What to do where T is certified, and no cap recommended."""
    if group.threshold.censored_at is not None or group.rate <= group.threshold.alpha:
        return "They end too early to certify more; `stresstest run` requests longer ones"
    return "To find a decoding that fails less: `stresstest run`, then `stresstest diagnose` of that run"


def _seen_rate(group: GroupResult) -> float | None:
    """The rate; None where no answer has a text."""
    return None if group.unseen == group.requests and not group.degenerate else group.rate


def _failed(group: GroupResult) -> str:
    if _seen_rate(group) is None:
        return "no answer has a text to judge"
    if not group.symptoms:
        return "nothing degenerates"
    found = ", ".join(f"{n:,} {symptom_info(kind).counted(n)}" for kind, n in group.symptoms.items())
    return f"{found} ({group.recovered:,} recovered)" if group.recovered else found


def length_sentence(effect: LengthEffect) -> str:
    """Whether the onset depends on the requested length."""
    between = f"requested length {effect.longest} against {effect.shortest}"
    if effect.ratio is None:
        return f"{between}: {effect.lacking}"
    verdict = "not shown to be independent (that needs 0.8–1.25)"
    if effect.independent:
        verdict = "independent of the requested length"
    elif effect.lo is not None and effect.hi is not None and (effect.lo > 1.25 or effect.hi < 0.8):
        verdict = "it depends on the requested length (outside 0.8–1.25)"
    return (
        f"{between}: median onset × {effect.ratio:.2f} "
        f"(90 % interval {effect.lo:.2f}–{effect.hi:.2f}, {effect.n_long} and {effect.n_short} onsets), "
        f"{verdict}"
    )


def _print_worst(console: Console, n: int, shown: ScanExample, glyphs: Glyphs) -> None:
    from rich.text import Text

    info = symptom_info(shown.symptom)
    head = Text(f"\n{n}. {sanitize(shown.id)}", style="bold")
    head.append(f"  {info.label}, score {shown.score:.2f}", style=info.style)
    console.print(head)
    text = Text(f"{glyphs.more} {single_line(shown.before)}", style="dim")
    text.append(f" {glyphs.here} ", style="bold red")
    text.append(single_line(shown.after), style="red")
    text.append(f" {glyphs.more}", style="dim")
    console.print(text)
    if shown.summary:
        console.print(Text(single_line(shown.summary), style="yellow"))


def _share(share: float | None) -> str:
    """``0.0105`` → ``1.05 %``: two digits below 10 %, one above."""
    if share is None:
        return NOT_MEASURED
    digits = 2 if share < 0.0995 else 1
    return percent(share, digits)
