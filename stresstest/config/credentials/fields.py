"""Credentials in the fields of a request: refused before anything is sent, and hidden in what is exported."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

from stresstest.config.credentials.names import (
    is_choice,
    is_credential_field,
    is_credential_header,
    is_labelled,
    is_schema,
    is_schema_secret,
    names_credential,
    names_headers,
)
from stresstest.config.credentials.shapes import announces_credential, is_credential
from stresstest.config.credentials.texts import HIDDEN
from stresstest.config.secrets import remember
from stresstest.errors import UsageError

_LABELS = ("name", "key", "type", "scheme")
"""Fields of an object that name its credential and are none."""
_SCHEMA_VALUES = ("default", "const", "enum", "example", "examples")
"""Keywords of a JSON Schema that hold values: `def search(api_key="…")` becomes a default."""
_PROPERTIES = "properties"
_COMBINED = ("anyOf", "oneOf", "allOf", "items")
"""Keywords of a JSON Schema whose schemas describe the same value."""
_SERVER_ADDRESS = re.compile("(?i)^(server|connector|mcp|webhook)[-_]?(url|uri|endpoint|address)$")
_ADDRESS_FIELD = re.compile("(?i)(url|uri|endpoint)$")
_SERVERS = re.compile("(?i)mcp|server|^tools$|connector|webhook|plugin")
"""Fields below which an address is a tools' server's: ``tools``, ``mcpServers``."""
_PARTS = re.compile(r"[/?#&=]")
_KEY_PART = re.compile(r"(?=[^/]*\d)(?=[^/]*[A-Za-z])[\w.~%+:-]{16,}")
"""A part of a path or query that is a key, as in Zapier's, Firecrawl's and Exa's addresses."""
_ADDRESS = re.compile(r"(?is)^([a-z][a-z0-9+.-]*://)(?:[^/?#]*@)?([^/?#@\\]*).*")

_Path = tuple[str | int, ...]


def refuse_credentials(fields: Mapping[str, Any], where: str) -> None:
    """Raise UsageError for a text that is a credential by its key or its shape, without quoting it."""
    for path, secret in chain(_credentials(fields, ()), _keyed_addresses(fields)):
        remember(secret)
        named = ".".join(map(str, path))
        raise UsageError(
            f"{where} holds what looks like a credential ({named}). What is sent with each request is stored "
            "and shown in reports.",
            hint="Give the server's key with --api-key or OPENAI_API_KEY, which are never stored.",
        )


def without_credentials(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with ``***`` in the place of each text that is a credential by its key or its shape, and of
    a JSON text that holds one. Of the address of a tools' server only the host is kept: the rest holds keys
    (Zapier's, Firecrawl's). The fields are JSON themselves."""
    found: Any = json.loads(json.dumps(fields))
    for path, _ in list(_credentials(found, ())):
        _put(found, path, HIDDEN)
    for path, address in list(_server_addresses(found, ())):
        _put(found, path, _only_host(address))
    hidden: dict[str, Any] = found
    return hidden


def _put(found: Any, path: _Path, text: str) -> None:
    """Set what lies at a path; of JSON that is kept as a text, all of it."""
    for step in path[:-1]:
        if isinstance(found[step], str):
            found[step] = text
            return
        found = found[step]
    found[path[-1]] = text


def _only_host(address: str) -> str:
    found = _ADDRESS.match(address.strip())
    if found is None:
        return HIDDEN
    host = found[1] + found[2]
    return address if address in (host, f"{host}/") else f"{host}/{HIDDEN}"


def _credentials(
    node: Any, path: _Path, *, named: bool = False, described: str = "", valued: bool = False
) -> Iterator[tuple[_Path, str]]:
    """(path, text) of each credential. named: the node stands under a credential's name; described: the
    credential's name, where the node is a JSON Schema of it; valued: a value within one."""
    named = named or (isinstance(node, Mapping) and is_labelled(node))
    headers = bool(path) and isinstance(node, Mapping) and names_headers(str(path[-1]))
    announced = False
    for key, value in _items(node):
        at = (*path, key)
        given = valued or (bool(described) and key in _SCHEMA_VALUES and not isinstance(value, Mapping))
        given = given and not is_choice(node)
        if isinstance(value, str):
            by_name = is_credential_field(str(key), value) or (named and key not in _LABELS) or announced
            by_name = by_name or (headers and is_credential_header(str(key), value))
            announced = isinstance(node, list) and announces_credential(value)
            if value == HIDDEN:
                continue
            if (
                (by_name and value.strip())
                or (given and is_schema_secret(described, value))
                or is_credential(value)
            ):
                yield at, value
            elif value.lstrip().startswith(("{", "[")):
                with suppress(ValueError, RecursionError):
                    yield from _credentials(json.loads(value), at)
        elif isinstance(value, Mapping | list):
            credential = names_credential(str(key))
            schema = is_schema(value)
            within = key in _COMBINED or isinstance(node, list) or _PROPERTIES in at[-2:] or given
            yield from _credentials(
                value,
                at,
                named=named or (credential and not schema),
                described=str(key) if credential and schema else described if within else "",
                valued=given,
            )


def _items(node: Any) -> Iterable[tuple[Any, Any]]:
    return node.items() if isinstance(node, Mapping) else enumerate(node)


def _keyed_addresses(fields: Any) -> Iterator[tuple[_Path, str]]:
    """(path, address) of each server of tools that has a key in its address."""
    for path, address in _server_addresses(fields, ()):
        if any(map(_KEY_PART.fullmatch, _PARTS.split(address.partition("://")[2])[1:])):
            yield path, address


def _server_addresses(node: Any, path: _Path) -> Iterator[tuple[_Path, str]]:
    """(path, address) of each server of tools: a ``server_url``, or a ``url`` below ``tools``."""
    for key, value in _items(node):
        if isinstance(value, Mapping | list):
            yield from _server_addresses(value, (*path, key))
        elif isinstance(value, str) and (
            _SERVER_ADDRESS.search(str(key))
            or (_ADDRESS_FIELD.search(str(key)) and any(_SERVERS.search(str(step)) for step in path))
        ):
            yield (*path, key), value
