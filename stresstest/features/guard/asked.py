"""What a request asks for, as far as the guard must know it; and its body with something changed."""

from __future__ import annotations

import json
import math
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from stresstest.features.guard.metrics import OTHER
from stresstest.records.formats.asked import count_prompts, prompt_text, requested_text

MAX_PROMPT_CHARS = 64 * 1024
"""Characters of a prompt that the detectors are given: its last ones."""
MAX_ITEMS = 100_000
"""Commas, lists and objects of a body beyond which its prompt is not decoded: 60 MB of `[],` take a minute
and 2 GB."""
MAX_DECODED = 16 * 1024 * 1024
"""Bytes of a body beyond which its prompt is not decoded either: one emoji makes Python take four bytes for a
character of a text, and the prompt's text is put together more than once."""
_TRUE = ("true", "1", "1.0", "t", "y", "yes", "on")
_MAX_OTHER = 1024 * 1024
"""Bytes of a body with very many items beside its prompt, and of any field of a large one that is decoded."""
_INVOCATIONS = "/invocations"
"""vLLM's path for SageMaker, which serves a body by what it holds."""
_CHAT = "/chat/completions"
"""Of any prefix: llama.cpp and LiteLLM serve it without one, others have the model in it."""
_COMPLETIONS = re.compile(r"/(?:engines|openai/deployments)/.+/completions\Z")
"""Of LiteLLM and Azure. Without a prefix, it is another API, of llama.cpp."""
_MESSAGES = "/v1/messages"
"""Anthropic's API, which vLLM serves too; its answers are not judged."""
_NO_ANSWER = frozenset(
    {"tokenize", "count_tokens", "render", "embeddings", "embed", "pooling", "classify", "score", "rerank"}
    | {"moderations", "generations"}
)
"""Last parts of paths that take a prompt and answer with something else than text, such as images."""
_PROMPT = re.compile(rb'"(?:messages|prompt|inputs|token_ids)"\s*:\s*["\[{]')
_OVERLAP = 32
"""Bytes in which a prompt's field is recognised."""
MANY = 2**31
"""Prompts of a list that was not decoded: more than ever have begun, so that no answer is ended."""


class TooManyItemsError(Exception):
    """A body that holds more fields than any request."""


class Route(StrEnum):
    """The paths whose answers are judged; other servers' paths of the same kind count as these."""

    CHAT = "/v1/chat/completions"
    COMPLETIONS = "/v1/completions"
    RESPONSES = "/v1/responses"

    @property
    def cap_fields(self) -> tuple[str, ...]:
        """The request fields that cap an answer, in the order in which a server reads them."""
        if self is Route.CHAT:
            return ("max_completion_tokens", "max_tokens")
        return ("max_output_tokens",) if self is Route.RESPONSES else ("max_tokens",)


def judged_route(method: str, path: str) -> Route | None:
    """The route of a request whose answer is judged, as far as its path tells; None for any other."""
    if method != "POST":
        return None
    plain = _plain(path)
    if plain.endswith(_CHAT):
        return Route.CHAT
    if _COMPLETIONS.search(plain) is not None:
        return Route.COMPLETIONS
    return next((route for route in Route if plain.endswith(route)), None)


def is_invocation(method: str, path: str) -> bool:
    """Whether the body tells the route."""
    return method == "POST" and _plain(path).endswith(_INVOCATIONS)


def _plain(path: str) -> str:
    """A path as servers and proxies that merge slashes read it."""
    return posixpath.normpath(path)


def unread_route(method: str, path: str, *, prompted: bool) -> str | None:
    """The label of a request for an answer that is not judged; None where none is asked for.

    prompted: its body holds a prompt.
    """
    path = _plain(path)
    if method != "POST":
        return None
    if path.endswith(_MESSAGES):
        return _MESSAGES
    return OTHER if prompted and path.rpartition("/")[2] not in _NO_ANSWER else None


class PromptSearch:
    """Whether a body holds a prompt, found while it passes: nothing of it is kept or decoded."""

    def __init__(self) -> None:
        self.found = False
        self._is_object: bool | None = None
        self._end = b""

    def add(self, piece: bytes) -> None:
        """Look at the next bytes of the body."""
        if self.found or self._is_object is False:
            return
        seen = self._end + piece
        self._end = seen[-_OVERLAP:]
        if self._is_object is None and (beginning := seen.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]):
            self._is_object = beginning == b"{"
        self.found = bool(self._is_object and _PROMPT.search(seen))


