"""docs/simulated.md, written by programs: each replaces its own section."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "simulated.md"
SECTIONS = ("source", "kills")
_HEAD = """# What the tool finds on the simulator

Whole `run` campaigns against shipped scenarios, whose truth is known token by token. Written by
`benchmarks/source_table.py` and `benchmarks/kill_and_resume.py`; the same rows are tests (`make e2e-sim`).
All numbers are simulated; none is a measurement of a model.
"""


def write_section(name: str, text: str) -> None:
    """Put `text` in the place of section `name`; the others stay as they are. ValueError: no such section."""
    if name not in SECTIONS:
        raise ValueError(f"{name!r} is none of {SECTIONS}")
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    found = {section: _section(page, section) for section in SECTIONS} | {name: text.strip()}
    parts = [f"<!-- {s} -->\n{found[s]}\n<!-- /{s} -->" for s in SECTIONS if found[s]]
    PAGE.write_text("\n\n".join([_HEAD.strip(), *parts]) + "\n", encoding="utf-8")


def _section(page: str, name: str) -> str:
    _, _, after = page.partition(f"<!-- {name} -->\n")
    return after.partition(f"\n<!-- /{name} -->")[0]
