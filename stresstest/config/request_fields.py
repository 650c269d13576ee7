"""Fields of a request's body that the user brings: ``--extra-body``, and the bodies of a prompts file.

What is sent is stored, shown in reports and compared by `check`. A credential in a body is therefore refused
before anything is sent, and its value is quoted nowhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

from stresstest.config.secrets import remember
from stresstest.errors import UsageError
from stresstest.model import PARAMETERS
from stresstest.model.address import SIGNING_FIELD

OWN_FIELDS: Mapping[str, str] = {
    "model": "--model",
    "messages": "--prompts",
    "prompt": "--prompts",
    "max_tokens": "--horizon",
    "max_completion_tokens": "--horizon",
    "seed": "--seed",
    **dict.fromkeys(
        (
            *("stream", "stream_options", "n", "best_of", "echo", "ignore_eos", "return_token_ids"),
            *("logprobs", "top_logprobs", "prompt_logprobs", "return_tokens_as_token_ids"),
        ),
        "",
    ),
}
"""Fields that a measurement sets itself, and the option that decides on each; empty where none does."""
_MAX_CHARACTERS = 200_000
_CREDENTIAL_NAME = re.compile(
    r"(?i)(^|[^a-z])(authorization|auth|token|jwt|bearer|secret|pass(w(or)?d)?|passphrase|pwd|cookies?|credentials?"
    r"|api[-_]?key|(access|private|secret|signing)[-_]?key)([^a-z]|$)|[a-z](Secret|Token|Password|Credentials?|ApiKey)$"
)
"""As a part of a name: `aws_secret_access_key`, `hf_token`, `clientSecret`."""
_KEY_NAME = re.compile(r"(?i)(^|[^a-z])key$|[a-z]Key$")
"""Of any other key, only what is as long as one is a credential."""
_KEY_CHARACTERS = 16
HIDDEN = "***"
"""In the place of a credential."""
_PLAIN_NAMES = re.compile(
    r"(?i)^(bos|eos|pad|unk|sep|cls|mask|stop|start|end|image|think\w*)[-_]token$|cache[-_]key$"
)
"""Tokens of a vocabulary, and keys that OpenAI's API takes and that are no secret."""
_CREDENTIAL_VALUE = re.compile(
    r"(?i)^(bearer|basic)\s+\S{8,}|^(authorization|cookie|x-[\w-]*(key|token))\s*:\s*\S{4,}|^sk-[\w-]{16,}|^gh[pousr]_\w{20,}|^eyJ[\w-]+\.eyJ[\w-]+\.|^hf_\w{20,}"
    r"|^github_pat_\w{20,}|^https://hooks\.slack\.com/services/\S{8,}|^lsv2_[ps][tk]_\w{16,}|^fc-[0-9a-f]{20,}"
    r"|^https://(\w+\.)?discord(app)?\.com/api/webhooks/\S{8,}"
    r"|^nvapi-[\w-]{20,}|^gsk_\w{20,}|^r8_\w{20,}|^[sr]k_(live|test)_\w{16,}"
    r"|^AKIA[A-Z0-9]{12,}|^xox[a-z]-[\w-]{10,}|^glpat-[\w-]{16,}|^AIza[\w-]{30,}|^[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@"
    rf"|^[a-z][a-z0-9+.-]*://\S*{SIGNING_FIELD}[^&\s]{{6,}}"
)
"""By its beginning, and in an address: its user information, and what signs it."""
_CONNECTION_PART = re.compile(r"(?:^|[;,\s])\s*([A-Za-z][\w ]{0,40}?)\s*=\s*([^;,\s]+)")
_CONNECTION_SECRET = re.compile(
    r"(?i)^(account|shared ?access|access)[-_ ]?key$|^pass(word|wd|phrase)?$|^pwd$"
)
_LONGEST_CONNECTION = 2_000
_SERVER_ADDRESSES = ("server_url", "connector_url")
_KEY_IN_PATH = re.compile(r"(?=[^/]*\d)(?=[^/]*[A-Za-z])[\w.~-]{16,}")
"""A part of a path that is a key, as in Zapier's and Firecrawl's addresses."""
_ADDRESS = re.compile(r"(?is)^([a-z][a-z0-9+.-]*://)(?:[^/?#]*@)?([^/?#@\\]*).*")
_SCHEMA_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_SCHEMA_KEYS = frozenset({"$ref", "anyOf", "oneOf", "allOf", "enum", "const"})
_SCHEMA_VALUES = ("default", "const", "enum", "example", "examples")
"""Keywords of a JSON Schema that hold values: `def search(api_key="…")` becomes a default."""
_SCHEMA_VALUE = re.compile(r"(?=.*\d)\S{8,}|(?s:-----BEGIN .*)")
"""A credential as a schema's value; a word without a figure is a choice, or stands for one, ..."""
_SECRET_ITSELF = re.compile(
    r"(?i)(^|[^a-z])(pass(w(or)?d|phrase)|pwd|secret|private[-_]?key|credentials?)$|[a-z](Secret|Password|PrivateKey)$"
)
"""... but for a name like these, of which every value is a secret; `password_policy` has other ones."""
_SECRET_CHARACTERS = 8
_PROPERTIES = "properties"
_COMBINED = ("anyOf", "oneOf", "allOf", "items")
"""Keywords of a JSON Schema whose schemas describe the same value."""


