"""Names of fields whose values are credentials, and JSON Schemas that describe such a field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_CREDENTIAL = re.compile(
    r"(?i)(^|[^a-z])(authorization|auth|token|jwt|bearer|secret|pass(w(or)?d)?|passphrase|pwd|cookies?|credentials?"
    r"|api[-_]?key|(access|private|secret|signing)[-_]?key)([^a-z]|$)|[a-z](Secret|Token|Password|Credentials?|ApiKey)$"
)
"""As a part of a name: `aws_secret_access_key`, `hf_token`, `clientSecret`."""
_KEY = re.compile(r"(?i)(^|[^a-z])(key|pat)$|[a-z]Key$")
"""Of any other key, and of a personal access token, only what is as long as one is a credential."""
_KEY_CHARACTERS = 16
_PLAIN = re.compile(
    r"(?i)^(bos|eos|pad|unk|sep|cls|mask|stop|start|end|image|think\w*)[-_]token$|cache[-_]key$"
)
"""Tokens of a vocabulary, and keys that OpenAI's API takes and that are no secret."""
_HEADERS = re.compile(r"(?i)headers?$")
_PLAIN_HEADER = re.compile(
    r"(?i)^(content|accept|user-agent|referer|http-referer|origin|host|trace|x-title)|version|beta"
    r"|(request|correlation|trace)-id$"
)
_OPAQUE = re.compile(r"(?=\S*\d)\S{12,}")
"""What a header that nobody knows may hold as a key."""
_SECRET_ITSELF = re.compile(
    r"(?i)(^|[^a-z])(pass(w(or)?d|phrase)|pwd|secret|private[-_]?key|credentials?)$|[a-z](Secret|Password|PrivateKey)$"
)
"""Names of which every value is a secret; `password_policy` has other ones."""
_SECRET_CHARACTERS = 8
_SCHEMA_VALUE = re.compile(r"(?=.*\d)\S{8,}|(?s:-----BEGIN .*)")
"""A credential as a schema's value; a word without a figure is a choice, or stands for one."""
_SCHEMA_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_SCHEMA_KEYS = frozenset({"$ref", "anyOf", "oneOf", "allOf", "enum", "const"})


def names_credential(key: str) -> bool:
    """Whether a field of this name holds a credential, whatever its value."""
    return bool(_CREDENTIAL.search(key)) and not _PLAIN.search(key)


def is_credential_field(key: str, value: str) -> bool:
    """Whether a text is a credential by its field's name."""
    if names_credential(key):
        return True
    if _PLAIN.search(key):
        return False
    return bool(_KEY.search(key)) and len(value) >= _KEY_CHARACTERS and " " not in value


def names_headers(key: str) -> bool:
    """Whether a field holds HTTP headers: ``headers``, ``extra_headers``."""
    return bool(_HEADERS.search(key))


def is_credential_header(name: str, value: str) -> bool:
    """Whether a header's value may be a credential: all but that of known plain headers, if it is opaque."""
    if _PLAIN_HEADER.search(name):
        return False
    return name.casefold() == "authentication" or bool(_OPAQUE.fullmatch(value))


def is_labelled(node: Mapping[str, Any]) -> bool:
    """Whether an object names a credential beside its value: ``{"name": "Authorization", "value": …}``."""
    labels = (node.get("name"), node.get("key"))
    return "value" in node and any(isinstance(each, str) and _CREDENTIAL.search(each) for each in labels)


def is_schema(value: Any) -> bool:
    """Whether a JSON Schema describes a value, instead of one that is there."""
    if not isinstance(value, Mapping):
        return False
    given = value.get("type")
    return not _SCHEMA_KEYS.isdisjoint(value) or isinstance(given, list) or given in _SCHEMA_TYPES


def is_choice(schema: Any) -> bool:
    """Whether a schema names several values: a kind of token, of authorization."""
    values = schema.get("enum") if isinstance(schema, Mapping) else None
    return isinstance(values, list) and len(values) > 1


def is_schema_secret(name: str, value: str) -> bool:
    """Whether a schema's default, example or constant is a credential. name: of what the schema describes."""
    if _SCHEMA_VALUE.fullmatch(value):
        return True
    return bool(_SECRET_ITSELF.search(name)) and len(value) >= _SECRET_CHARACTERS
