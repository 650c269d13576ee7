"""The server's address, and redaction of the credentials used to reach it.

A base URL may contain a password, and a server may quote an API key in its error text. Both are
removed here, so that no message can leak them.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from stresstest.config.credentials.echoes import LEAST, hide_echoes, hide_in_tokens
from stresstest.config.credentials.paths import refuse_key_in_path
from stresstest.config.credentials.texts import hide_credentials
from stresstest.config.secrets import remember, spellings
from stresstest.errors import UsageError
from stresstest.model import GenerationVerdict, Token

PLACEHOLDER_KEY = "EMPTY"
_MAX_TEXT, _MOST_READ = 300, 4_000
_MAX_URL = 8_000


def _is_host_name(host: str) -> bool:
    """Whether the client can encode a host (IDNA 2008). Of ASCII, it takes anything."""
    if host.isascii() and "xn--" not in host:
        return True
    from httpx2 import URL, InvalidURL

    try:
        URL(f"http://{host}")
    except InvalidURL:
        return False
    return True


@dataclass(frozen=True, slots=True)
class EndpointAddress:
    """A server's address, separated from its credentials.

    base_url: used for requests and messages; no userinfo, query or trailing slash. root: the server's
    root, with /version, /metrics and /tokenize. authorization: Basic header from the URL's userinfo.
    secrets: strings that `redact` removes, longest first.
    """

    base_url: str
    root: str
    authorization: str | None = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def parse(cls, base_url: str, api_key: str | None) -> EndpointAddress:
        """Parse the user's URL. Raises UsageError for an invalid URL, a key in its path, or one that no
        header can hold."""
        try:
            parts = urlsplit(base_url.strip())
            host, port = parts.hostname, parts.port
        except ValueError:
            parts, host, port = urlsplit(""), None, None
        if len(base_url) > _MAX_URL:
            raise UsageError(f"The base URL has {len(base_url):,} characters; {_MAX_URL:,} are the most.")
        if parts.scheme not in ("http", "https") or not host or not base_url.strip().isprintable():
            raise UsageError(
                "The base URL is not an http:// or https:// address.",
                hint="Example: http://localhost:8000/v1",
            )
        if not _is_host_name(host):
            raise UsageError(
                f"The base URL's host {host!r} is not a host name.",
                hint="A text editor may have replaced a hyphen in it by a dash, or put quotes around it.",
            )
        refuse_key_in_path(base_url, "The base URL")
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise UsageError("The API key holds characters that cannot be sent in a header.")
        shown_host = f"[{host}]" if ":" in host else host
        netloc = f"{shown_host}:{port}" if port else shown_host
        path = parts.path.rstrip("/") or "/v1"
        root_path = path[: -len("/v1")] if path.endswith("/v1") else path
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        basic = base64.b64encode(f"{user}:{password}".encode()).decode() if user or password else None
        secrets = {s for s in (api_key, password, basic, user if basic else None) if s} - {PLACEHOLDER_KEY}
        for secret in secrets:
            remember(secret)
        quoted = {spelling for secret in secrets for spelling in spellings(secret)}
        return cls(
            base_url=urlunsplit((parts.scheme, netloc, path, "", "")),
            root=urlunsplit((parts.scheme, netloc, root_path, "", "")),
            authorization=f"Basic {basic}" if basic and not api_key else None,
            secrets=tuple(sorted(quoted, key=len, reverse=True)),
        )

    def hide_secrets(self, text: str) -> str:
        """Server text that is kept, such as a path: as it is, but for secrets."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text

    def hide_parts(self, text: str) -> str:
        """The same of a short text that may have been cut within a secret."""
        return hide_echoes(self.hide_secrets(text), self.secrets)

    def is_echoed(self, text: str) -> bool:
        """Whether server text holds a secret. Short ones, which it may hold by chance, do not count."""
        return any(secret in text for secret in self.secrets if len(secret) >= LEAST)

    def hide_in_tokens(self, tokens: Sequence[Token]) -> Sequence[Token]:
        """Tokens of an answer, ``***`` in the place of a secret that the server has echoed in its text.

        Short ones, which an answer may hold by chance, stay.
        """
        return hide_in_tokens(tokens, self.secrets) if self.secrets else tokens

    def hide_in_verdict(self, verdict: GenerationVerdict) -> GenerationVerdict:
        """The verdict on such an answer: what its symptoms quote may begin or end within a secret."""
        if not self.secrets or not verdict.symptoms:
            return verdict

        def shown(value: Any) -> Any:
            if isinstance(value, list):
                return [shown(each) for each in value]
            return hide_echoes(value, self.secrets) if isinstance(value, str) else value

        return replace(
            verdict,
            symptoms=tuple(
                replace(
                    each,
                    summary=shown(each.summary),
                    detail={name: shown(value) for name, value in each.detail.items()},
                )
                for each in verdict.symptoms
            ),
        )

    def redact(self, text: str) -> str:
        """Server text for messages: one line, at most 300 characters, no secrets or control characters.

        The server's own secrets, such as the password of a proxy that it could not reach, are hidden too.
        """
        visible = self.hide_secrets("".join(c if c.isprintable() else " " for c in text))
        visible = hide_credentials(" ".join(visible[:_MOST_READ].split()))
        return visible if len(visible) <= _MAX_TEXT else visible[: _MAX_TEXT - 1] + "…"
