"""What of a prompt is new in each request although its question is not: a template adds times and ids."""

from __future__ import annotations

import re

NUMBERED_WORD = re.compile(r"(?<![A-Za-z0-9_.:-])[A-Za-z_.:-]*+[0-9][A-Za-z0-9_.:-]*")
_CLOCK = re.compile(r"[0-9]:[0-9]")
_FIGURES, _ID_FIGURES, _ID_SIGNS = 5, 3, 8
"""A word with five figures is a date, a time since 1970 or a number of a request. With letters, it is an id
where eight signs have three of them; shorter ones may be what a question is about."""


def without_times_and_ids(text: str) -> str:
    """A prompt by which equal questions are equal: ``#`` for each time and each id, by its figures.

    ``21:34:46``, ``2026-11-28T09:00``, ``req-8f3a1``; the 7 of "7 paragraphs" and "RFC 2616" stay.
    """
    return NUMBERED_WORD.sub(_masked, text)


def _masked(found: re.Match[str]) -> str:
    word = found[0]
    figures = sum(sign.isdecimal() for sign in word)
    is_id = figures >= _ID_FIGURES and len(word) >= _ID_SIGNS and any(sign.isalpha() for sign in word)
    return "#" if figures >= _FIGURES or is_id or _CLOCK.search(word) else word


_FILE = re.compile(r"https?://[^\s\"'<>\\]+|[A-Za-z0-9+/=_-]{200,}")
"""The address of a file, or its content in base64."""
_SIGNATURE = re.compile(
    r"(?<=[?&;])(?:x-(?:amz|goog|oss|ms)-[\w-]+|signature|sig|expires|se|st|spr|skoid|sktid|skt|ske|token"
    r"|access_token|policy|key-pair-id|awsaccesskeyid|googleaccessid|ossaccesskeyid|hdnts)=[^&;]*",
    re.IGNORECASE,
)
"""Fields of an address that sign it for a while: S3, GCS, Azure, CloudFront, OSS."""


def steady(beside: str) -> str:
    """The same of what stands beside a prompt, as text or JSON: files are told apart by their content, or by
    their address without its signature."""
    kept: list[str] = []
    end = 0
    for found in _FILE.finditer(beside):
        kept += [without_times_and_ids(beside[end : found.start()]), _SIGNATURE.sub("", found[0])]
        end = found.end()
    return "".join([*kept, without_times_and_ids(beside[end:])])
