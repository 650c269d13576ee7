"""Ctrl-C between two steps instead of inside one: the counts of a step always belong together, and no lock
that another thread waits for stays locked."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

_STEP_S = 0.5


@contextlib.contextmanager
def hold_interrupts() -> Iterator[None]:
    """Delay a Ctrl-C that arrives inside the block until its end. A second one is not delayed.

    Python handles signals in the main thread only; elsewhere, and where Ctrl-C is ignored, nothing changes.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    held: list[tuple[int, FrameType | None]] = []

    def hold(number: int, frame: FrameType | None) -> None:
        if held:
            before(number, frame)
        held.append((number, frame))

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held:
        before(*held[0])


def is_done(*futures: Future[Any], within_s: float = 0.0) -> bool:
    """Whether one of them is done. A Ctrl-C inside `wait` would leave a future locked: whoever completes it
    would wait for ever, and the process with it at its exit."""
    with hold_interrupts():
        return bool(wait(futures, within_s, FIRST_COMPLETED).done)


def result_of(future: Future[T]) -> T:
    """The result, waited for in short steps, between which a Ctrl-C is raised."""
    while not is_done(future, within_s=_STEP_S):
        pass
    return future.result()
