"""Reports unexpected exceptions: one sentence on stderr, and a file with a traceback without secrets."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from types import TracebackType

_WORD = re.compile(r"[^\s'\"]+")
_KEY_VARIABLES = ("OPENAI_API_KEY", "STRESSTEST_API_KEY")
_SHORTEST_SECRET = 4
"""Characters: replacing shorter values would make the traceback unreadable and protect nothing."""
_FIRST, _LAST = 20_000, 80_000
"""Characters that are kept of a longer text. An exception may quote all that a server has sent."""


def report_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """`sys.excepthook` of the command line. The interpreter exits with code 1 after it."""
    from stresstest.render.text import sanitize

    text = without_secrets("".join(traceback.format_exception(kind, error, trace)), sys.argv)
    sentence = sanitize(without_secrets(f"{kind.__name__}: {error}".strip(": "), sys.argv))
    sys.stderr.write(f"stresstest: internal error: {sentence}\n")
    try:
        handle, path = tempfile.mkstemp(prefix="stresstest-crash-", suffix=".txt", text=True)
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError:
        sys.stderr.write(f"  This is a bug. Please report it with this traceback:\n{sanitize(text)}\n")
    else:
        sys.stderr.write(f"  This is a bug. Please report it with the traceback in {path}\n")


def without_secrets(text: str, arguments: Sequence[str]) -> str:
    """The text with API keys, and the user info and queries of URLs, replaced.

    arguments: the command line, which may contain the key.
    """
    from stresstest.config.secrets import remembered, spellings

    known = {*_secrets(arguments), *(s for s in remembered() if len(s) >= _SHORTEST_SECRET)}
    for spelling in sorted((each for secret in known for each in spellings(secret)), key=len, reverse=True):
        text = text.replace(spelling, "…")
    if len(text) > _FIRST + _LAST:
        text = f"{text[:_FIRST]}\n… {len(text) - _FIRST - _LAST:,} characters left out …\n{text[-_LAST:]}"
    return _WORD.sub(lambda word: _without_credentials(word[0]), text)


def _without_credentials(word: str) -> str:
    """A word without the user info and the query of the URL in it, in time that is linear in its length."""
    scheme, separator, rest = word.partition("://")
    if not separator:
        return word
    user, at, rest = rest.rpartition("@")
    rest = f"…{at}{rest}" if user else f"{at}{rest}"
    query = min((found for found in (rest.find("?", 1), rest.find("#", 1)) if found > 0), default=None)
    kept = rest if query is None or query + 1 == len(rest) else f"{rest[:query]}?…"
    return f"{scheme}{separator}{kept}"


def _secrets(arguments: Sequence[str]) -> Iterator[str]:
    given = [os.environ.get(name, "") for name in _KEY_VARIABLES]
    for at, argument in enumerate(arguments):
        if argument == "--api-key" and at + 1 < len(arguments):
            given.append(arguments[at + 1])
        elif argument.startswith("--api-key="):
            given.append(argument.partition("=")[2])
    yield from (value for value in given if len(value) >= _SHORTEST_SECRET)
