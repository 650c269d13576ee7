"""The test's side: asks the fork server for a process, and holds its pipes."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from io import BufferedReader, FileIO, TextIOWrapper
from pathlib import Path

from tests.support.paths import ROOT


@dataclass
class ForkedProcess:
    """A running command; what `subprocess.Popen` would give. stderr: None where stdout holds both."""

    pid: int
    stdout: TextIOWrapper
    stderr: TextIOWrapper | None
    _status: TextIOWrapper = field(repr=False)
    returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._wait(0)

    def wait(self, timeout: float = 60) -> int:
        """The exit code. Raises TimeoutError after so many seconds."""
        code = self._wait(timeout)
        if code is None:
            raise TimeoutError(f"process {self.pid} still runs after {timeout} s")
        return code

    def _wait(self, timeout: float) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            self.returncode = int(self._status.read())
            self._status.close()
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """As `os.kill`, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended, and its exit code is on its way
                os.kill(self.pid, number)

    def kill(self) -> None:
        """`kill -9`."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float = 60) -> tuple[str, str]:
        """What it still writes to stdout and stderr until it ends; kills it after so many seconds."""
        streams = [stream for stream in (self.stdout, self.stderr) if stream is not None]
        with ThreadPoolExecutor(len(streams)) as readers:
            rest = [readers.submit(stream.read) for stream in streams]
            try:
                self.wait(timeout)
            finally:
                self.kill()
        for stream in streams:
            stream.close()
        texts = [one.result() for one in rest]
        return texts[0], texts[1] if len(texts) > 1 else ""


class _Server:
    """The process that forks, and the socket to it."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "tests.support.forking.server", str(theirs.fileno())]
            env = os.environ | {"PYTHONPATH": str(ROOT)}
            self.process = subprocess.Popen(command, cwd=ROOT, env=env, pass_fds=[theirs.fileno()])

    def stop(self) -> None:
        self.socket.close()
        self.process.wait(60)


_servers: list[_Server] = []


def start(
    *words: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    merged: bool = False,
    stdin: int | None = None,
) -> ForkedProcess:
    """`stresstest` with these words. merged: stderr goes to stdout. stdin: None for nothing to read."""
    if not _servers:
        _servers.append(_Server())
    wanted = {"words": words, "env": dict(os.environ if env is None else env), "cwd": str(cwd or Path.cwd())}
    with ExitStack() as stack:
        pipes = [os.pipe() for _ in range(2 if merged else 3)]
        for _, write in pipes:
            stack.callback(os.close, write)
        if stdin is None:
            stdin = os.open(os.devnull, os.O_RDONLY)
            stack.callback(os.close, stdin)
        status, out, err = pipes[0][1], pipes[1][1], pipes[-1][1]
        message = json.dumps(wanted).encode()
        connection = _servers[0].socket
        socket.send_fds(connection, [len(message).to_bytes(4)], [stdin, out, err, status])
        connection.sendall(message)
        pid = int.from_bytes(connection.recv(4))
    readers = [TextIOWrapper(BufferedReader(FileIO(read)), encoding="utf-8") for read, _ in pipes]
    return ForkedProcess(pid, readers[1], None if merged else readers[2], readers[0])


def stop_server() -> None:
    """End the fork server, if one was started, and wait for it."""
    while _servers:
        _servers.pop().stop()
