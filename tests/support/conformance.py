"""The wire as vLLM speaks it: requests sent to a server, and the shapes of what it answers.

`tests/data/conformance/requests.json` holds the requests, `vllm_0_32.json` what vLLM answered, trimmed:
of lists two elements, of a stream one event of each run of events of one shape. Two servers conform when
the shapes agree: status, content type, keys, types, null or absent, the order of a stream's events, and
the words that mean something (object, role, finish_reason, error types).
Recorded anew with `python -m tests.support.conformance --base-url http://127.0.0.1:8000`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.paths import DATA

FOLDER = DATA / "conformance"
REQUESTS = FOLDER / "requests.json"
RECORDED = FOLDER / "vllm_0_32.json"
TELLING = frozenset({"object", "role", "finish_reason", "type", "code", "param"})
"""Keys whose value is part of the shape."""
_KEPT = 2
_TIMEOUT = 60
_SERIES = re.compile(r"^(vllm:\w+?)(?:\{(.*)\})? \S+$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_VALUES_KEPT = frozenset({"finished_reason", "le", "reason", "source", "position"})


@dataclass(frozen=True)
class Call:
    """One request. reference: body fields that only the reference gets, to bring its model to do the same."""

    name: str
    path: str
    method: str = "POST"
    body: Any = None
    raw: str | None = None
    content_type: str = "application/json"
    reference: Mapping[str, Any] | None = None

    def payload(self, *, to_reference: bool) -> bytes | None:
        if self.raw is not None:
            return self.raw.encode()
        if self.body is None:
            return None
        extra = (self.reference or {}) if to_reference else {}
        return json.dumps({**self.body, **extra} if extra else self.body).encode()


def calls() -> list[Call]:
    """The requests of the data file. A body's "$base" names a fragment it extends; {"$ids": n} is n ids."""
    data = json.loads(REQUESTS.read_text("utf-8"))
    return [
        Call(**{**entry, "body": _expand(entry.get("body"), data["fragments"])}) for entry in data["calls"]
    ]


def _expand(body: Any, fragments: Mapping[str, Any]) -> Any:
    if isinstance(body, dict):
        if "$ids" in body:
            return [300] * int(body["$ids"])
        rest = {k: _expand(v, fragments) for k, v in body.items() if k != "$base"}
        return {**_expand(fragments[body["$base"]], fragments), **rest} if "$base" in body else rest
    return [_expand(v, fragments) for v in body] if isinstance(body, list) else body


