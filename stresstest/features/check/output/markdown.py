"""A comparison as Markdown, for a pull request's comment."""

from __future__ import annotations

from stresstest.features.check.output.wording import (
    changed_words,
    check_headline,
    comparison_rows,
    spent_line,
)
from stresstest.model import Comparison
from stresstest.render.markdown import SIMULATED_NOTE, bullet_list, escape_inline, markdown_table


def error_markdown(sentence: str) -> str:
    """Of a check that has no result: why."""
    return f"### stresstest check: no result\n\n{escape_inline(sentence)}\n"


def check_markdown(found: Comparison) -> str:
    """For a pull request's comment. Foreign text is escaped: it cannot become markup."""
    sections = [f"### stresstest check: {found.verdict}"]
    if found.simulated:
        sections.append(SIMULATED_NOTE)
    sections.append(f"**{escape_inline(check_headline(found))}**")
    rows = [tuple(escape_inline(cell) for cell in row) for row in comparison_rows(found)]
    sections.append(markdown_table(("", "baseline", "candidate"), rows))
    if found.findings:
        sections.append(bullet_list(f"{f.severity}: {f.sentence}" for f in found.findings))
    if found.changed:
        sections += ["What else changed:", bullet_list(changed_words(c) for c in found.changed)]
    if found.notes:
        sections.append(bullet_list(found.notes))
    sections.append(escape_inline(spent_line(found, None)))
    return "\n\n".join(sections) + "\n"
