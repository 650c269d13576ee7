"""What the endpoint can do, asked once before anything is measured, and what its gaps cost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from stresstest.endpoint import failures
from stresstest.endpoint.body import Features
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.counting import count_text, count_tokens, estimate
from stresstest.endpoint.outcome import Reply, Trial
from stresstest.errors import EndpointError
from stresstest.model import (
    Decoding,
    EndpointProfile,
    FailureKind,
    GenerationRequest,
    Message,
    Missing,
    ServiceFailure,
)

__all__ = ["count_tokens", "profile"]

SIMULATOR = "stresstest-sim"
_BARE = Features(top_logprobs=0, token_ids=False, usage=False, running_usage=False)
_SURE = 0.05
_CACHE_LABEL = re.compile(r'(\w+)="(\d+)"')


class _Card(msgspec.Struct):
    id: str
    max_model_len: int | None = None
    root: str | None = None
    parent: str | None = None


class _Listing(msgspec.Struct):
    data: list[_Card]


async def profile(endpoint: Endpoint, model: str | None) -> EndpointProfile:
    """Ask the server what it is and can do; sets the endpoint's model and features accordingly.

    Sends at most a few requests of two tokens. Raises EndpointError when the server cannot be reached,
    rejects the key, or does not serve the model.
    """
    missing: list[Missing] = []
    version = await _version(endpoint)
    simulated = version is not None and SIMULATOR in version
    cards = await _cards(endpoint, optional=model is not None)
    card = _choose(endpoint, model, cards, any_name=simulated)
    endpoint.model = card.id
    if card.max_model_len is None:
        missing.append(
            Missing("the model's context length", "the horizon cannot be checked against it; set --horizon")
        )
    metrics, kv_cache = await _metrics(endpoint)
    if not metrics:
        missing.append(
            Missing("vLLM's /metrics", "no KV-cache, queue or preemption evidence for the system plane")
        )
    tokenize = await count_text(endpoint, "a b") is not None
    endpoint.can_tokenize = tokenize
    if not tokenize:
        missing.append(Missing("/tokenize", "prompt lengths are known only after each request"))
    probed = await _probe(endpoint)
    features = endpoint.features = probed.features
    missing += await _gaps(endpoint, probed)
    fingerprint = probed.trial.made.fingerprint
    return EndpointProfile(
        base_url=endpoint.base_url,
        model=card.id,
        version=version,
        max_model_len=card.max_model_len,
        root=card.root,
        metrics=metrics,
        tokenize=tokenize,
        token_ids=features.token_ids,
        top_logprobs=features.top_logprobs,
        logprobs_mode=await _logprobs_mode(endpoint, probed),
        kv_cache_tokens=kv_cache,
        simulated=simulated,
        defaults={"system_fingerprint": fingerprint} if fingerprint else {},
        missing=tuple(missing),
    )


async def _version(endpoint: Endpoint) -> str | None:
    reply = await endpoint.ask("/version", at_root=True)
    if isinstance(reply, ServiceFailure):
        # Nothing else will work either if nobody is there; anything milder may be a plain server.
        if reply.kind is FailureKind.REFUSED:
            raise failures.endpoint_error(reply)
        return None
    found = _json(reply)
    version = found.get("version") if isinstance(found, dict) else None
    return endpoint.address.clean(version) if isinstance(version, str) else None


async def _cards(endpoint: Endpoint, *, optional: bool) -> list[_Card]:
    """The model list; empty when the server has none and the user named the model (optional)."""
    reply = await endpoint.ask("/models")
    if isinstance(reply, ServiceFailure):
        raise failures.endpoint_error(reply)
    if reply.status in (404, 405, 501) and optional:
        return []
    if reply.status >= 400:
        raise failures.endpoint_error(failures.from_status(reply.status, reply.body, endpoint.address))
    try:
        return msgspec.json.decode(reply.body, type=_Listing).data
    except msgspec.DecodeError:
        what = "a web page" if reply.body.lstrip()[:1] == b"<" else "something else"
        raise EndpointError(
            f"The server at {endpoint.base_url} answered with {what} instead of a list of models.",
            hint="Check --base-url (it usually ends in /v1).",
        ) from None


def _choose(endpoint: Endpoint, model: str | None, cards: Sequence[_Card], *, any_name: bool) -> _Card:
    names = [card.id for card in cards]
    if model is not None:
        found = next((card for card in cards if card.id == model), None)
        if found is not None:
            return found
        if any_name and cards:
            return _renamed(cards[0], model)
        if not cards:
            return _Card(model)
        raise EndpointError(
            failures.unknown_model(endpoint.address, model, names), hint="Set --model to one of these."
        )
    bases = [card for card in cards if card.parent is None]
    if len(bases) == 1:
        return bases[0]
    listed = ", ".join(endpoint.address.clean(name) for name in names[:10])
    if not names:
        raise EndpointError(
            f"The server at {endpoint.base_url} lists no model.", hint="Name it with --model."
        )
    raise EndpointError(
        f"The server at {endpoint.base_url} serves several models: {listed}.", hint="Choose with --model."
    )


def _renamed(card: _Card, name: str) -> _Card:
    """The simulator answers to any name: its card under the one that was asked for."""
    return _Card(name, card.max_model_len, card.root)


async def _metrics(endpoint: Endpoint) -> tuple[bool, int | None]:
    """(vLLM's metrics are there, KV cache size in tokens)."""
    reply = await endpoint.ask("/metrics", at_root=True)
    if isinstance(reply, ServiceFailure) or reply.status != 200:
        return False, None
    text = reply.body.decode("utf-8", "replace")
    if "vllm:" not in text:
        return False, None
    line = next((found for found in text.splitlines() if found.startswith("vllm:cache_config_info{")), "")
    labels = {name: int(value) for name, value in _CACHE_LABEL.findall(line)}
    size = labels.get("kv_cache_size_tokens")
    if size is None and {"num_gpu_blocks", "block_size"} <= labels.keys():
        size = labels["num_gpu_blocks"] * labels["block_size"]
    return True, size


@dataclass(frozen=True, slots=True)
class _Probed:
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


async def _probe(endpoint: Endpoint) -> _Probed:
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


async def _add_back(endpoint: Endpoint, probed: _Probed) -> _Probed:
    """Find out one by one which of the measuring fields this server refuses."""
    asked = probed.asked
    for candidate in (
        lambda f: replace(f, usage=True),
        lambda f: replace(f, usage=True, running_usage=True),
        lambda f: replace(f, token_ids=True),
        lambda f: replace(f, top_logprobs=20),
        lambda f: replace(f, top_logprobs=f.top_logprobs or 5),
        lambda f: replace(f, top_logprobs=f.top_logprobs or 1),
    ):
        if candidate(asked) == asked:
            continue
        tried = await _try(endpoint, candidate(asked), chat=probed.chat)
        if tried.trial.outcome.failure is None:
            probed, asked = tried, tried.asked
    return probed


async def _try(
    endpoint: Endpoint, asked: Features, *, chat: bool, temperature: float | None = None
) -> _Probed:
    request = GenerationRequest(
        model=endpoint.model or "",
        max_tokens=2,
        decoding=Decoding(temperature=temperature),
        messages=(Message("user", "Hi"),) if chat else None,
        prompt=None if chat else "Hi",
        seed=1,
    )
    return _Probed(await endpoint.trial(request, asked), asked, chat)


def _refused(probed: _Probed) -> bool:
    failure = probed.trial.outcome.failure
    return failure is not None and failure.kind is FailureKind.BAD_REQUEST


async def _gaps(endpoint: Endpoint, probed: _Probed) -> list[Missing]:
    """What the probe did not show, and what that costs."""
    gaps: list[Missing] = []
    features, made = probed.features, probed.trial.made
    if not probed.chat:
        gaps.append(Missing("chat messages", "only plain prompts work; the model may have no chat template"))
    if not features.top_logprobs:
        gaps.append(Missing("logprobs", "no entropy: drifting before an onset cannot be seen"))
    elif features.top_logprobs < 20:
        gaps.append(
            Missing(
                f"20 top logprobs (it gives {features.top_logprobs})",
                "the entropy bound is looser (vLLM: --max-logprobs 20)",
            )
        )
    if not features.token_ids:
        gaps.append(Missing("token ids", "failing generations cannot be continued exactly from a cut"))
    if made.uncounted:
        gaps.append(
            Missing("token counts while streaming", "positions are counted in chunks, onsets are approximate")
        )
        if not features.usage and not endpoint.can_tokenize:
            number, note = await estimate("Hi")
            endpoint.can_estimate = number is not None
            how = note or "Totals are estimated with tiktoken, whose vocabulary is not this model's."
            gaps.append(Missing("token totals", how))
    return gaps


async def _logprobs_mode(endpoint: Endpoint, probed: _Probed) -> str | None:
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


def _json(reply: Reply) -> object:
    if reply.status != 200:
        return None
    try:
        return msgspec.json.decode(reply.body)
    except msgspec.DecodeError:
        return None