def canonical(fields: Mapping[str, Any]) -> str:
    """The fields as JSON that is the same for equal content, whatever the order of their keys."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def parse_extra_body(value: object) -> str:
    """``--extra-body``, as JSON text or as a table of a settings file → canonical JSON.

    Raises UsageError for what is not a JSON object, for fields that are ours or that have an option of their
    own, and for credentials.
    """
    fields = value
    if isinstance(value, str):
        try:
            fields = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"--extra-body is not valid JSON: {error}.", hint=_EXAMPLE) from None
    if not isinstance(fields, dict):
        raise UsageError("--extra-body must be a JSON object.", hint=_EXAMPLE)
    for name in fields:
        option = OWN_FIELDS.get(name) or (_option(name) if name in PARAMETERS else "")
        if option:
            raise UsageError(f"--extra-body cannot set {name!r}: {option} does.")
        if name in OWN_FIELDS:
            raise UsageError(f"--extra-body cannot set {name!r}: a measurement sets it itself.")
    refuse_credentials(fields, "--extra-body")
    try:
        text = canonical(fields)
        text.encode("utf-8")
    except (TypeError, ValueError) as error:
        raise UsageError(f"--extra-body cannot be sent as JSON: {error}.") from None
    if len(text) > _MAX_CHARACTERS:
        raise UsageError(
            f"--extra-body has {len(text):,} characters; at most {_MAX_CHARACTERS:,} are allowed."
        )
    return text


_EXAMPLE = """For example: --extra-body '{"response_format": {"type": "json_object"}}'"""


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def refuse_credentials(fields: Mapping[str, Any], where: str) -> None:
    """Raise UsageError for a text that is a credential by its key or its shape, without quoting it."""
    for path, secret in chain(_credentials(fields, ()), _keyed_addresses(fields, ())):
        remember(secret)
        named = ".".join(map(str, path))
        raise UsageError(
            f"{where} holds what looks like a credential ({named}). What is sent with each request is stored "
            "and shown in reports.",
            hint="Give the server's key with --api-key or OPENAI_API_KEY, which are never stored.",
        )


def without_credentials(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with ``***`` in the place of each text that is a credential by its key or its shape, and of
    a JSON text that holds one. The fields are JSON themselves."""
    found: Any = json.loads(json.dumps(fields))
    for path, _ in list(_credentials(found, ())):
        holder: Any = found
        for step in path[:-1]:
            if isinstance(holder[step], str):  # JSON that is kept as a text
                holder[step] = HIDDEN
                break
            holder = holder[step]
        else:
            holder[path[-1]] = HIDDEN
    plain: dict[str, Any] = _with_plain_addresses(found)
    return plain


def _with_plain_addresses(node: Any) -> Any:
    """Addresses of tools' servers by their hosts alone: the rest holds keys (Zapier's, Firecrawl's)."""
    if isinstance(node, list):
        return list(map(_with_plain_addresses, node))
    if not isinstance(node, dict):
        return node
    return {
        key: _only_host(value)
        if key in _SERVER_ADDRESSES and isinstance(value, str)
        else _with_plain_addresses(value)
        for key, value in node.items()
    }


