"""What a person sees on the terminal, kept as text: a change of it must be meant.

``python -m tests.terminal_scenes`` writes the captures anew.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.cells import cell_len

from tests.terminal_scenes import FOLDER, captures

CAPTURES = list(captures())


@pytest.mark.parametrize(("name", "width", "drawn"), CAPTURES, ids=[name for name, _, _ in CAPTURES])
def test_the_terminal_shows_what_is_stored(name: str, width: int, drawn: Callable[[], str]) -> None:
    """Verdicts, live views, scans and plans at 60, 80 and 120 columns and in ASCII, to the character.

    No line is wider than the terminal, bar the command that is there to be copied, and by the signs that
    ASCII writes with two characters.
    """
    text = drawn()
    assert text == (FOLDER / name).read_text(encoding="utf-8")
    for line in text.splitlines():
        written_with_two = line.count(">=") + line.count("<=")
        assert cell_len(line) - written_with_two <= width or line.startswith("stresstest report")


def test_no_capture_is_kept_of_what_is_no_longer_drawn() -> None:
    """A stored file that nothing is compared with would promise what nobody checks."""
    assert {path.name for path in FOLDER.iterdir()} == {name for name, _, _ in CAPTURES}
