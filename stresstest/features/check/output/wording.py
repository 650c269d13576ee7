"""The sentences and table rows of a comparison, as the terminal and Markdown show them."""

from __future__ import annotations

from stresstest.detectors.registry import symptom_counts
from stresstest.model import ChangedSetting, CheckVerdict, Comparison, ComparisonSide, Method
from stresstest.model.comparison import FindingKind
from stresstest.model.percent import percent, percent_change
from stresstest.render.text import NOT_MEASURED, duration, format_count

_UNKNOWN = "not known"


def check_headline(found: Comparison) -> str:
    """The verdict in one sentence, with its numbers."""
    if found.verdict is not found.tested:
        failing = "; ".join(f.sentence for f in found.findings if f.severity == "error")
        return f"Regression: {failing}. (The test at T alone gives: {found.tested}.)"
    if found.verdict is CheckVerdict.INCONCLUSIVE:
        lacking = found.lacking or "too few data"
        return f"Inconclusive: {lacking.rstrip('.')}."
    word = "Pass" if found.verdict is CheckVerdict.PASS else "Regression"
    return f"{word}: {_numbers(found)}{_beyond_note(found)}"


def _beyond_note(found: Comparison) -> str:
    """What a pass leaves out: T may be the first tokens of long answers."""
    before, now = found.baseline, found.candidate
    if found.verdict is not CheckVerdict.PASS or now.onsets <= (now.failed or 0):
        return ""
    later = (
        f" The test ends at T: over whole answers, {before.onsets} of {before.generations} degenerate in the "
        f"baseline and {now.onsets} of {now.generations} in the candidate"
    )
    earlier = any(each.kind is FindingKind.SURVIVAL for each in found.findings)
    return f"{later}{' (to fail on that: --error-on survival)' if earlier else ''}."


def _numbers(found: Comparison) -> str:
    assert found.interval is not None
    lo, hi = found.interval
    side, sure = found.candidate, percent(found.confidence, 0 if found.looks == 1 else 1)
    at = f"T = {format_count(found.at_tokens)} {found.baseline.unit}"
    passed = found.tested is CheckVerdict.PASS
    if found.method is Method.TANGO:
        bound = f"less than {percent_change(hi)}" if passed else f"more than {percent_change(lo)}"
        allowed = f"tolerated: {percent_change(found.max_increase)}" if passed else "more than before"
        return (
            f"on {found.pairs} common prompts at risk for {at}, the candidate's risk differs by "
            f"{percent_change(found.difference)}, with {sure} confidence by {bound} "
            f"({allowed}).{_left_aside_note(found)}"
        )
    bound = f"at most {percent(hi, 1)}" if passed else f"above {percent(lo, 1)}"
    return (
        f"{side.failed} of {side.at_risk} answers at risk for {at} degenerate. With {sure} "
        f"confidence, the risk is {bound}. The baseline's T allows at most {percent(found.alpha, 1)}; "
        f"this check passes {_tolerated(found)}.{_left_aside_note(found)}"
    )


def _tolerated(found: Comparison) -> str:
    """``up to 20.0 % (--max-increase 10.0 %, the default: α)``."""
    default = ", the default: α" if found.max_increase == found.alpha else ""
    given = f"--max-increase {percent(found.max_increase, 1)}{default}"
    if found.method is Method.TANGO:
        return f"less than {percent_change(found.max_increase)} ({given})"
    return f"up to {percent(found.alpha + found.max_increase, 1)} ({given})"


def _left_aside_note(found: Comparison) -> str:
    """Recorded outputs that the test does not use, which a reader would take for tested."""
    aside = found.evidence.get("not_used")
    if not aside:
        return ""
    risk = f", {aside['failed']} of {aside['at_risk']} at risk for T degenerate" if aside["at_risk"] else ""
    return f" {aside['outputs']} further outputs of the same prompts are not used{risk}."


def comparison_rows(found: Comparison) -> list[tuple[str, str, str]]:
    """What is shown side by side."""
    sides = (found.baseline, found.candidate)

    def row(name: str, *values: str) -> tuple[str, str, str]:
        return name, values[0], values[1]

    return [
        row("what", *(side.label for side in sides)),
        row("decoding", *(_decoding(side) for side in sides)),
        row("server", *(side.base_url or _UNKNOWN for side in sides)),
        row("degenerate of generations", *(f"{side.onsets} of {side.generations}" for side in sides)),
        row(f"risk at T = {format_count(found.at_tokens)}", *_risks(found)),
        row("passes", "", _tolerated(found)),
        row("own threshold T", *map(_own_threshold, sides)),
        row("safe max_tokens", *map(_safe, sides)),
        row("symptoms", *(_symptoms(side) for side in sides)),
        row("plane", *(NOT_MEASURED if side.plane is None else str(side.plane) for side in sides)),
    ]


def _decoding(side: ComparisonSide) -> str:
    """What was sent, in words; the system prompt itself is in the JSON document alone."""
    if side.decoding is None:
        return _UNKNOWN
    words = [f"{name} {value}" for name, value in side.decoding.sent().items()] + side.decoding.extra_words()
    system = [] if side.decoding.system_prompt is None else ["a system prompt"]
    return ", ".join([*words, *system]) or "the server's defaults (no option sent)"


def _own_threshold(side: ComparisonSide) -> str:
    """T, with ``≥`` where no onset was seen up to there, as every other command prints it."""
    return ("≥ " if side.without_onset else "") + format_count(side.threshold)


def _safe(side: ComparisonSide) -> str:
    return format_count(side.safe_max_tokens) if side.limit_without_cap is None else "no cap recommended"


def _risks(found: Comparison) -> tuple[str, str]:
    fresh = found.p_baseline
    before = f"at most {percent(found.alpha, 1)}" if fresh is None else f"{percent(fresh, 1)}, fresh"
    side = found.candidate
    if side.at_risk is None:
        return before, NOT_MEASURED
    return before, f"{percent(found.p_candidate, 1)} ({side.failed} of {side.at_risk} at risk)"


def _symptoms(side: ComparisonSide) -> str:
    return symptom_counts(side.symptoms) or "none"


def changed_words(changed: ChangedSetting) -> str:
    """One difference in words."""
    allowed = " (different, but allowed by --allow-different)" if changed.allowed else ""
    return f"{changed.name}: {changed.before or _UNKNOWN} → {changed.after or _UNKNOWN}{allowed}"


def spent_line(found: Comparison, document_id: str | None) -> str:
    spent = "nothing was sent" if found.candidate.files else "no new answer was measured"
    if found.tokens_spent:
        spent = f"{format_count(found.tokens_spent)} tokens in {duration(found.seconds)}"
    looks = f", look {found.look} of {found.looks} declared" if found.looks > 1 else ""
    return f"{spent}{looks}" + (f"; stored as check {document_id}" if document_id else "")
