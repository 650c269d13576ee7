"""A port of this machine on which nobody listens, and nobody can while a test uses it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def deaf_port() -> Iterator[int]:
    """Connections to the port are refused. A port that is only free may be another test's a moment later."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]
