"""Whether this process is the command's own, as only there may limits be set that hold for the whole process;
and what its children may import."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_claimed: list[bool] = []
_SAFE_PATH = "PYTHONSAFEPATH"


def claim_process() -> None:
    """Called by the command line's entry point. In a user's program, notebook or server nobody does."""
    _claimed.append(True)


def is_own_process() -> bool:
    return bool(_claimed)


def allow_open_files(needed: int) -> int:
    """Let this process open so many files, sockets included, as far as its user may; how many it may."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return needed
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed and is_own_process():
        wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with suppress(OSError, ValueError):  # macOS has a lower limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return needed if soft == resource.RLIM_INFINITY else soft


@contextmanager
def outside_folder() -> Iterator[None]:
    """The current folder is the root meanwhile: matplotlib reads settings, which are partly code, from the
    current one, and Ray lets its workers import from it."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # a folder that is gone holds nothing
        yield
        return
    os.chdir(here.anchor)
    try:
        yield
    finally:
        os.chdir(here)


@contextmanager
def safe_path() -> Iterator[None]:
    """Children that are started meanwhile import nothing from the current folder: it may be somebody else's,
    with a `multiprocessing.py` in it. Python starts workers with ``-c``, which would look there first."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before
