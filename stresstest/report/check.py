"""A check on the terminal, as JSON, and as Markdown for a pull request's comment. Computes nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stresstest.model import Changed, CheckVerdict, Comparison, Method, Side
from stresstest.report.markdown import SIMULATED, bullets, grid, inline
from stresstest.report.text import NOT_MEASURED, SIMULATED_WARNING, clean, count, duration, percent

if TYPE_CHECKING:
    from rich.console import Console

_COLOURS = {CheckVerdict.PASS: "green", CheckVerdict.REGRESSION: "red", CheckVerdict.INCONCLUSIVE: "yellow"}
_UNKNOWN = "not known"
MORE_DATA = (
    "More data: a stricter --rigor measures more of the candidate; or declare a second look with --extend, "
    "before the first."
)
MORE_RECORDED = "More data: record more outputs of the candidate, the first of each prompt counts."


def check_document(found: Comparison) -> dict[str, Any]:
    """``check --json``: the contract's keys in its order, then what else is known. Absent is null."""
    return {
        "baseline": _side(found.baseline),
        "candidate": _side(found.candidate),
        "at_tokens": found.at_tokens,
        "p_baseline": found.p_baseline,
        "p_candidate": found.p_candidate,
        "difference": found.difference,
        "interval": None if found.interval is None else list(found.interval),
        "max_increase": found.max_increase,
        "verdict": str(found.verdict),
        "lacking": found.lacking,
        "evidence": dict(found.evidence),
        "tested": str(found.tested),
        "method": str(found.method),
        "alpha": found.alpha,
        "confidence": found.confidence,
        "pairs": found.pairs,
        "looks": found.looks,
        "look": found.look,
        "findings": [
            {"kind": str(f.kind), "severity": str(f.severity), "sentence": f.sentence} for f in found.findings
        ],
        "changed": [asdict(changed) for changed in found.changed],
        "notes": list(found.notes),
        "simulated": found.simulated,
        "run_ids": list(found.run_ids),
        "tokens_spent": found.tokens_spent,
        "seconds": round(found.seconds, 3),
    }


def empty_check_document() -> dict[str, Any]:
    """``check --json`` when it was interrupted before there was anything to compare."""
    keys = ("baseline", "candidate", "at_tokens", "p_baseline", "p_candidate", "difference", "interval")
    return {
        **dict.fromkeys(keys),
        "max_increase": None,
        "verdict": str(CheckVerdict.INCONCLUSIVE),
        "lacking": "interrupted",
        "evidence": {},
        "findings": [],
        "changed": [],
        "notes": [],
        "run_ids": [],
        "tokens_spent": 0,
    }


def _side(side: Side) -> dict[str, Any]:
    return {
        "label": side.label,
        "subject": asdict(side.subject),
        "run_ids": list(side.run_ids),
        "files": list(side.files),
        "generations": side.generations,
        "onsets": side.onsets,
        "at_risk": side.at_risk,
        "failed": side.failed,
        "threshold": side.threshold,
        "safe_max_tokens": side.safe_max_tokens,
        "symptoms": dict(side.symptoms),
        "plane": None if side.plane is None else str(side.plane),
        "unit": side.unit,
        "measured_now": side.measured_now,
        "decoding": None if side.decoding is None else side.decoding.given(),
        "base_url": side.base_url,
    }


def check_headline(found: Comparison) -> str:
    """The verdict in one sentence, with its numbers."""
    if found.verdict is not found.tested:
        failing = "; ".join(f.sentence for f in found.findings if f.severity == "error")
        return f"Regression: {failing}. (The test at T alone says: {found.tested}.)"
    if found.verdict is CheckVerdict.INCONCLUSIVE:
        lacking = found.lacking or "too few data"
        return f"Inconclusive: {lacking.rstrip('.')}."
    word = "Pass" if found.verdict is CheckVerdict.PASS else "Regression"
    return f"{word}: {_numbers(found)}"


def _numbers(found: Comparison) -> str:
    assert found.interval is not None
    lo, hi = found.interval
    side, sure = found.candidate, percent(found.confidence, 0 if found.looks == 1 else 1)
    at = f"T = {count(found.at_tokens)} {found.baseline.unit}"
    passed = found.tested is CheckVerdict.PASS
    if found.method is Method.TANGO:
        bound = f"less than {hi:+.1%}" if passed else f"more than {lo:+.1%}"
        allowed = f"tolerated: {found.max_increase:+.1%}" if passed else "more than before"
        return (
            f"on {found.pairs} common prompts at risk for {at} the candidate's risk differs by "
            f"{found.difference:+.1%}, with {sure} confidence by {bound} ({allowed}).{_left_aside(found)}"
        )
    bound = f"at most {percent(hi, 1)}" if passed else f"above {percent(lo, 1)}"
    return (
        f"{side.failed} of {side.at_risk} generations at risk for {at} degenerate; with {sure} confidence "
        f"the risk is {bound}. T stands for at most {percent(found.alpha, 1)}; this check passes "
        f"{_tolerated(found)}.{_left_aside(found)}"
    )


def _tolerated(found: Comparison) -> str:
    """``up to 20.0 % (--max-increase 10.0 %, the default: α)``."""
    default = ", the default: α" if found.max_increase == found.alpha else ""
    given = f"--max-increase {percent(found.max_increase, 1)}{default}"
    if found.method is Method.TANGO:
        return f"less than {found.max_increase:+.1%} ({given})"
    return f"up to {percent(found.alpha + found.max_increase, 1)} ({given})"


