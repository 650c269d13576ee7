"""Spans and log records as plain objects: out of a collector's OTLP JSON, and as the SDKs print them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from stresstest.records.formats.json_values import as_object, objects, structure_in

_WRITTEN = re.compile(
    r'\s{0,9}\[?\s{0,9}\{\s{0,9}"(?:role|content|parts|finish_reason|index|message|messages|choices|generations|id|model'
    r'|arguments|type|object|text|output|tool_calls|call_id|name|created|usage|lc)"'
)
"""How messages, items and bodies begin."""
_EXPORTS = (
    ("resourceSpans", ("scopeSpans", "instrumentationLibrarySpans"), "spans"),
    ("resourceLogs", ("scopeLogs",), "logRecords"),
)
"""Keys of an export's resources, of the scopes of a resource, and of what a scope holds."""
_LIBRARIES = ("scope", "instrumentationLibrary")


def is_export(row: Mapping[str, Any]) -> bool:
    """Whether a row is a collector's export of spans or logs."""
    return any(isinstance(row.get(key), list) for key, *_ in _EXPORTS)


def spans(row: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """The spans and log records of an export, in order, each with the service and the library that wrote it;
    of a row that is none, itself."""
    if not is_export(row):
        yield row, _service(row)
        return
    for key, scopes, held in _EXPORTS:
        for resource in objects(row.get(key)):
            for scope in objects(first(resource, scopes)):
                library = as_object(first(scope, _LIBRARIES)).get("name", "")
                writer = f"{_service(resource)} {library}"
                yield from ((span, writer) for span in objects(scope.get(held)))


def _service(holder: Mapping[str, Any]) -> str:
    """The name of the service that a resource describes; empty where it has none."""
    return str(attributes(as_object(holder.get("resource")).get("attributes")).get("service.name", ""))


def attributes(given: Any) -> dict[str, Any]:
    """Attributes as a plain dict, from OTLP's list of typed values or the SDK's object."""
    if isinstance(given, dict):
        return {str(key): value for key, value in given.items()}
    return {str(each.get("key")): plain(each.get("value")) for each in objects(given)}


def plain(value: Any) -> Any:
    """OTLP's AnyValue: int64 comes as a string, arrays and maps nest."""
    if not isinstance(value, dict) or not value:
        return value
    kind, inner = next(iter(value.items()))
    if kind == "intValue":
        return int(inner) if str(inner).lstrip("-").isdecimal() else None
    if kind == "arrayValue":
        return [plain(each) for each in objects(as_object(inner).get("values"))]
    if kind == "kvlistValue":
        return attributes(as_object(inner).get("values"))
    return inner if kind.endswith("Value") else value


def seconds(value: Any) -> Any:
    """OTLP's nanoseconds (a number, or digits in a string) as seconds; ISO 8601 stays as it is."""
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    return value / 1e9 if isinstance(value, int) and not isinstance(value, bool) else value


def structure(value: Any) -> Any:
    """What is given as JSON text, decoded; anything else as it is."""
    found = structure_in(value) if isinstance(value, str) else None
    return value if found is None else found


def is_cut(value: Any) -> bool:
    """Whether this is the beginning of JSON as tracers write it: SDKs and stores cut attributes at a length
    (`OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT`). What a model writes as JSON may be cut as well, by its cap."""
    if not isinstance(value, str) or _WRITTEN.match(value) is None:
        return False
    try:
        msgspec.json.decode(value.encode("utf-8", "replace"))
    except msgspec.DecodeError as error:
        return "truncated" in str(error)  # and not another text behind it
    except RecursionError:
        return False
    return False


def first(found: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    """The value of the first of the keys that has one."""
    return next((found[key] for key in keys if found.get(key) is not None), None)
