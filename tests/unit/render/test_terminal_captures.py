"""What a person sees on the terminal, kept as text: a change of it must be meant."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from rich.cells import cell_len

from tests.support.snapshots import Snapshot
from tests.support.terminal_scenes import captures

CAPTURES = list(captures())
_COPIED = re.compile(r" *stresstest (report|recommend) ")
"""A command that is there to be copied is not wrapped."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "drawn"), [each[1:] for each in CAPTURES], ids=[name for name, _, _ in CAPTURES]
)
def test_the_terminal_shows_what_is_stored(width: int, drawn: Callable[[], str], snapshot: Snapshot) -> None:
    """Verdicts, live views, scans and plans at 60, 80 and 120 columns and in ASCII, to the character.

    No line is wider than the terminal, bar the command that is there to be copied, and by the signs that
    ASCII writes with two characters.
    """
    text = drawn()
    snapshot(text)
    for line in text.splitlines():
        written_with_two = line.count(">=") + line.count("<=")
        assert cell_len(line) - written_with_two <= width or _COPIED.match(line)
