"""Where the server is, and what must never be shown of how we reach it.

A base URL may carry a password, and a server may quote an API key back in its error text. Both are
taken out here, once, so that no message further up can leak them.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from stresstest.errors import UsageError

PLACEHOLDER_KEY = "EMPTY"
_MAX_TEXT = 300


@dataclass(frozen=True, slots=True)
class Address:
    """A server's address without credentials.

    base_url: as shown and sent, no userinfo, query or trailing slash. root: the server's root, where
    /version, /metrics and /tokenize live. authorization: Basic header from the URL's userinfo.
    """

    base_url: str
    root: str
    authorization: str | None = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def parse(cls, base_url: str, api_key: str | None) -> Address:
        """Read the user's URL and key. Raises UsageError for what cannot be a URL or a header."""
        try:
            parts = urlsplit(base_url.strip())
            host, port = parts.hostname, parts.port
        except ValueError:
            parts, host, port = urlsplit(""), None, None
        if parts.scheme not in ("http", "https") or not host:
            raise UsageError(
                "The base URL is not an http:// or https:// address.",
                hint="It looks like http://localhost:8000/v1",
            )
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise UsageError("The API key holds characters that cannot be sent in a header.")
        shown_host = f"[{host}]" if ":" in host else host
        netloc = f"{shown_host}:{port}" if port else shown_host
        path = parts.path.rstrip("/") or "/v1"
        root_path = path[: -len("/v1")] if path.endswith("/v1") else path
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        basic = base64.b64encode(f"{user}:{password}".encode()).decode() if user or password else None
        given = [api_key or "", password, quote(password, safe=""), basic or "", user if basic else ""]
        secrets = {s for s in given if s and s != PLACEHOLDER_KEY}
        return cls(
            base_url=urlunsplit((parts.scheme, netloc, path, "", "")),
            root=urlunsplit((parts.scheme, netloc, root_path, "", "")),
            authorization=f"Basic {basic}" if basic and not api_key else None,
            secrets=tuple(sorted(secrets, key=len, reverse=True)),
        )

    def clean(self, text: str) -> str:
        """Server text made fit to show: one line of at most 300 characters, no secrets, no controls."""
        visible = "".join(c if c.isprintable() else " " for c in text)
        for secret in self.secrets:
            visible = visible.replace(secret, "***")
        visible = " ".join(visible.split())
        return visible if len(visible) <= _MAX_TEXT else visible[: _MAX_TEXT - 1] + "…"
