"""Credentials within the text of others, such as a server's log: hidden before it is shown."""

from __future__ import annotations

import re

from stresstest.config.credentials.names import is_credential_field
from stresstest.config.credentials.shapes import ARGUMENT_NAME, HEADER_NAME, TOKEN

HIDDEN = "***"
"""In the place of a credential."""
_USER = re.compile(r"(?i)(?<=://)[^/\s@'\"]{1,300}@")
_QUERY = re.compile(r"(/[^\s'\"<>?#]{0,500}+)\?(?=[\w.~%\[\]-]{1,100}=)[^\s'\"<>]+")
"""Of an address or a path, as clients and gateways quote their upstream's: any field may be its key."""
_KEY = re.compile(rf"(?:{TOKEN.pattern})[\w.=-]*")
_HEADER = re.compile(
    rf"(?i)(\b(?:{HEADER_NAME})['\"]?\s*[:=]\s*(?:b?['\"])?(?:(?:bearer|basic|token)\s+)?)[^\s'\",]+"
)
_BEARER = re.compile(r"(?i)\b(bearer\s+)[^\s'\",]{8,}")
_ARGUMENT = re.compile(rf"(?i)((?<![\w-]){ARGUMENT_NAME}(?:=|\s+)['\"]?)[^\s'\"]+")
_FIELD = re.compile(
    r"\b([A-Za-z][\w-]{0,60})(['\"]?\s*[:=]\s*\[?['\"]?)(?!None\b|null\b|(?i:bearer|basic)\s|\*\*\*)([^\s'\",\])}]{4,})"
)
"""``'api_key': ['…']``, as vLLM prints its arguments."""


def hide_credentials(text: str) -> str:
    """The text with ``***`` for each credential that is known by its shape, or by the name before it."""
    text = _QUERY.sub(rf"\g<1>?{HIDDEN}", _USER.sub(f"{HIDDEN}@", text))
    for pattern in (_HEADER, _BEARER, _ARGUMENT):
        text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    text = _FIELD.sub(_hidden_field, text)
    return _KEY.sub(HIDDEN, text)


def _hidden_field(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}{HIDDEN}" if is_credential_field(found[1], found[3]) else found[0]
