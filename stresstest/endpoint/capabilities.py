"""What the endpoint can do, asked once before anything is measured, and what its gaps cost."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from stresstest.endpoint import failures
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.counting import count_text, count_tokens
from stresstest.endpoint.outcome import Reply
from stresstest.endpoint.probe import gaps, logprobs_mode, probe
from stresstest.endpoint.wire import sane
from stresstest.errors import EndpointError
from stresstest.model import EndpointProfile, FailureKind, Missing, ServiceFailure

__all__ = ["count_tokens", "profile"]

SIMULATOR = "stresstest-sim"
_CACHE_LABEL = re.compile(r'(\w+)="(\d{1,15})"')


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
    if card not in cards:
        missing.append(_unlisted(endpoint, card.id, cards))
    endpoint.model = card.id
    card.max_model_len = sane(card.max_model_len) or None
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
    probed = await probe(endpoint)
    features = endpoint.features = probed.features
    missing += await gaps(endpoint, probed)
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
        logprobs_mode=await logprobs_mode(endpoint, probed),
        kv_cache_tokens=kv_cache,
        simulated=simulated,
        fingerprint=fingerprint,
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
    except (ValueError, RecursionError):
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


def _unlisted(endpoint: Endpoint, model: str, cards: Sequence[_Card]) -> Missing:
    """The answers may be another model's than the one that the numbers are stored under."""
    name = endpoint.address.clean(model)
    if not cards:
        return Missing("a list of the models", f"whether '{name}' is what answers cannot be checked")
    listed = endpoint.address.clean(cards[0].id)
    cost = f"the server lists '{listed}' and answers to any name: that one is measured"
    return Missing(f"a model named '{name}'", cost)


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
    return True, sane(size)


def _json(reply: Reply) -> object:
    if reply.status != 200:
        return None
    try:
        return msgspec.json.decode(reply.body)
    except (ValueError, RecursionError):
        return None
