"""Which sampling parameters a server reads.

A gateway may drop them, and valid values are answered all the same. An invalid value tells where nothing
checks it. Where something in front of the model does (NVIDIA Dynamo, OpenRouter), values tell that make two
answers as different as they can, or both the most likely one, whatever the seed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.probe import BARE, takes_messages, try_features
from stresstest.model import Decoding, EndpointProfile, FailureKind, MissingCapability
from stresstest.model.server import UNREAD_PARAMETERS

_INVALID = {
    "temperature": Decoding(temperature=-1.0),
    "top_p": Decoding(top_p=2.0),
    "top_k": Decoding(top_k=-7),
    "min_p": Decoding(min_p=2.0),
    "repetition_penalty": Decoding(repetition_penalty=-1.0),
    "presence_penalty": Decoding(presence_penalty=9.0),
    "frequency_penalty": Decoding(frequency_penalty=9.0),
}
"""Values that vLLM, and every server that reads the parameter, refuses."""
_APART: dict[str, tuple[Any, Any]] = {
    "repetition_penalty": (1.0, 1.9),
    "presence_penalty": (-2.0, 2.0),
    "frequency_penalty": (-2.0, 2.0),
}
"""Values between which a greedy answer differs, if the parameter is read: one of them makes the model repeat
itself."""
_GREEDY = {
    "temperature": Decoding(temperature=0.0),
    "top_p": Decoding(temperature=1.5, top_p=0.0001),
    "top_k": Decoding(temperature=1.5, top_k=1),
    "min_p": Decoding(temperature=1.5, min_p=1.0),
}
"""With these an answer is the most likely one, whatever its seed, if the parameter is read."""
_SAY = "Write a short story about a lighthouse keeper and a storm."
_AGAIN = 2
"""Answers that must equal the first one: two that were drawn are one text now and then."""
_MANY, _FEW = 48, 12
"""Tokens that are compared: of answers that should differ, and of those that should be the same, which
rounding may part later on."""


@dataclass(frozen=True, slots=True)
class UnreadParameters:
    """Parameters of which nothing shows that the server reads them. taken: it takes an invalid value. idle:
    values of it change nothing. untold: the server's answers do not tell, since requests failed or one
    request has several answers."""

    taken: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.taken, *self.idle, *self.untold)


async def unread_parameters(
    endpoint: Endpoint, profile: EndpointProfile, names: Collection[str]
) -> UnreadParameters:
    """Those of the sampling parameters (`PARAMETERS`) that the server is not known to read.

    One request of one token for each name, up to three more of 12 or 48 tokens for each whose invalid value
    it does not take, and two for all penalties.
    """
    chat = takes_messages(profile)
    probes = [try_features(endpoint, BARE, chat=chat, decoding=_INVALID[name], tokens=1) for name in names]
    # All at once: a server that hangs on an invalid value is waited for once.
    failures = [each.trial.outcome.failure for each in await asyncio.gather(*probes)]
    taken = tuple(name for name, failure in zip(names, failures, strict=True) if failure is None)
    passing = [f is not None and f.kind is not FailureKind.BAD_REQUEST for f in failures]
    untold = tuple(name for name, passed in zip(names, passing, strict=True) if passed)
    if profile.simulated:
        return UnreadParameters(taken, untold=untold)
    effects = _Effects(endpoint, chat=chat)
    if profile.is_vllm:
        # With speculative decoding it dropped min_p (0.11.1 to 0.13), and on TPUs it drops penalties. Where
        # its answers do not tell, since greedy ones differ under load, it reads what it checks.
        asked = [name for name in names if name not in (*taken, *untold)]
        idle = [name for name in asked if await effects.seen(name) is False]
        return UnreadParameters(taken, tuple(idle), untold)
    seen = {name: await effects.seen(name) for name in names if name not in taken}
    told = {each: tuple(name for name, found in seen.items() if found is each) for each in (False, None)}
    return UnreadParameters(taken, told[False], told[None])


class _Effects:
    """Whether values of a parameter change answers as they must."""

    def __init__(self, endpoint: Endpoint, *, chat: bool) -> None:
        self._endpoint = endpoint
        self._chat = chat
        self._repeats: bool | None = None

    async def seen(self, name: str) -> bool | None:
        """None where the answers do not tell."""
        if name in _GREEDY:
            first = await self._text(_GREEDY[name], _FEW)
            for _ in range(_AGAIN):
                again = await self._text(_GREEDY[name], _FEW)
                if "" in (first, again):
                    return None
                if again != first:
                    return False
            return True
        if self._repeats is None:
            plain = [await self._text(Decoding(temperature=0.0), _MANY) for _ in range(2)]
            self._repeats = plain[0] == plain[1] != ""
        if not self._repeats:
            return None
        apart = [replace(Decoding(temperature=0.0), **{name: value}) for value in _APART[name]]
        one, other = [await self._text(decoding, _MANY) for decoding in apart]
        return None if "" in (one, other) else one != other

    async def _text(self, decoding: Decoding, tokens: int) -> str:
        """An answer, by a seed of its own; "" where the request fails."""
        probed = await try_features(
            self._endpoint, BARE, chat=self._chat, decoding=decoding, tokens=tokens, say=_SAY
        )
        whole = probed.trial.outcome.failure is None
        return "".join(token.text for token in probed.trial.tokens) if whole else ""


def missing_reading(unread: UnreadParameters) -> tuple[MissingCapability, ...]:
    """The capability that is missing where parameters are not known to be read; none without names."""
    if not unread.names:
        return ()
    words = " and ".join(unread.names)
    found = []
    if unread.taken:
        values = " and ".join(f"{name} {_INVALID[name].given()[name]:g}" for name in unread.taken)
        found.append(
            f"it takes {values} without complaint, as a gateway does that drops the field (LiteLLM's "
            f"drop_params)"
        )
    if unread.idle:
        found.append(
            f"it refuses invalid values of {' and '.join(unread.idle)}, but its answers show no effect of "
            f"extreme ones, as where a frontend checks the field and its backend drops it (NVIDIA Dynamo)"
        )
    if unread.untold:
        found.append(
            f"the requests that would show whether it reads {' and '.join(unread.untold)} failed, or had "
            f"several answers at temperature 0, as behind a router to several servers (OpenRouter)"
        )
    return (
        MissingCapability(
            f"{UNREAD_PARAMETERS}{words}",
            f"{'; '.join(found)}; the numbers may be of another decoding",
            f"ask vLLM itself, or see whether another {words} changes the answers",
        ),
    )
