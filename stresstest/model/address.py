"""Addresses without the credentials that travel in them."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

_USERINFO = re.compile(r"(?<=://)[^/\s@]*@")


def clean_url(url: str) -> str:
    """The address without userinfo, query and fragment, where credentials travel."""
    try:
        parts = urlsplit(url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    except ValueError:
        return without_userinfo(url).partition("?")[0]


def without_userinfo(text: str) -> str:
    """Text in which no address names a user or a password."""
    return _USERINFO.sub("", text)
