"""Ctrl-C, SIGTERM and a terminal that closes, whatever the program waits for."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from stresstest.errors import ExitCode

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_HANG_UP = {signal.SIGHUP} if hasattr(signal, "SIGHUP") else set()
_LAST_S = 1.5
"""Seconds after a second signal in which a command may end in good order."""
_LAST_WORDS_S = 0.2
_SHOW_CURSOR = "\x1b[?25h"


class Interruptions:
    """Hears Ctrl-C, SIGTERM and SIGHUP in a thread of its own: also while the main thread waits for a store
    that does not answer. A second one ends the process, if it has not ended by itself soon. A SIGHUP that is
    ignored stays ignored: nohup asks for that.

    heard: called on each signal; replaced while an event loop runs.
    """

    def __init__(self) -> None:
        self.heard: Callable[[], object] = lambda: None
        self._handlers: dict[signal.Signals, Any] = {}
        self._terminals: tuple[int, ...] = ()
        self._deadline = threading.Timer(_LAST_S, _end_at_once)
        self._deadline.daemon = True
        self._listener = threading.Thread(target=self._listen, daemon=True)

    def start(self) -> None:
        """Listen from now on, until `end`."""
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._before = signal.set_wakeup_fd(-1)
        taken = {*SIGNALS, *(number for number in _HANG_UP if signal.getsignal(number) is not signal.SIG_IGN)}
        self._handlers = {number: signal.getsignal(number) for number in taken}
        self._terminals = tuple(filter(os.isatty, range(3)))
        self.take_over()
        self._listener.start()

    def take_over(self) -> None:
        """Take the signals; again once an event loop has begun or ended, which takes them for itself."""
        for number in self._handlers:
            signal.signal(number, self._forward)
        self._take_descriptor()

    def _take_descriptor(self) -> bool:
        """Have signals written to the listener; whether they were already."""
        ours = self._writer.fileno()
        return signal.set_wakeup_fd(ours, warn_on_full_buffer=False) == ours

    def _forward(self, number: int, _frame: object) -> None:
        """Pass on what an event loop kept to itself: it takes the signals again while it closes."""
        if not self._take_descriptor():
            with suppress(BlockingIOError):
                self._writer.send(bytes((number,)))

    def end(self) -> None:
        """Give the signals back, once the store is closed: until then it may be what does not answer."""
        if not self._handlers:
            return
        signal.set_wakeup_fd(self._before)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._writer.close()
        self._listener.join()
        self._reader.close()
        self._deadline.cancel()

    def _listen(self) -> None:
        count = 0
        while received := self._reader.recv(64):
            for _ in filter(self._handlers.__contains__, received):
                count += 1
                if count == 2:
                    self._deadline.start()
                self._leave_closed_terminals()
                self.heard()

    def _leave_closed_terminals(self) -> None:
        """Send what is still said to a terminal that is gone nowhere: written to it, it would be an error."""
        for gone in (fd for fd in self._terminals if not os.isatty(fd)):
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, gone)
            os.close(nowhere)
        self._terminals = tuple(filter(os.isatty, self._terminals))


@contextmanager
def ended_by_a_second_interrupt() -> Iterator[None]:
    """End the process soon after a second Ctrl-C meanwhile, if it has not ended by itself. While SQLite waits
    for a lock, Python's own handler does not run. A measurement has :class:`Interruptions` instead."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    deadline = threading.Timer(_LAST_S, _end_at_once)
    deadline.daemon = True

    def listen() -> None:
        count = 0
        while received := reader.recv(64):
            count += received.count(signal.SIGINT)
            if count > 1:
                deadline.start()
                return

    listener = threading.Thread(target=listen, daemon=True)
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    listener.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        writer.close()
        listener.join()
        reader.close()
        deadline.cancel()


def _end_at_once() -> NoReturn:
    saying = threading.Thread(target=_say_goodbye, daemon=True)
    saying.start()
    saying.join(_LAST_WORDS_S)  # nobody may be reading
    os._exit(ExitCode.INTERRUPTED)


def _say_goodbye() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream.isatty():
            stream.write(_SHOW_CURSOR)
    why = "the store, the network, the terminal or its own work took too long"
    sys.stderr.write(f"\nstresstest: ended at once: {why}. What was stored is kept.\n")
    for stream in (sys.stderr, sys.stdout):
        stream.flush()
