"""The process that has imported the command line once and forks itself for every command."""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from typing import Any

PRELOADED = (
    "openai",
    "scipy.stats",
    "uvloop",
    "alembic.command",
    "stresstest.store.engine",
    "stresstest.endpoint.client",
    "stresstest.campaign.run",
    "stresstest.campaign.conclusion.conclude",
    "stresstest.features.run.command",
    "stresstest.features.demo.command",
)
"""What `run` and `demo` import on their way."""


class ForkServer:
    """Reads requests from a socket until its other end is closed."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._statuses: dict[int, int] = {}
        self._ended, ended = os.pipe()
        os.set_blocking(ended, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(ended, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Returns in every forked process, which is then that command; ends the process otherwise."""
        requests = self._connection.fileno()
        while True:
            ready, _, _ = select.select([requests, self._ended], [], [])
            if self._ended in ready:
                os.read(self._ended, 4096)
                self._reap()
            if requests in ready:
                head, fds, _, _ = socket.recv_fds(self._connection, 4, 4)
                if not head:
                    sys.exit()
                size = int.from_bytes(head)
                message = self._connection.recv(size, socket.MSG_WAITALL)
                if self._fork(json.loads(message), fds):
                    return

    def _fork(self, wanted: dict[str, Any], fds: list[int]) -> bool:
        """True in the new process."""
        *standard, status = fds
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where the tests run under nohup
            self._connection.close()
            for fd in (self._ended, status, *self._statuses.values()):
                os.close(fd)
            _become(wanted, standard)
            return True
        for fd in standard:
            os.close(fd)
        self._statuses[pid] = status
        self._connection.sendall(pid.to_bytes(4))
        return False

    def _reap(self) -> None:
        """Report the exit code of every process that has ended."""
        while self._statuses:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            with os.fdopen(self._statuses.pop(pid), "w") as report:
                report.write(str(os.waitstatus_to_exitcode(status)))


def _become(wanted: dict[str, Any], standard: list[int]) -> None:
    """The environment, folder, streams and words of the command."""
    for number, fd in enumerate(standard):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(wanted["env"])
    os.chdir(wanted["cwd"])
    sys.stdin = TextIOWrapper(BufferedReader(FileIO(0, closefd=False)), encoding="utf-8")
    sys.stdout = TextIOWrapper(BufferedWriter(FileIO(1, "w", closefd=False)), encoding="utf-8")
    sys.stderr = TextIOWrapper(
        BufferedWriter(FileIO(2, "w", closefd=False)), encoding="utf-8", line_buffering=True
    )
    sys.argv = ["stresstest", *wanted["words"]]


def main() -> None:
    """`python -m tests.support.forking.server FD`: FD is a connected socket."""
    from stresstest.cli.app import main as command_line
    from stresstest.detectors.identification.votes import warm_up

    for name in PRELOADED:
        importlib.import_module(name)
    warm_up("it")
    gc.collect()
    gc.freeze()
    ForkServer(socket.socket(fileno=int(sys.argv[1]))).serve()
    command_line()


if __name__ == "__main__":
    main()
