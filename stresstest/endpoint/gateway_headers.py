"""What gateways tell in a response's headers of who has answered.

LiteLLM writes the model that was asked into every event, also where a fallback has answered: only
`x-litellm-attempted-fallbacks` and the names beside it tell. Portkey, Kong and Cloudflare name the target
that they have chosen, and so does Hugging Face's router. How often LiteLLM has asked again is in
`x-litellm-attempted-retries`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stresstest.model.server import PROVIDER

_FALLBACKS = "x-litellm-attempted-fallbacks"
_FALLBACK_NAMES = ("x-litellm-model-group", "x-litellm-model-name", "x-litellm-model-id")
_RETRIES = "x-litellm-attempted-retries"
_MOST_RETRIES = 99
_TARGETS = (
    ("x-litellm-model-id",),
    ("x-portkey-provider", "x-portkey-last-used-option-index"),
    ("x-kong-llm-model",),
    ("x-inference-provider",),
    ("cf-aig-step",),
)
"""Headers that together name the deployment, or the step of a list of fallbacks, that has answered."""


@dataclass(frozen=True, slots=True)
class GatewayAnswer:
    """model: the one that has answered in place of the one that was asked, if a gateway tells. server: the
    deployment that it has chosen, after `PROVIDER`. retries: the gateway's own attempts before this one."""

    model: str | None = None
    server: str | None = None
    retries: int = 0


def gateway_answer(headers: Mapping[str, str]) -> GatewayAnswer:
    """Who has answered, as far as a gateway tells. headers: names without regard to case."""
    model = None
    if headers.get(_FALLBACKS, "").strip() not in ("", "0"):
        named = next(
            (found for name in _FALLBACK_NAMES if (found := headers.get(name, "").strip())), "another"
        )
        model = f"{named} (fallback)"
    again = headers.get(_RETRIES, "").strip()
    retries = min(int(again), _MOST_RETRIES) if again.isdecimal() and len(again) < 9 else 0
    for names in _TARGETS:
        told = " ".join(found for name in names if (found := headers.get(name, "").strip()))
        if told:
            return GatewayAnswer(model, f"{PROVIDER}{told}", retries)
    return GatewayAnswer(model, retries=retries)
