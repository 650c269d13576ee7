"""Ctrl-C and SIGTERM reach a command's listener, whoever has taken the signals in between."""

from __future__ import annotations

import os
import queue
import signal
import socket

import pytest

from stresstest.options import interruptions
from stresstest.options.interruptions import SIGNALS, Interruptions


@pytest.mark.parametrize("number", [*SIGNALS, signal.SIGHUP])
def test_a_signal_that_an_event_loop_took_is_heard_once(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uvloop takes the wakeup descriptor while it closes and waits for its threads: neither signal was heard,
    and a thread that hung could be ended by kill -9 only."""
    monkeypatch.setattr(interruptions, "_end_at_once", lambda: None)
    before = signal.signal(number, signal.SIG_DFL)  # ignored where the tests run under nohup
    heard: queue.SimpleQueue[str] = queue.SimpleQueue()
    listening, (mine, theirs) = Interruptions(), socket.socketpair()
    theirs.setblocking(False)
    listening.heard = lambda: heard.put("heard")
    with mine, theirs:
        listening.start()
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        for _ in range(2):  # the second time, the descriptor is the listener's again
            os.kill(os.getpid(), number)
            assert heard.get(timeout=60) == "heard"
        listening.end()
    signal.signal(number, before)
    assert heard.empty()
    assert signal.set_wakeup_fd(-1) == -1


def test_a_command_under_nohup_outlives_its_terminal() -> None:
    """nohup has SIGHUP ignored: to hear it all the same would end the command when its terminal closes."""
    before, listening = signal.signal(signal.SIGHUP, signal.SIG_IGN), Interruptions()
    try:
        listening.start()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        listening.end()
    finally:
        signal.signal(signal.SIGHUP, before)