def ask(root: str, call: Call, *, to_reference: bool = False) -> dict[str, Any]:
    """Send one request; the answer, trimmed: {"status", "content_type", "json" | "events" | "text"}."""
    parts = urlsplit(root)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=_TIMEOUT)
    try:
        payload = call.payload(to_reference=to_reference)
        headers = {"Content-Type": call.content_type} if payload is not None else {}
        connection.request(call.method, call.path, payload, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    found: dict[str, Any] = {"status": answer.status, "content_type": answer.getheader("content-type")}
    if "event-stream" in (found["content_type"] or ""):
        found["events"] = _runs(events(text))
    elif "json" in (found["content_type"] or ""):
        found["json"] = trimmed(json.loads(text))
    elif call.path == "/metrics":
        found["families"] = families(text)
    else:
        found["text"] = text
    return found


def events(text: str) -> list[Any]:
    """The payloads of a stream. Every event must be one data line and an empty line, as vLLM sends them."""
    blocks = text.split("\n\n")
    assert blocks.pop() == "", "the stream does not end with an empty line"
    assert all(b.startswith("data: ") and "\n" not in b for b in blocks), blocks
    return [b[6:] if b == "data: [DONE]" else json.loads(b[6:]) for b in blocks]


def _runs(payloads: Sequence[Any]) -> list[Any]:
    """One trimmed event of each run of events of one shape; choices one after another, not as they mixed."""
    kept: list[Any] = []
    for payload in sorted(payloads, key=_place):
        small = payload if isinstance(payload, str) else trimmed(payload)
        if not kept or shape(kept[-1]) != shape(small):
            kept.append(small)
    return kept


def _place(payload: Any) -> int:
    if isinstance(payload, str):
        return 1_000
    choices = payload.get("choices")
    return choices[0]["index"] if choices else 999


def trimmed(value: Any, key: str = "") -> Any:
    """The value with two elements of each list, two entries of each token table, and short texts."""
    if isinstance(value, dict):
        items = list(value.items())[:_KEPT] if _is_table(value) else list(value.items())
        return {k: trimmed(v, k) for k, v in items}
    if isinstance(value, list):
        return [trimmed(v, key) for v in value[:_KEPT]]
    if key == "root" and isinstance(value, str):
        return value.rsplit("/", 1)[-1]  # a path of the recording machine
    return value[:160] if isinstance(value, str) and key not in TELLING else value


def _is_table(value: Mapping[str, Any]) -> bool:
    """Token → logprob tables have texts for keys: of a table only the kind of its values counts."""
    return bool(value) and all(isinstance(v, float) for v in value.values())


def shape(value: Any, key: str = "") -> Any:
    """Types and keys of a JSON value, and the values of telling keys."""
    if isinstance(value, dict):
        if _is_table(value):
            return {"*": "float"}
        return {k: shape(v, k) for k, v in sorted(value.items())}
    if isinstance(value, list):
        kinds: list[Any] = []
        for element in value:
            kind = shape(element, key)
            if kind not in kinds:
                kinds.append(kind)
        return kinds
    if key in TELLING and isinstance(value, str):
        return f"={value}"
    return "null" if value is None else type(value).__name__


def answer_shape(answer: Mapping[str, Any]) -> dict[str, Any]:
    """What two answers must have in common."""
    found: dict[str, Any] = {"status": answer["status"], "content_type": answer["content_type"]}
    if "json" in answer:
        found["json"] = shape(answer["json"])
    if "events" in answer:
        found["events"] = [e if isinstance(e, str) else shape(e) for e in answer["events"]]
    if "text" in answer:
        found["text"] = answer["text"]
    return found


def families(page: str) -> dict[str, Any]:
    """vLLM's metric families: {name: {"type", "series": {sample name: {label: values}}}}.

    Values are kept for the labels that mean the same everywhere (bucket bounds, finish reasons).
    """
    types: dict[str, str] = {}
    found: dict[str, Any] = {}
    for line in page.splitlines():
        if line.startswith("# TYPE vllm:"):
            _, _, name, kind = line.split(" ")
            types[name] = kind
            found[name] = {"type": kind, "series": {}}
            family = name
        elif match := _SERIES.match(line):
            labels = found[family]["series"].setdefault(match[1], {})
            for label, value in _LABEL.findall(match[2] or ""):
                kept = labels.setdefault(label, [])
                if label in _VALUES_KEPT and value not in kept:
                    kept.append(value)
    return found


def record(root: str, *, to_reference: bool = True) -> dict[str, Any]:
    """All answers of a server by the name of the request."""
    return {call.name: ask(root, call, to_reference=to_reference) for call in calls()}


def recorded() -> dict[str, Any]:
    """What vLLM 0.32 answered."""
    found: dict[str, Any] = json.loads(RECORDED.read_text("utf-8"))
    return found


def write(path: Path, answers: Mapping[str, Any]) -> None:
    """One answer a line, so that a difference between two recordings can be read."""
    lines = [
        f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False, separators=(',', ':'))}"
        for k, v in answers.items()
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def main() -> None:
    """Record a running server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--base-url", default="http://127.0.0.1:8000")
    parser.add_argument("--out", type=Path, default=RECORDED)
    args = parser.parse_args()
    write(args.out, record(args.base_url.removesuffix("/v1")))


if __name__ == "__main__":
    main()
