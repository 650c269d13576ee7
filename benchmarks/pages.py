"""Pages under docs/ that programs write: each program replaces its own section, between two marks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_section(page: str, name: str, text: str) -> None:
    """Put `text` between the marks `<!-- name -->` and `<!-- /name -->` of a page, named as under docs/.

    Raises ValueError when the page has no such marks.
    """
    path = DOCS / page
    begin, end = f"<!-- {name} -->\n", f"\n<!-- /{name} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    old = path.read_text(encoding="utf-8")
    if not pattern.search(old):
        raise ValueError(f"{path} has no section {name!r}")
    path.write_text(pattern.sub(lambda _: begin + text.strip() + end, old, count=1), encoding="utf-8")
