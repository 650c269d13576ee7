"""Commands that listen: their `--host`, and why they cannot."""

from __future__ import annotations

import errno

from stresstest.errors import UsageError


def checked_host(host: str) -> str:
    """The host. Raises UsageError for what no name can be."""
    try:
        host.encode("idna")
    except UnicodeError:
        raise UsageError(f"--host {host[:80]!r} is no address or name to listen on.") from None
    return host


def cannot_listen(error: OSError, who: str, host: str, port: int) -> UsageError:
    """What the user is told. who: "The guard"."""
    if error.errno == errno.EADDRINUSE:
        return UsageError(
            f"Port {port} on {host} is in use.", hint="Choose another with --port; 0 selects a free one."
        )
    return UsageError(f"{who} cannot listen on {host}:{port}: {error.strerror or error}.")
