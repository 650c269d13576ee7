"""Commands that listen: their `--host`, and why they cannot."""

from __future__ import annotations

import asyncio
import contextlib
import errno

from stresstest.errors import UsageError

_CONNECT_SECONDS = 1.0


def checked_host(host: str) -> str:
    """The host. Raises UsageError for what no name can be."""
    try:
        host.encode("idna")
    except UnicodeError:
        raise UsageError(f"--host {host[:80]!r} is no address or name to listen on.") from None
    return host


async def listens(host: str, port: int) -> bool:
    """Whether somebody answers at this address already; False for port 0, which chooses a free one."""
    if not port:
        return False
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
        writer.close()
        return True
    return False


def cannot_listen(error: OSError, who: str, host: str, port: int) -> UsageError:
    """What the user is told. who: "The guard"."""
    if error.errno == errno.EADDRINUSE:
        return UsageError(
            f"Port {port} on {host} is in use.", hint="Choose another with --port; 0 selects a free one."
        )
    return UsageError(f"{who} cannot listen on {host}:{port}: {error.strerror or error}.")
