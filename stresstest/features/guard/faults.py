"""What the log has of an error of the guard's own."""

from __future__ import annotations

import asyncio


class UnforeseenError(Exception):
    """Stands for an error that nobody foresaw: its kind, and where it happened. Its own words may quote what
    a client or an upstream has sent, keys among it, so that they are left out."""


def report(sentence: str, error: Exception) -> None:
    """Tell the event loop, which writes it to its log."""
    told = UnforeseenError(type(error).__name__).with_traceback(error.__traceback__)
    asyncio.get_running_loop().call_exception_handler({"message": sentence, "exception": told})
