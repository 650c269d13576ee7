"""What the program writes for people, kept as text: one file per test module, one section per test.

A test takes the fixture `snapshot` and hands it a page, an error or a note; everything else is asserted on
fields. So a sentence that is worded better changes one file and no test:

    python -m tests.support.snapshots                       # write all of them again; then review the diff
    UPDATE_SNAPSHOTS=1 pytest tests/unit/features/scan      # write those of some tests again

What differs from run to run (folders, ports, the names of runs, durations) is replaced by a word in `<>`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.paths import DATA, ROOT

FOLDER = DATA / "snapshots"
UPDATE = "UPDATE_SNAPSHOTS"
"""Environment variable: with any value, sections are written instead of compared."""
_MARK = "@@ "
"""Begins the line that names a section."""
_VARYING = (
    (re.compile(r"\b(127\.0\.0\.1|localhost):\d{4,5}\b"), r"\1:<port>"),
    (re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{4}\b"), "<run>"),
)


def page_of(module: Path) -> Path:
    """The file with the snapshots of a test module: tests/unit/a/test_b.py has a/b.txt."""
    place = module.relative_to(ROOT / "tests")
    parts = place.parts[1:] if place.parts[0] == "unit" else place.parts
    return FOLDER.joinpath(*parts[:-1], place.stem.removeprefix("test_") + ".txt")


def sections(text: str) -> dict[str, str]:
    """The sections of a page by their names, in their order."""
    found: dict[str, str] = {}
    for part in re.split(rf"^{_MARK}", text, flags=re.MULTILINE)[1:]:
        name, _, body = part.partition("\n")
        found[name] = body.removesuffix("\n").removesuffix("\n")
    return found


def written(found: dict[str, str]) -> str:
    """A page of these sections."""
    return "\n".join(f"{_MARK}{name}\n{body}\n" for name, body in found.items())


def flat(text: str) -> str:
    """Without the line breaks of a terminal, whose places depend on what is replaced."""
    return " ".join(text.split())


def by_sentence(text: str) -> str:
    """A line per sentence of a page that is one line of words."""
    return re.sub(r"(?<=[.!?]) (?=[A-Z])", "\n", flat(text))


class Snapshot:
    """Compares what one test shows with its sections of a page."""

    def __init__(self, page: Path, test: str, replaced: Sequence[tuple[str, str]] = ()) -> None:
        """replaced: texts of this very run, such as its folder, each with what is kept in its place."""
        self._page, self._test, self._replaced = page, test, replaced

    def __call__(self, text: str, label: str = "") -> None:
        """Assert that the text is the kept one. label: tells apart several texts of one test."""
        name = f"{self._test} · {label}" if label else self._test
        text = self._stable(text)
        assert not any(line.startswith(_MARK) for line in text.splitlines()), "a line would begin a section"
        kept = sections(self._page.read_text(encoding="utf-8")) if self._page.is_file() else {}
        if os.environ.get(UPDATE):
            self._page.parent.mkdir(parents=True, exist_ok=True)
            self._page.write_text(written({**kept, name: text}), encoding="utf-8")
            return
        assert name in kept, f"{self._page.name} has no section {name!r}; see tests/support/snapshots.py"
        assert text == kept[name]

    def _stable(self, text: str) -> str:
        for found, instead in self._replaced:
            text = text.replace(found, instead)
        for pattern, instead in _VARYING:
            text = pattern.sub(instead, text)
        return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")


def modules() -> Iterator[Path]:
    """The test modules that compare snapshots."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if "tests.support.snapshots" in path.read_text(encoding="utf-8"):
            yield path


def main() -> int:
    """Write all snapshots again; those that no test compares any longer are gone."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", *map(str, modules()), *sys.argv[1:]]
    return subprocess.run(command, cwd=ROOT, env=os.environ | {UPDATE: "1"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