@dataclass(frozen=True, slots=True)
class Asked:
    """One request for an answer.

    body: as decoded. cap: output tokens at most, None where it has none. lax: it is JSON only as Python reads
    it: in UTF-16, with NaN, with half a surrogate pair. requested: the prompt without the model's own turns,
    None where it has none.
    """

    route: Route
    body: Mapping[str, Any]
    model: str
    stream: bool
    prompt: str
    cap: int | None
    lax: bool = False
    requested: str | None = None

    @property
    def choices(self) -> int:
        """The choices that are asked for: `n` for every prompt."""
        n = _number(self.body.get("n"))
        given = (self.body.get(name) for name in ("prompt", "prompt_embeds"))
        return max(1, int(n or 1)) * max(1, sum(_prompts(each) for each in given if each is not None))

    def changed(self, changes: Mapping[str, Any]) -> bytes:
        """The body as JSON with these fields set; what is not changed keeps its order."""
        found = {**self.body, **changes}
        return json.dumps(found).encode() if self.lax else msgspec.json.encode(found)

    def capped(self, limit: int) -> dict[str, Any]:
        """The fields that bring the cap down to `limit` tokens; empty where it is not above.

        Every field that is set, since servers read one or the other, and holds no cap of 1 to `limit`: -1
        is no cap to some, and 0 is one of plain completions, which then score their prompt. What is no
        number is left to the server, beside a cap. A plain completion without a cap ends after 16 tokens, so
        that it needs none. llama.cpp's `n_predict` goes before all of them there, and vLLM refuses a
        `min_tokens` above the cap.
        """
        return self._capped_by_fields(limit) | {
            name: limit
            for name, lowest in (("n_predict", 0), ("min_tokens", -math.inf))
            if (number := _number(self.body.get(name))) is not None and not lowest <= number <= limit
        }

    def _capped_by_fields(self, limit: int) -> dict[str, Any]:
        given = {name: self.body[name] for name in self.route.cap_fields if self.body.get(name) is not None}
        last = self.route.cap_fields[-1]
        if not given:
            ends = self.route is Route.COMPLETIONS and last not in self.body  # null is no cap
            return {} if ends else {last: limit}
        caps = {name: _number(value) for name, value in given.items()}
        least = 0 if self.route is Route.COMPLETIONS else 1
        found = {name: limit for name, cap in caps.items() if cap is not None and not least <= cap <= limit}
        return found | {last: limit} if None in caps.values() else found


def read_request(route: Route | None, body: bytes) -> Asked | None:
    """The request in a body; None where it is not a JSON object, which the upstream will refuse.

    route: None where the body tells it; one that asks for no answer, as for an embedding, is None too. What
    servers in Python read is read as they do. Raises TooManyItemsError for an object that would hold the
    guard up.
    """
    lax = False
    try:
        found = _decoded(body)
    except (ValueError, RecursionError):  # msgspec's own errors are ValueErrors
        try:
            found, lax = _as_python(body), True
        except (ValueError, RecursionError):
            return None
    if not isinstance(found, dict):
        return None
    route = route or _invoked(found)
    if route is None:
        return None
    model = found.get("model")
    prompt = found.get(
        "messages" if route is Route.CHAT else "input" if route is Route.RESPONSES else "prompt"
    )
    caps = (_number(found.get(name)) for name in route.cap_fields)
    text, requested = _texts(prompt)
    return Asked(
        route,
        found,
        model=_printable(model) if isinstance(model, str) else "",
        stream=_is_true(found.get("stream")),
        prompt=text,
        cap=next((int(cap) for cap in caps if cap is not None and cap >= 1), None),
        lax=lax,
        requested=requested,
    )


def _invoked(body: Mapping[str, Any]) -> Route | None:
    """What vLLM takes an invocation for."""
    if "messages" in body:
        return Route.CHAT
    return Route.COMPLETIONS if "prompt" in body else None


def _as_python(body: bytes) -> Any:
    """The body as `json.loads` reads it, which guesses the encoding and takes NaN. Raises ValueError."""
    if len(body) > 4 * _MAX_OTHER or sum(map(body.count, (b",", b"[", b"{", b":"))) > MAX_ITEMS:
        raise TooManyItemsError
    return json.loads(body)


def _printable(text: str) -> str:
    """The text without halves of surrogate pairs."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


class _Prompts(msgspec.Struct):
    messages: msgspec.Raw = msgspec.Raw(b"")
    input: msgspec.Raw = msgspec.Raw(b"")
    prompt: msgspec.Raw = msgspec.Raw(b"")


_prompt_fields = msgspec.json.Decoder(_Prompts)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _decoded(body: bytes) -> Any:
    """The body; where it is large or has very many items its prompt stays as it was written."""
    many = sum(map(body.count, (b",", b"[", b"{"))) > MAX_ITEMS
    if not many and len(body) <= MAX_DECODED:
        return msgspec.json.decode(body)
    try:
        found = _prompt_fields.decode(body)
    except msgspec.ValidationError:
        return None  # it is no object
    prompts = {name: raw for name in _Prompts.__struct_fields__ if (raw := getattr(found, name))}
    if many and len(body) - sum(map(len, prompts.values())) > _MAX_OTHER:
        raise TooManyItemsError
    return {
        name: raw if name in prompts or len(raw) > _MAX_OTHER else msgspec.json.decode(raw)
        for name, raw in _fields.decode(body).items()
    }


def _number(value: Any) -> float | None:
    """A number as vLLM reads it, whose types are lax: 8000, 8000.0 and "8000" are the same."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def _is_true(value: Any) -> bool:
    return isinstance(value, bool | int | float | str) and str(value)[:5].lower() in _TRUE


def _texts(prompt: Any) -> tuple[str, str | None]:
    """A prompt's text, "" of token ids and of one that was not decoded; and the same without the model's own
    turns, None where it has none."""
    if isinstance(prompt, list):
        prompt = [part for part in prompt if isinstance(part, str | dict | list)]
    text, requested = prompt_text(prompt), requested_text(prompt)
    return _end(text), None if requested is None else _end(requested)


def _end(text: str) -> str:
    return _printable(text[-MAX_PROMPT_CHARS:])


def _prompts(prompt: Any) -> int:
    """The prompts of a plain completion, also where they were not decoded."""
    if isinstance(prompt, msgspec.Raw):
        start = bytes(prompt)[:64]
        return MANY if start.startswith(b"[") and not start[1:].lstrip()[:1].isdigit() else 1
    return count_prompts(prompt)
