"""Parts of a diagnosis shared by the terminal, Markdown and HTML output."""

from __future__ import annotations

from stresstest.detectors.registry import symptom_counts
from stresstest.model import ArmResult, CauseLink, Diagnosis, PairedEffect
from stresstest.render.text import NOT_MEASURED, format_count


def cost_line(found: Diagnosis) -> str:
    """The output tokens of the run, and those that the diagnosis took beside them, by their purpose."""
    run, spent = format_count(found.run_tokens), format_count(found.spent_tokens)
    answers = f"for {format_count(found.added_answers)} more answers, to get enough failing prompts"
    parts = [
        (format_count(tokens), purpose)
        for tokens, purpose in (
            (found.added_tokens, answers),
            (found.arm_tokens, "to test causes"),
            (found.child_tokens, "to measure again with the change that helped"),
        )
        if tokens
    ]
    listed = "; ".join(f"{tokens} {purpose}" for tokens, purpose in parts)
    purposes = f": {listed}" if len(parts) > 1 else f" {parts[0][1]}" if parts else ""
    return f"The run used {run} output tokens. The diagnosis used another {spent}{purposes}."


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
        if arm.control_n:
            lines.append(
                f"Control: of {arm.control_n} forks continued {arm.control} at the same time as those with "
                f"{arm.changed}, {arm.control_failed} failed again."
            )
        if arm.clears and arm.effects:
            lines.append(f"Side effects of {arm.changed}: " + "; ".join(effect_words(e) for e in arm.effects))
    if link.position is not None:
        where = f"at {format_count(link.position)} tokens of context (prompt + onset)"
        lines.append(f"In the median, the tested answers fail {where}.")
    return [*lines, *link.notes]


ARM_COLUMNS = ("change", "n", "failed", "p", "clears", "symptoms")
"""Headings of the table of arms."""


def arm_row(arm: ArmResult) -> tuple[str, ...]:
    """One row of the table of arms: change, n, failed, p, clears, symptoms.

    A test that was stopped early, because it could no longer clear, has no p.
    """
    short = f"({arm.short} ended early)" if arm.short else ""
    what = ", ".join(filter(None, (symptom_counts(arm.symptoms), short))) or "none"
    if arm.plane is None:
        return "unchanged", str(arm.n), str(arm.failed), "", "", what
    clears = "yes" if arm.clears else "no, stopped early" if arm.decided_early else "no"
    p = "" if arm.decided_early else f"{arm.p:.2g}"
    return arm.changed, str(arm.n), str(arm.failed), p, clears, what
