"""JSON text that matches a JSON schema: what a model writes under `response_format`.

Covers what structured outputs are used for: types, enum and const, objects, arrays, bounds, anyOf, oneOf,
allOf, local $ref. Everything is decided by the seed. Optional properties are written half of the time,
and never where a schema that refers to itself would not come to an end.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

_WORDS = (
    "mare", "luna", "porta", "strada", "vento", "libro", "ponte", "sera", "giardino", "finestra", "voce",
)  # fmt: skip
_FORMATS = {
    "date": "2024-05-17",
    "time": "10:30:00Z",
    "date-time": "2024-05-17T10:30:00Z",
    "email": "anna.rossi@example.org",
    "uri": "https://example.org/a",
    "uuid": "3f2b8a4e-9c1d-4e7a-8b6f-0d5c2a1e7f90",
    "ipv4": "192.0.2.10",
}
_DEEP = 6
_TOO_DEEP = 40
_ENDLESS = "the schema refers to itself without an end"
_MOST_PARTS = 20_000
"""Values and words of one text: no model writes more, and a schema of a few bytes may ask for a billion."""
_ANY: Mapping[str, Any] = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["title", "count"],
}


class SchemaError(ValueError):
    """A schema that asks for what is not simulated, or for something that cannot be."""


def json_text(schema: Mapping[str, Any] | bool | None, seed: int) -> str:
    """Compact JSON that matches `schema`; a small object where there is none (json_object).

    Raises SchemaError for `pattern`, remote references and other things that are not simulated.
    """
    found = _ANY if schema is None or schema is True else schema
    if not isinstance(found, Mapping):
        raise SchemaError("no JSON matches this schema")
    try:
        value = _SchemaSampler(found, Random(seed)).value(found, 0)
    except SchemaError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise SchemaError("it is not a valid JSON schema") from None
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


class _SchemaSampler:
    def __init__(self, root: Mapping[str, Any], random: Random) -> None:
        self._root = root
        self._random = random
        self._parts = 0

    def _count(self, parts: int = 1) -> None:
        """Raise SchemaError for more than anybody writes."""
        self._parts += parts
        if self._parts > _MOST_PARTS:
            raise SchemaError(f"it asks for more than {_MOST_PARTS:,} values or words")

    def value(self, schema: Any, depth: int) -> Any:
        """Any JSON value that matches."""
        self._count()
        if depth > _TOO_DEEP:
            raise SchemaError(_ENDLESS)
        if schema is True or schema == {}:
            return self._word()
        if not isinstance(schema, Mapping):
            raise SchemaError("no JSON matches a part of this schema")
        schema = self._resolve(schema, depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._random.choice(list(schema["enum"]))
        match self._type(schema):
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "integer":
                return int(self._number(schema, whole=True))
            case "number":
                return self._number(schema, whole=False)
            case "boolean":
                return self._random.random() < 0.5
            case "null":
                return None
            case _:
                return self._string(schema)

    def _resolve(self, schema: Mapping[str, Any], depth: int) -> Mapping[str, Any]:
        """References, choices and conjunctions taken out."""
        for _ in range(_TOO_DEEP):
            rest = dict(schema)
            if "$ref" in rest:
                schema = {**self._dereference(rest.pop("$ref")), **rest}
            elif "anyOf" in rest or "oneOf" in rest:
                choices = rest.pop("anyOf", None) or rest.pop("oneOf", None) or [True]
                chosen = self._shallowest(choices) if depth >= _DEEP else self._random.choice(list(choices))
                schema = _merged(rest, chosen if isinstance(chosen, Mapping) else {})
            elif "allOf" in rest:
                for part in rest.pop("allOf"):
                    rest = _merged(rest, self._resolve(part, depth) if isinstance(part, Mapping) else {})
                schema = rest
            else:
                return schema
        raise SchemaError(_ENDLESS)

    def _shallowest(self, choices: Sequence[Any]) -> Any:
        """The choice that does not lead deeper, where there is one."""
        simple = [
            c for c in choices if isinstance(c, Mapping) and not {"$ref", "properties", "items"} & c.keys()
        ]
        return simple[0] if simple else choices[0]

    def _dereference(self, reference: Any) -> Mapping[str, Any]:
        if not (isinstance(reference, str) and reference.startswith("#")):
            raise SchemaError("the simulator follows only references inside the schema")
        found: Any = self._root
        for part in reference[1:].strip("/").split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if name:
                found = found.get(name) if isinstance(found, Mapping) else None
        if not isinstance(found, Mapping):
            raise SchemaError("the schema refers to something that it does not hold")
        return found

    def _type(self, schema: Mapping[str, Any]) -> str:
        named = schema.get("type")
        if isinstance(named, str):
            return named
        if isinstance(named, list) and named:
            return str(self._random.choice([name for name in named if name != "null"] or named))
        if "properties" in schema or "required" in schema:
            return "object"
        if "items" in schema or "prefixItems" in schema:
            return "array"
        return "integer" if {"minimum", "maximum"} & schema.keys() else "string"

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties") or {}
        required = list(schema.get("required") or ())
        found: dict[str, Any] = {}
        for name, part in properties.items():
            if name in required or (depth < _DEEP and self._random.random() < 0.5):
                found[name] = self.value(part, depth + 1)
        extra = schema.get("additionalProperties", True)
        missing = [name for name in required if name not in found]
        fewest = int(schema.get("minProperties", 0))
        self._count(max(fewest, 0))
        missing += [f"key{i}" for i in range(1, fewest - len(found) - len(missing) + 1)]
        for name in missing:
            found[name] = self.value(extra, depth + 1)
        return found

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        first = list(schema.get("prefixItems") or ())
        low = int(schema.get("minItems", 0))
        high = int(schema.get("maxItems", max(low, 3)))
        size = low if depth >= _DEEP else self._random.randint(max(low, min(1, high)), max(low, high, 0))
        found = [self.value(part, depth + 1) for part in first[: max(size, low)]]
        seen = [json.dumps(value) for value in found]
        for _ in range(100):
            if len(found) >= size or schema.get("items", True) is False:
                break
            value = self.value(schema.get("items", True), depth + 1)
            if not schema.get("uniqueItems") or json.dumps(value) not in seen:
                found.append(value)
                seen.append(json.dumps(value))
        if len(found) < low:
            raise SchemaError("the schema requires more different elements than there are")
        return found

    def _number(self, schema: Mapping[str, Any], *, whole: bool) -> float:
        step = float(schema.get("multipleOf", 1 if whole else 0.25))
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        if low is None:
            low = 0 if high is None or high > 0 else high - 100 * step
        if high is None:
            high = low + 100 * step
        first, last = math.ceil(low / step), math.floor(high / step)
        first += "exclusiveMinimum" in schema and first * step <= schema["exclusiveMinimum"]
        last -= "exclusiveMaximum" in schema and last * step >= schema["exclusiveMaximum"]
        if first > last:
            if whole or "multipleOf" in schema:
                raise SchemaError("no number lies between the bounds of the schema")
            return float(low + high) / 2
        return self._random.randint(first, last) * step

    def _string(self, schema: Mapping[str, Any]) -> str:
        if "pattern" in schema:
            raise SchemaError("the simulator does not write strings by `pattern`")
        known = _FORMATS.get(schema.get("format", ""))
        if known is not None:
            return known
        low, high = int(schema.get("minLength", 0)), schema.get("maxLength")
        text = self._word()
        while len(text) < low:
            text += " " + self._word()
        return text if high is None else text[: int(high)]

    def _word(self) -> str:
        self._count()
        return self._random.choice(_WORDS)


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Both schemas at once: properties and required names add up, the later wins elsewhere."""
    found = {**one, **other}
    if "properties" in one and "properties" in other:
        found["properties"] = {**one["properties"], **other["properties"]}
    if "required" in one and "required" in other:
        found["required"] = [*one["required"], *other["required"]]
    return found
