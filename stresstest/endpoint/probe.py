"""Probes with two-token generations which optional request fields a server accepts and supports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from secrets import randbelow

from stresstest.endpoint import failures
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.counting import estimate_tokens
from stresstest.endpoint.outcome import TrialGeneration
from stresstest.endpoint.wire import RequestFeatures
from stresstest.model import Decoding, FailureKind, GenerationRequest, Message, MissingCapability
from stresstest.model.server import UNCOUNTED_CHUNKS

_BARE = RequestFeatures(top_logprobs=0, token_ids=False, usage=False, running_usage=False)
_SURE = 0.05


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Result of a probe. asked: the optional fields of the request. chat: whether it used messages."""

    trial: TrialGeneration
    asked: RequestFeatures
    chat: bool

    @property
    def features(self) -> RequestFeatures:
        """The requested features that the response shows; a server may ignore fields it does not know."""
        made = self.trial.assembler
        return RequestFeatures(
            top_logprobs=min(self.asked.top_logprobs, made.top_seen),
            token_ids=self.asked.token_ids and made.has_ids,
            usage=self.asked.usage and made.completion_tokens is not None,
            running_usage=self.asked.running_usage and made.running_usage,
        )


async def probe_features(endpoint: Endpoint) -> ProbeResult:
    """Probe with all optional fields; if the server rejects them, find those that it accepts.

    Raises EndpointError if no generation succeeds.
    """
    wanted = endpoint.features
    probed = await _try_features(endpoint, wanted, chat=True)
    if _refused(probed):
        probed = await _try_features(endpoint, _BARE, chat=True)
        if _refused(probed):
            probed = await _try_features(endpoint, wanted, chat=False)
        if _refused(probed):
            probed = await _try_features(endpoint, _BARE, chat=False)
        if probed.asked == _BARE and probed.trial.outcome.failure is None:
            probed = await _add_back(endpoint, probed)
    failure = probed.trial.outcome.failure
    if failure is not None and not probed.trial.assembler.produced:
        raise failures.endpoint_error(failure)
    return probed


async def _add_back(endpoint: Endpoint, probed: ProbeResult) -> ProbeResult:
    """Add the optional fields back one by one and keep those that the server accepts."""
    asked = probed.asked
    steps: tuple[Callable[[RequestFeatures], RequestFeatures], ...] = (
        lambda f: replace(f, usage=True),
        lambda f: replace(f, usage=True, running_usage=True),
        lambda f: replace(f, token_ids=True),
    )
    logprobs: tuple[Callable[[RequestFeatures], RequestFeatures], ...] = (
        lambda f: replace(f, top_logprobs=20),
        lambda f: replace(f, top_logprobs=f.top_logprobs or 5),
        lambda f: replace(f, top_logprobs=f.top_logprobs or 1),
    )
    for candidate in (*steps, *logprobs) if endpoint.logprobs else steps:
        if candidate(asked) == asked:
            continue
        tried = await _try_features(endpoint, candidate(asked), chat=probed.chat)
        if tried.trial.outcome.failure is None:
            probed, asked = tried, tried.asked
    return probed


async def _try_features(
    endpoint: Endpoint, asked: RequestFeatures, *, chat: bool, temperature: float | None = None
) -> ProbeResult:
    request = GenerationRequest(
        model=endpoint.model or "",
        max_tokens=2,
        decoding=Decoding(temperature=temperature),
        messages=(Message("user", "Hi"),) if chat else None,
        prompt=None if chat else "Hi",
        seed=randbelow(2**31),  # no cache in front of the server knows the request
    )
    return ProbeResult(await endpoint.trial_generation(request, asked), asked, chat)


def _refused(probed: ProbeResult) -> bool:
    failure = probed.trial.outcome.failure
    return failure is not None and failure.kind is FailureKind.BAD_REQUEST


async def missing_capabilities(endpoint: Endpoint, probed: ProbeResult) -> list[MissingCapability]:
    """The capabilities that the probe did not show, and what their absence prevents."""
    found: list[MissingCapability] = []
    features, made = probed.features, probed.trial.assembler
    if not probed.chat:
        found.append(
            MissingCapability("chat messages", "only plain prompts work; the model may have no chat template")
        )
    if not endpoint.logprobs:
        pass  # not wanted, so not missing
    elif not features.top_logprobs:
        found.append(MissingCapability("logprobs", "no entropy: drifting before an onset cannot be seen"))
    elif features.top_logprobs < 20:
        found.append(
            MissingCapability(
                f"20 top logprobs (it gives {features.top_logprobs})",
                "the entropy bound is looser (vLLM: --max-logprobs 20)",
            )
        )
    if not features.token_ids:
        found.append(MissingCapability("token ids", "failing answers cannot be continued exactly from a cut"))
    if made.uncounted_texts:
        found.append(
            MissingCapability(UNCOUNTED_CHUNKS, "positions are counted in words, onsets are approximate")
        )
        if not features.usage and not endpoint.can_tokenize:
            number, note = await estimate_tokens("Hi")
            endpoint.can_estimate = number is not None
            how = note or "Totals are estimated with tiktoken, whose vocabulary is not this model's."
            found.append(MissingCapability("token totals", how))
    return found


async def logprobs_mode(endpoint: Endpoint, probed: ProbeResult) -> str | None:
    """ "raw_logprobs" or "processed_logprobs", from the entropy of one first token at two temperatures.

    Raw logprobs do not depend on the temperature. None without logprobs, or if the entropy is too low
    to distinguish the modes.
    """
    if not probed.features.top_logprobs:
        return None
    entropies: list[float] = []
    for temperature in (1.0, 0.5):
        again = await _try_features(endpoint, probed.features, chat=probed.chat, temperature=temperature)
        first = again.trial.tokens[0].entropy if again.trial.tokens else None
        if first is None or first < _SURE:
            return None
        entropies.append(first)
    same = abs(entropies[0] - entropies[1]) <= 0.02 * entropies[0]
    return "raw_logprobs" if same else "processed_logprobs"
