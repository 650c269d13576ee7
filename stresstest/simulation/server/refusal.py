"""How vLLM says no: error bodies and the two dialects of its validation."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

_TYPES = {400: "BadRequestError", 404: "NotFoundError", 500: "InternalServerError"}
_AT = re.compile(r"^(?P<said>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)
_MISSING = re.compile(r"missing required field `(\w+)`")


class RequestRejected(Exception):
    """An answer with an error body. kind: the error's `type`, by default the one of the status."""

    def __init__(self, status: int, message: str, param: str | None = None, kind: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.kind = kind or _TYPES.get(status, "InternalServerError")

    def body(self) -> bytes:
        """The JSON of the answer."""
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}
        return msgspec.json.encode({"error": error})


def out_of_range(message: str, param: str | None = None) -> RequestRejected:
    """A parameter that was read and is out of its range."""
    return RequestRejected(400, message, param)


def malformed(what: str, path: str, said: str, given: object = None) -> RequestRejected:
    """A body that does not have the form of a request, in pydantic's words. path: "body.messages"."""
    shown = f"<dict of {len(given)} items>" if isinstance(given, dict) else repr(given)
    detail = f"{{'type': {what!r}, 'loc': {path!r}, 'msg': {said!r}, 'input': {shown!r}}}"
    return RequestRejected(400, f"1 validation error:\n  {detail}", path, "Bad Request")


def unsupported_media() -> RequestRejected:
    """A body that does not say that it is JSON."""
    said = "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"
    return RequestRejected(400, said, None, "Bad Request")


def decode_json_body(raw: bytes, content_type: str) -> dict[str, Any]:
    """The body's JSON object. Raises RequestRejected."""
    if content_type != "application/json":
        raise unsupported_media()
    if not raw:
        raise malformed("missing", "body", "Field required")
    try:
        found = json.loads(raw)
    except json.JSONDecodeError as error:
        raise malformed("json_invalid", f"body.{error.pos}", "JSON decode error", {}) from None
    except (ValueError, RecursionError):  # not UTF-8, or a number of 5,000 digits
        raise malformed("json_invalid", "body.0", "JSON decode error", {}) from None
    if not isinstance(found, dict):
        said = "Input should be a valid dictionary or object to extract fields from"
        raise malformed("model_attributes_type", "body", said, found)
    return found


def from_msgspec(error: msgspec.ValidationError, given: dict[str, Any]) -> RequestRejected:
    """A field of the wrong type or a missing one, as pydantic would say it."""
    found = _AT.match(str(error))
    said, path = (found["said"], found["path"] or "$") if found else (str(error), "$")
    place = "body" + path.removeprefix("$").replace("[...]", "").replace("[", ".").replace("]", "")
    missing = _MISSING.search(said)
    if missing:
        return malformed("missing", f"{place}.{missing[1]}", "Field required", given)
    return malformed("type_error", place, said.replace("`", ""), None)
