"""What a request asks for, as far as the guard must know it; and its body with something changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from stresstest.records.formats.fields import prompt_text

MAX_PROMPT_CHARS = 64 * 1024
"""Characters of a prompt that the detectors are given: its last ones."""


class Route(StrEnum):
    """The paths whose answers are judged."""

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
    """The route of a request whose answer is judged; None where it passes through unread."""
    if method != "POST":
        return None
    return next((route for route in Route if path.endswith(route)), None)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request for an answer. body: as decoded. cap: output tokens at most, None where it has none."""

    route: Route
    body: Mapping[str, Any]
    model: str
    stream: bool
    prompt: str
    cap: int | None

    def changed(self, changes: Mapping[str, Any]) -> bytes:
        """The body as JSON with these fields set; what is not changed keeps its order."""
        return msgspec.json.encode({**self.body, **changes})

    def capped(self, limit: int) -> dict[str, Any]:
        """The fields that bring the cap down to `limit` tokens; empty where it is not above.

        A plain completion without a cap ends after 16 tokens, so that it needs none.
        """
        if self.cap is None:
            return {} if self.route is Route.COMPLETIONS else {self.route.cap_fields[-1]: limit}
        set_fields = (name for name in self.route.cap_fields if self.body.get(name) is not None)
        return dict.fromkeys(set_fields, limit) if self.cap > limit else {}


def read_request(route: Route, body: bytes) -> Asked | None:
    """The request in a body; None where it is no JSON object, which the upstream will refuse."""
    try:
        found = msgspec.json.decode(body)
    except (ValueError, RecursionError):  # msgspec's own errors are ValueErrors
        return None
    if not isinstance(found, dict):
        return None
    model = found.get("model")
    prompt = found.get(
        "messages" if route is Route.CHAT else "input" if route is Route.RESPONSES else "prompt"
    )
    caps = (found.get(name) for name in route.cap_fields)
    return Asked(
        route,
        found,
        model=model if isinstance(model, str) else "",
        stream=found.get("stream") is True,
        prompt=prompt_text(prompt)[-MAX_PROMPT_CHARS:],
        cap=next((cap for cap in caps if type(cap) is int and cap > 0), None),
    )
