"""Settings of other programs in the environment, which libraries read while they are loaded."""

from __future__ import annotations

import os
import re
from types import TracebackType

_OWN = __name__.partition(".")[0]
_WELL_FORMED = {
    "SOURCE_DATE_EPOCH": r"\d{1,10}",  # empty where a pipeline asks Git outside of a repository
    "NUMPY_MADVISE_HUGEPAGE": r"[01]",
}
"""What numpy reads as a number."""
_OF_OTHERS = ("PROMETHEUS_MULTIPROC_DIR", "PSYCOPG_IMPL", "PSYCOPG_WAIT_FUNC")
"""Where the processes of vLLM meet, whose metrics are not ours, and the form of a driver that another
program's environment has."""


def drop_settings_of_others() -> None:
    """Remove variables that say nothing to this program and keep a library from being loaded."""
    for name in _OF_OTHERS:
        os.environ.pop(name, None)
    for name, pattern in _WELL_FORMED.items():
        if not re.fullmatch(pattern, os.environ.get(name, "0")):
            del os.environ[name]


def unloadable_library(trace: TracebackType | None) -> str | None:
    """The library during whose loading an error was raised; None for an error of a function, or of ours.

    Such an error comes of an installation or a setting that is damaged, never of what was measured.
    """
    loading = None
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_name == "<module>":
            loading = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        trace = trace.tb_next
    return None if loading in (None, "", _OWN, "__main__") else loading
