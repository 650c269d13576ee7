"""`stresstest` in a process of its own that a test can interrupt or kill, without its seconds of imports.

One process a test session has imported the command line and loaded the language tables, and forks itself for
every command. Signals, pipes, exit codes and memory are those of a real process; only the start is shared.
A test of the start itself, or of what the dynamic linker reads, runs `python -m stresstest` instead.
"""

from __future__ import annotations

from tests.support.forking.process import ForkedProcess, start, stop_server

__all__ = ["ForkedProcess", "start", "stop_server"]
