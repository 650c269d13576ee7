"""Parts of a diagnosis shared by the terminal, Markdown and HTML output."""

from __future__ import annotations

from stresstest.detectors.registry import symptom_counts
from stresstest.model import ArmResult, CauseLink, Diagnosis, PairedEffect
from stresstest.render.text import NOT_MEASURED, format_count


def cost_line(found: Diagnosis) -> str:
    """The output tokens of the diagnosis, compared with those of the run."""
    run = found.run_tokens
    ratio = f" ({found.arm_tokens / run:.1f} times the run's)" if run else ""
    climbing = f", {format_count(found.child_tokens)} for the next climb" if found.child_tokens else ""
    answers = f"{format_count(found.added_answers)} more answers to get enough failing prompts"
    added = f", {format_count(found.added_tokens)} for {answers}" if found.added_answers else ""
    return (
        f"The diagnosis took {format_count(found.spent_tokens)} output tokens, the run {format_count(run)}: "
        f"{format_count(found.arm_tokens)} for interventions{ratio}{added}{climbing}"
    )


def effect_words(change: PairedEffect) -> str:
    """``entropy (nats): 0.78 → 0.79 (p = 0.11, n = 23)``; – for what was not measured."""
    if change.before is None or change.after is None:
        return f"{change.what}: {NOT_MEASURED}"
    p = NOT_MEASURED if change.p is None else f"{change.p:.2g}"
    return f"{change.what}: {change.before:.2f} → {change.after:.2f} (p = {p}, n = {change.n})"


def link_details(link: CauseLink) -> list[str]:
    """The lines about a link apart from its arms: reason, ablations, side effects, position, notes."""
    lines = [link.why.sentence] if link.why is not None else []
    lines += [ablation.sentence for ablation in link.ablations]
    for arm in link.arms:
        if arm.clears and arm.effects:
            lines.append(f"with {arm.changed}: " + "; ".join(effect_words(e) for e in arm.effects))
    if link.position is not None:
        lines.append(f"median position in the context (prompt + onset): {format_count(link.position)} tokens")
    return [*lines, *link.notes]


ARM_COLUMNS = ("changed", "n", "failed", "p", "clears", "symptoms")
"""Headings of the table of arms."""


def arm_row(arm: ArmResult) -> tuple[str, ...]:
    """One row of the table of arms: changed, n, failed, p, clears, symptoms."""
    short = f"({arm.short} ended early)" if arm.short else ""
    what = ", ".join(filter(None, (symptom_counts(arm.symptoms), short))) or NOT_MEASURED
    if arm.plane is None:
        return f"{arm.changed} (unchanged)", str(arm.n), str(arm.failed), NOT_MEASURED, NOT_MEASURED, what
    clears = "yes" if arm.clears else "no, stopped early" if arm.decided_early else "no"
    return arm.changed, str(arm.n), str(arm.failed), f"{arm.p:.2g}", clears, what
