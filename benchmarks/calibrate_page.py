"""docs/calibration.md, written by the calibration programs: each replaces its own section."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "calibration.md"
SECTIONS = ("onsets", "service", "text")
_HEAD = """# Calibration

Does the certified threshold keep its promise? Whole campaigns against a known truth, written by
`make calibrate`. The promise: in at least the stated share of campaigns the certified T is not above the
largest T with q(T) ≤ α ([method](method.md)). All numbers are simulated; none is a measurement of a model.
"""


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_section(name: str, text: str) -> None:
    """Put `text` in the place of section `name`; the others stay as they are."""
    if name not in SECTIONS:
        raise ValueError(f"{name!r} is none of {SECTIONS}")
    found = {s: _section(PAGE.read_text(encoding="utf-8"), s) for s in SECTIONS} if PAGE.exists() else {}
    found[name] = text.strip()
    parts = [f"<!-- {s} -->\n{found[s]}\n<!-- /{s} -->" for s in SECTIONS if found.get(s)]
    PAGE.write_text("\n\n".join([_HEAD.strip(), *parts]) + "\n", encoding="utf-8")


def _section(page: str, name: str) -> str:
    _, _, after = page.partition(f"<!-- {name} -->\n")
    return after.partition(f"\n<!-- /{name} -->")[0]
