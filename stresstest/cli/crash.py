"""Reports unexpected exceptions: one sentence on stderr, and a file with a traceback without secrets."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from types import TracebackType

_USER_INFO = re.compile(r"(?<=://)[^\s'\"]+(?=@)")
_QUERY = re.compile(r"(?<=://)([^\s'\"?#]+)[?#][^\s'\"]+")
_KEY_VARIABLES = ("OPENAI_API_KEY", "STRESSTEST_API_KEY")
_SHORTEST_SECRET = 4
"""Characters: replacing shorter values would make the traceback unreadable and protect nothing."""


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
    return _QUERY.sub(r"\1?…", _USER_INFO.sub("…", text))


def _secrets(arguments: Sequence[str]) -> Iterator[str]:
    given = [os.environ.get(name, "") for name in _KEY_VARIABLES]
    for at, argument in enumerate(arguments):
        if argument == "--api-key" and at + 1 < len(arguments):
            given.append(arguments[at + 1])
        elif argument.startswith("--api-key="):
            given.append(argument.partition("=")[2])
    yield from (value for value in given if len(value) >= _SHORTEST_SECRET)
