"""The penalties in force: what was sent, else the server's default where that is known. Pure.

vLLM applies the model's generation_config.json to what a request does not say, so "not sent" is not "off".
"""

from __future__ import annotations

from dataclasses import dataclass

from stresstest.model import Decoding, EndpointProfile

_NAME = "repetition_penalty"
_ADDITIVE = ("presence_penalty", "frequency_penalty")


@dataclass(frozen=True, slots=True)
class Penalties:
    """repetition: the repetition_penalty in force, None where nobody knows it (it weighs as 1.0).

    additive: the larger of presence and frequency penalty. words: what is in force, and where that is from.
    """

    repetition: float | None
    additive: float
    words: str

    @property
    def weighed(self) -> float:
        return self.repetition or 1.0

    @property
    def any(self) -> bool:
        return self.weighed > 1.0 or self.additive > 0.0

    def because(self, claim: str) -> str:
        """The words, and behind them what they mean, where the penalty is known."""
        return self.words if self.repetition is None else f"{self.words}: {claim}"


def penalties(decoding: Decoding, profile: EndpointProfile) -> Penalties:
    """What of a request's decoding and of the server's defaults works against repetition."""
    found, words = _repetition(decoding, profile)
    additive = {name: _number(getattr(decoding, name), profile, name) for name in _ADDITIVE}
    words += "".join(f", {name} {value:g}" for name, value in additive.items() if value > 0.0)
    return Penalties(found, max(additive.values()), words)


def _repetition(decoding: Decoding, profile: EndpointProfile) -> tuple[float | None, str]:
    sent, default = decoding.repetition_penalty, profile.defaults.get(_NAME)
    if sent is not None:
        return sent, f"{_NAME} {sent:g}"
    if isinstance(default, int | float):
        return float(default), f"{_NAME} {default:g} (not sent: the model's generation_config.json)"
    if profile.defaults:
        return 1.0, f"no {_NAME} sent, and none in the model's generation_config.json"
    return None, f"no {_NAME} sent; the server's own default is not known"


def _number(sent: float | None, profile: EndpointProfile, name: str) -> float:
    value = sent if sent is not None else profile.defaults.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
