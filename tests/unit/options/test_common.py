"""What options share: how an error is shown."""

from __future__ import annotations

import io

import pytest

from stresstest.errors import UsageError
from stresstest.options.common import show_error


def test_an_error_on_a_terminal_is_wrapped_at_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal cuts words in two; a command in the hint stays whole, so that it can be copied."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "40")
    said = Terminal()
    monkeypatch.setattr("sys.stderr", said)
    hint = "stresstest run --base-url http://localhost:8000/v1 --lang it"
    show_error(UsageError("The server refused the connection. Is vLLM running at that address?", hint=hint))
    *lines, last = said.getvalue().splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(lines).endswith("Is vLLM running at that address?")
    assert last == f"  {hint}"