def _left_aside(found: Comparison) -> str:
    """Recorded outputs that the test does not use, which a reader would take for tested."""
    aside = found.evidence.get("not_used")
    if not aside:
        return ""
    risk = f", {aside['failed']} of {aside['at_risk']} at risk for T degenerate" if aside["at_risk"] else ""
    return f" {aside['outputs']} further outputs of the same prompts are not used{risk}."


def _rows(found: Comparison) -> list[tuple[str, str, str]]:
    """What is shown side by side."""
    sides = (found.baseline, found.candidate)

    def row(name: str, *values: str) -> tuple[str, str, str]:
        return name, values[0], values[1]

    return [
        row("what", *(side.label for side in sides)),
        row("decoding", *(_decoding(side) for side in sides)),
        row("server", *(side.base_url or _UNKNOWN for side in sides)),
        row("degenerate of generations", *(f"{side.onsets} of {side.generations}" for side in sides)),
        row(f"risk at T = {count(found.at_tokens)}", *_risks(found)),
        row("passes", "", _tolerated(found)),
        row("own threshold T", *(count(side.threshold) for side in sides)),
        row("safe max_tokens", *(count(side.safe_max_tokens) for side in sides)),
        row("symptoms", *(_symptoms(side) for side in sides)),
        row("plane", *(NOT_MEASURED if side.plane is None else str(side.plane) for side in sides)),
    ]


def _decoding(side: Side) -> str:
    """What was sent, in words; the system prompt itself is in the JSON document alone."""
    if side.decoding is None:
        return _UNKNOWN
    words = [f"{name} {value}" for name, value in side.decoding.sent().items()]
    system = [] if side.decoding.system_prompt is None else ["a system prompt"]
    return ", ".join([*words, *system]) or "nothing sent: the server's defaults"


def _risks(found: Comparison) -> tuple[str, str]:
    fresh = found.p_baseline
    before = f"at most {percent(found.alpha, 1)}" if fresh is None else f"{percent(fresh, 1)}, fresh"
    side = found.candidate
    if side.at_risk is None:
        return before, NOT_MEASURED
    return before, f"{percent(found.p_candidate, 1)} ({side.failed} of {side.at_risk} at risk)"


def _symptoms(side: Side) -> str:
    return ", ".join(f"{kind.replace('_', ' ')} {n}" for kind, n in side.symptoms.items()) or "none"


def changed_words(changed: Changed) -> str:
    """One difference in words."""
    allowed = " (different, and allowed to be)" if changed.allowed else ""
    return f"{changed.name}: {changed.before or _UNKNOWN} → {changed.after or _UNKNOWN}{allowed}"


def print_check(console: Console, found: Comparison, *, document_id: str | None = None) -> None:
    """The verdict first, then both sides, what else was found, what else changed."""
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    if found.simulated:
        console.print(Text(SIMULATED_WARNING, style="bold yellow"))
    colour = _COLOURS[found.verdict]
    word, colon, grounds = clean(check_headline(found)).partition(": ")
    answer = Text.assemble((word, f"bold {colour}"), f"{colon}{grounds}")
    console.print(Panel(answer, border_style=colour, title=str(found.verdict)))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("")
    table.add_column("baseline", overflow="fold")
    table.add_column("candidate", overflow="fold")
    for row in _rows(found):
        table.add_row(*(Text(clean(cell)) for cell in row))
    console.print(table)
    for finding in found.findings:
        style = "red" if finding.severity == "error" else "yellow"
        console.print(Text(clean(f"{finding.severity}: {finding.sentence}"), style=style))
    for changed in found.changed:
        style = "yellow" if changed.allowed else ""
        console.print(Text(clean(f"changed: {changed_words(changed)}"), style=style))
    for note in found.notes:
        console.print(Text(clean(f"note: {note}"), style="dim"))
    if found.verdict is CheckVerdict.INCONCLUSIVE and found.at_tokens is not None and found.looks == 1:
        advice = MORE_RECORDED if found.candidate.files else MORE_DATA
        console.print(Text(f"→ {advice}", style="cyan"))
    console.print(Text(_cost(found, document_id), style="dim"))


def _cost(found: Comparison, document_id: str | None) -> str:
    spent = (
        f"{count(found.tokens_spent)} tokens in {duration(found.seconds)}"
        if found.tokens_spent
        else "nothing was sent"
    )
    looks = f", look {found.look} of {found.looks} declared" if found.looks > 1 else ""
    return f"{spent}{looks}" + (f"; kept as check {document_id}" if document_id else "")


def check_markdown(found: Comparison) -> str:
    """For a pull request's comment. Foreign text is escaped: it cannot become markup."""
    sections = [f"### stresstest check: {found.verdict}"]
    if found.simulated:
        sections.append(SIMULATED)
    sections.append(f"**{inline(check_headline(found))}**")
    rows = [tuple(inline(cell) for cell in row) for row in _rows(found)]
    sections.append(grid(("", "baseline", "candidate"), rows))
    if found.findings:
        sections.append(bullets(f"{f.severity}: {f.sentence}" for f in found.findings))
    if found.changed:
        sections += ["What else changed:", bullets(changed_words(c) for c in found.changed)]
    if found.notes:
        sections.append(bullets(found.notes))
    sections.append(inline(_cost(found, None)))
    return "\n\n".join(sections) + "\n"