def _only_host(address: str) -> str:
    found = _ADDRESS.match(address.strip())
    if found is None:
        return HIDDEN
    host = found[1] + found[2]
    return address if address in (host, f"{host}/") else f"{host}/{HIDDEN}"


_Path = tuple[str | int, ...]


def _credentials(
    node: Any, path: _Path, *, named: bool = False, described: str = "", valued: bool = False
) -> Iterator[tuple[_Path, str]]:
    """(path, text) of each credential. named: the node stands under a credential's name; described: the
    credential's name, where the node is a JSON Schema of it; valued: a value within one."""
    if isinstance(node, Mapping):
        items: Iterable[tuple[Any, Any]] = node.items()
        labels = [node.get("name"), node.get("key")]  # {"name": "Authorization", "value": …}
        labelled = any(isinstance(each, str) and _CREDENTIAL_NAME.search(each) for each in labels)
        named = named or (labelled and "value" in node)
    else:
        items = enumerate(node)
    for key, value in items:
        at = (*path, key)
        given = valued or (bool(described) and key in _SCHEMA_VALUES and not isinstance(value, Mapping))
        given = given and not _is_choice(node)
        if isinstance(value, str):
            plain = str(key) in ("name", "key", "type", "scheme")
            secret = _is_secret_name(str(key), value) or (named and not plain)
            if value == HIDDEN:
                continue
            if (
                (secret and value.strip())
                or (given and _is_secret_value(described, value))
                or _CREDENTIAL_VALUE.match(value)
                or _is_connection_string(value)
            ):
                yield at, value
            elif value.lstrip().startswith(("{", "[")):
                with suppress(ValueError, RecursionError):
                    yield from _credentials(json.loads(value), at)
        elif isinstance(value, Mapping | list):
            credential = _names_credential(str(key))
            schema = _is_schema(value)
            within = key in _COMBINED or isinstance(node, list) or _PROPERTIES in at[-2:] or given
            yield from _credentials(
                value,
                at,
                named=named or (credential and not schema),
                described=str(key) if credential and schema else described if within else "",
                valued=given,
            )


def _is_connection_string(value: str) -> bool:
    """Whether a text is the address of a database or the like, a list of names and values, with a secret:
    ``AccountEndpoint=…;AccountKey=…``, ``host=… password=…``."""
    if len(value) > _LONGEST_CONNECTION or "=" not in value:
        return False
    parts = _CONNECTION_PART.findall(value)
    return len(parts) > 1 and any(_CONNECTION_SECRET.search(name) for name, _ in parts)


def _keyed_addresses(node: Any, path: _Path) -> Iterator[tuple[_Path, str]]:
    """(path, address) of each server of tools that has a key in its address."""
    if isinstance(node, Mapping | list):
        for key, value in node.items() if isinstance(node, Mapping) else enumerate(node):
            if key not in _SERVER_ADDRESSES or not isinstance(value, str):
                yield from _keyed_addresses(value, (*path, key))
            elif any(map(_KEY_IN_PATH.fullmatch, value.partition("://")[2].split("/")[1:])):
                yield (*path, key), value


def _is_secret_value(name: str, value: str) -> bool:
    """Whether a schema's value is a credential. name: of what the schema describes."""
    if _SCHEMA_VALUE.fullmatch(value):
        return True
    return bool(_SECRET_ITSELF.search(name)) and len(value) >= _SECRET_CHARACTERS


def _names_credential(key: str) -> bool:
    return bool(_CREDENTIAL_NAME.search(key)) and not _PLAIN_NAMES.search(key)


def _is_choice(schema: Any) -> bool:
    """Whether a schema names several values: a kind of token, of authorization."""
    values = schema.get("enum") if isinstance(schema, Mapping) else None
    return isinstance(values, list) and len(values) > 1


def _is_schema(value: Any) -> bool:
    """Whether a JSON Schema describes a value, instead of one that is there."""
    if not isinstance(value, Mapping):
        return False
    given = value.get("type")
    return not _SCHEMA_KEYS.isdisjoint(value) or isinstance(given, list) or given in _SCHEMA_TYPES


def _is_secret_name(key: str, value: str) -> bool:
    if _names_credential(key):
        return True
    if _PLAIN_NAMES.search(key):
        return False
    return bool(_KEY_NAME.search(key)) and len(value) >= _KEY_CHARACTERS and " " not in value
