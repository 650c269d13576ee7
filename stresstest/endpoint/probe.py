"""A first generation of two tokens: which measuring fields the server takes, and which it fills."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from stresstest.endpoint import failures
from stresstest.endpoint.body import Features
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.counting import estimate
from stresstest.endpoint.outcome import Trial
from stresstest.model import Decoding, FailureKind, GenerationRequest, Message, Missing

_BARE = Features(top_logprobs=0, token_ids=False, usage=False, running_usage=False)
_SURE = 0.05


@dataclass(frozen=True, slots=True)
class Probed:
    """What a probe showed. chat: messages are accepted. asked: what it asked for and was not refused."""

    trial: Trial
    asked: Features
    chat: bool

    @property
    def features(self) -> Features:
        """What was asked for *and* came: a server may ignore a field instead of refusing it."""
        made = self.trial.made
        return Features(
            top_logprobs=min(self.asked.top_logprobs, made.top_seen),
            token_ids=self.asked.token_ids and made.has_ids,
            usage=self.asked.usage and made.completion_tokens is not None,
            running_usage=self.asked.running_usage and made.running_usage,
        )


async def probe(endpoint: Endpoint) -> Probed:
    """Two tokens with everything asked for; if the server refuses that, with what it takes."""
    probed = await _try(endpoint, Features(), chat=True)
    if _refused(probed):
        probed = await _try(endpoint, _BARE, chat=True)
        if _refused(probed):
            probed = await _try(endpoint, Features(), chat=False)
        if _refused(probed):
            probed = await _try(endpoint, _BARE, chat=False)
        if probed.asked == _BARE and probed.trial.outcome.failure is None:
            probed = await _add_back(endpoint, probed)
    failure = probed.trial.outcome.failure
    if failure is not None and not probed.trial.made.produced:
        raise failures.endpoint_error(failure)
    return probed


async def _add_back(endpoint: Endpoint, probed: Probed) -> Probed:
    """Find out one by one which of the measuring fields this server refuses."""
    asked = probed.asked
    steps: tuple[Callable[[Features], Features], ...] = (
        lambda f: replace(f, usage=True),
        lambda f: replace(f, usage=True, running_usage=True),
        lambda f: replace(f, token_ids=True),
        lambda f: replace(f, top_logprobs=20),
        lambda f: replace(f, top_logprobs=f.top_logprobs or 5),
        lambda f: replace(f, top_logprobs=f.top_logprobs or 1),
    )
    for candidate in steps:
        if candidate(asked) == asked:
            continue
        tried = await _try(endpoint, candidate(asked), chat=probed.chat)
        if tried.trial.outcome.failure is None:
            probed, asked = tried, tried.asked
    return probed


async def _try(
    endpoint: Endpoint, asked: Features, *, chat: bool, temperature: float | None = None
) -> Probed:
    request = GenerationRequest(
        model=endpoint.model or "",
        max_tokens=2,
        decoding=Decoding(temperature=temperature),
        messages=(Message("user", "Hi"),) if chat else None,
        prompt=None if chat else "Hi",
        seed=1,
    )
    return Probed(await endpoint.trial(request, asked), asked, chat)


def _refused(probed: Probed) -> bool:
    failure = probed.trial.outcome.failure
    return failure is not None and failure.kind is FailureKind.BAD_REQUEST


async def gaps(endpoint: Endpoint, probed: Probed) -> list[Missing]:
    """What the probe did not show, and what that costs."""
    found: list[Missing] = []
    features, made = probed.features, probed.trial.made
    if not probed.chat:
        found.append(Missing("chat messages", "only plain prompts work; the model may have no chat template"))
    if not features.top_logprobs:
        found.append(Missing("logprobs", "no entropy: drifting before an onset cannot be seen"))
    elif features.top_logprobs < 20:
        found.append(
            Missing(
                f"20 top logprobs (it gives {features.top_logprobs})",
                "the entropy bound is looser (vLLM: --max-logprobs 20)",
            )
        )
    if not features.token_ids:
        found.append(Missing("token ids", "failing generations cannot be continued exactly from a cut"))
    if made.uncounted:
        found.append(
            Missing("token counts while streaming", "positions are counted in chunks, onsets are approximate")
        )
        if not features.usage and not endpoint.can_tokenize:
            number, note = await estimate("Hi")
            endpoint.can_estimate = number is not None
            how = note or "Totals are estimated with tiktoken, whose vocabulary is not this model's."
            found.append(Missing("token totals", how))
    return found


async def logprobs_mode(endpoint: Endpoint, probed: Probed) -> str | None:
    """Raw or processed logprobs, told by asking the same first token at two temperatures.

    Raw ones do not depend on the temperature. None where there are none or the model is too sure to tell.
    """
    if not probed.features.top_logprobs:
        return None
    entropies: list[float] = []
    for temperature in (1.0, 0.5):
        again = await _try(endpoint, probed.features, chat=probed.chat, temperature=temperature)
        first = again.trial.tokens[0].entropy if again.trial.tokens else None
        if first is None or first < _SURE:
            return None
        entropies.append(first)
    same = abs(entropies[0] - entropies[1]) <= 0.02 * entropies[0]
    return "raw_logprobs" if same else "processed_logprobs"
