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
_NAME = re.compile(r"\b([A-Za-z][\w-]{0,60})['\"]?\s*[:=]\s*\[?['\"]?")
_VALUE = re.compile(r"(?!None\b|null\b|(?i:bearer|basic)\s|\*\*\*)[^\s'\",\])}]{4,}")
"""``'api_key': ['…']``, as vLLM prints its arguments."""
_LONG = "0" * 100
"""A value that is a credential if any is of a field with this name: the real one is then looked at, once."""


def hide_credentials(text: str) -> str:
    """The text with ``***`` for each credential that is known by its shape, or by the name before it."""
    text = _QUERY.sub(rf"\g<1>?{HIDDEN}", _USER.sub(f"{HIDDEN}@", text))
    for pattern in (_HEADER, _BEARER, _ARGUMENT):
        text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    return _KEY.sub(HIDDEN, _without_fields(text))


def _without_fields(text: str) -> str:
    """The text without the values of fields that hold credentials. A value may be a field itself, as in
    ``AuthError: api-key=…``: a name is looked for behind each other one."""
    shown, at = "", 0
    for name in _NAME.finditer(text):
        if name.start() < at or not is_credential_field(name[1], _LONG):
            continue
        value = _VALUE.match(text, name.end())
        if value is not None and is_credential_field(name[1], value[0]):
            shown += f"{text[at : name.end()]}{HIDDEN}"
            at = value.end()
    return shown + text[at:]
