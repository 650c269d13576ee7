"""Addresses without the credentials that travel in them."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

_USERINFO = re.compile(r"(://)[^/\s@]*@")
USER = (
    r"(?i)(https?:/{1,2}|(?:(?:https?|postgres(?:ql)?(?:\+\w+)?)|:)/{1,2}(?=[^/\s@:]*:))"
    r"([^/\s@:]*:(?!\d{1,5}/)\S{0,300}|[^/\s@]*)@"
)
"""What stands before a user, and the user with the password: of any address with a password, and of HTTP,
where a user alone may be a token. An address that became a path has one slash of two, or lacks its colon;
`abfs://container@account` has no password. One that nobody encoded may hold "@" and "/"; behind a port and a
slash there is none."""
_USER = re.compile(USER)


def clean_url(url: str) -> str:
    """The address without userinfo, query and fragment, where credentials travel."""
    try:
        parts = urlsplit(url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    except ValueError:
        return without_userinfo(url).partition("?")[0]


def without_userinfo(text: str) -> str:
    """Text in which no address names a user or a password."""
    return _USERINFO.sub(r"\1", text)


SIGNING_FIELD = (
    r"[?&#;](?:[\w.-]*(?:key|token|secret|pass|passw(?:or)?d|pwd|sig|signature|credential|auth|jwt"
    r"|session(?:_?id)?)|code|par|sid)="
)
"""A field of an address that lets its holder in, whatever the case of its letters. code: of a function in
Azure; par: of an object in Oracle's cloud."""
_SIGNED = re.compile(rf"(?i)({SIGNING_FIELD})[^&\s'\"]+")


def without_secrets(text: str) -> str:
    """Text in which no address holds a password, and what signs one is an ellipsis."""
    return _SIGNED.sub(r"\1…", _USER.sub(r"\1", text)) if "/" in text else text
