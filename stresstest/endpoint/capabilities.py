"""Detects an endpoint's capabilities before a measurement, and what the missing ones prevent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from stresstest import clock
from stresstest.endpoint import failures
from stresstest.endpoint.client import LONGEST_MODEL_NAME, Endpoint, lists_too_many
from stresstest.endpoint.counting import count_text
from stresstest.endpoint.cpu_vllm import computes_on_cpu
from stresstest.endpoint.probe import logprobs_mode, missing_capabilities, probe_features
from stresstest.endpoint.wire import sane_count
from stresstest.errors import EndpointError
from stresstest.model import EndpointProfile, FailureKind, MissingCapability, ServiceFailure
from stresstest.model.server import UNLISTED_MODEL, ServerClock

SIMULATOR_NAME = "stresstest-sim"
_CACHE_LINE = re.compile(r"^vllm:cache_config_info\{.{0,10000}", re.MULTILINE)
_CACHE_LABEL = re.compile(r'(\w+)="([^"]{0,64})"')
_LONGEST_NUMBER = 15
_LATEST = 2**33
_FRESH_S = 60
"""Seconds before an answer from which on a model's date is not the time of the reply."""


class _VersionReply(msgspec.Struct):
    version: str | None = None


class _ModelCard(msgspec.Struct):
    id: str
    max_model_len: int | None = None
    root: str | None = None
    parent: str | None = None
    created: Any = None


class _ModelList(msgspec.Struct):
    data: list[_ModelCard]


async def profile_endpoint(endpoint: Endpoint, model: str | None) -> EndpointProfile:
    """Detect the server's version, model and features, and configure `endpoint` accordingly.

    Sends only a few requests of two tokens. Raises EndpointError if the server cannot be reached,
    rejects the key, or does not serve the model.
    """
    missing: list[MissingCapability] = []
    _require_storable(endpoint, (model or "",))
    version = await _version(endpoint)
    simulated = _names_simulator(version)
    cards = await _fetch_cards(endpoint, optional=model is not None)
    card = _choose_card(endpoint, model, cards, any_name=simulated)
    if card not in cards:
        missing.append(_unlisted(endpoint, card.id, cards))
    card = _on_its_base(endpoint, card, cards)
    endpoint.model = card.id
    if card.max_model_len is None:
        missing.append(
            MissingCapability(
                "the model's context length", "the horizon cannot be checked against it; set --horizon"
            )
        )
    cache = await _cache_labels(endpoint)
    metrics = cache is not None
    endpoint.on_cpu = computes_on_cpu(cache or {})
    if not metrics:
        missing.append(
            MissingCapability(
                "vLLM's /metrics", "no KV-cache, queue or preemption evidence for the system plane"
            )
        )
    tokenize = await count_text(endpoint, "a b") is not None
    endpoint.can_tokenize = tokenize
    if not tokenize:
        missing.append(MissingCapability("/tokenize", "prompt lengths are known only after each request"))
    probed = await probe_features(endpoint)
    features = endpoint.features = probed.features
    missing += await missing_capabilities(endpoint, probed)
    answer = probed.trial.outcome
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
        kv_cache_tokens=_kv_cache_tokens(cache or {}),
        on_cpu=endpoint.on_cpu,
        simulated=simulated,
        fingerprint=answer.fingerprint,
        missing=tuple(missing),
        model_created=_creation(card, answer.created),
        clock=None
        if answer.created is None
        else ServerClock(answer.created, answer.created - (answer.first_token or answer.ended)),
    )


async def fetch_identity(
    endpoint: Endpoint, profile: EndpointProfile, *, listed: bool = False
) -> EndpointProfile:
    """The profile with the version, the root, the context length and the model's date that the server tells
    now; None for what it does not tell, as when it is too busy. Two GETs.

    listed: where it lists other models only, the profile names the first of them.
    """
    unknown = replace(profile, version=None, root=None, max_model_len=None, model_created=None)
    try:
        version = await _version(endpoint)
        cards = await _fetch_cards(endpoint, optional=True)
    except EndpointError:
        return unknown
    try:
        card = _choose_card(endpoint, profile.model, cards, any_name=profile.simulated)
    except EndpointError:
        return replace(unknown, model=endpoint.address.redact(cards[0].id)) if listed else unknown
    card = _on_its_base(endpoint, card, cards)
    return replace(
        profile,
        version=version,
        root=card.root,
        max_model_len=card.max_model_len,
        model_created=_date(card),
    )


def _date(card: _ModelCard) -> int | None:
    return card.created if type(card.created) is int and 0 < card.created < _LATEST else None


def _creation(card: _ModelCard, now: int | None) -> int | None:
    """The model's date, as Ollama tells; None where it may be the time of the reply (vLLM's, llama.cpp's).
    now: the server's time, if it is known."""
    created = _date(card)
    fresh = created is None or created >= (clock.now() if now is None else now) - _FRESH_S
    return None if fresh else created


async def fetch_served_models(endpoint: Endpoint) -> tuple[list[str], bool]:
    """The names of the served models, adapters left out, and whether the server is the simulator.

    Raises EndpointError if the server cannot be reached, rejects the key, or has no list of models.
    """
    simulated = _names_simulator(await _version(endpoint))
    return [card.id for card in _without_adapters(await _fetch_cards(endpoint, optional=False))], simulated


def _on_its_base(endpoint: Endpoint, card: _ModelCard, cards: Sequence[_ModelCard]) -> _ModelCard:
    """The card with a root that can be shown; an adapter's with the root and the context of its base, too."""
    base = next((each for each in cards if each.id == card.parent), None)
    below = card.parent if base is None else base.root or base.id
    roots = [endpoint.address.hide_secrets(each)[:LONGEST_MODEL_NAME] for each in (card.root, below) if each]
    length = card.max_model_len or (None if base is None else base.max_model_len)
    return _ModelCard(
        card.id, sane_count(length) or None, " on ".join(roots) or None, card.parent, card.created
    )


def _without_adapters(cards: Sequence[_ModelCard]) -> list[_ModelCard]:
    return [card for card in cards if card.parent is None]


def _names_simulator(version: str | None) -> bool:
    return version is not None and SIMULATOR_NAME in version


async def _version(endpoint: Endpoint) -> str | None:
    reply = await endpoint.query("/version", at_root=True)
    if isinstance(reply, ServiceFailure):
        # Other failures only mean that this server has no /version.
        if reply.kind is FailureKind.REFUSED:
            raise failures.endpoint_error(reply)
        return None
    if reply.status != 200:
        return None
    try:
        version = msgspec.json.decode(reply.body, type=_VersionReply).version
    except (ValueError, RecursionError):
        return None
    return None if version is None else endpoint.address.redact(version[:LONGEST_MODEL_NAME])


async def _fetch_cards(endpoint: Endpoint, *, optional: bool) -> list[_ModelCard]:
    """The model list. optional: a server without one is acceptable, and the list is empty."""
    reply = await endpoint.query("/models")
    if isinstance(reply, ServiceFailure):
        raise failures.endpoint_error(reply)
    if reply.status in (404, 405, 501) and optional:
        return []
    if reply.status >= 400:
        raise failures.endpoint_error(
            failures.failure_from_status(reply.status, reply.body, endpoint.address)
        )
    if lists_too_many(reply.body):
        raise EndpointError(
            f"The server at {endpoint.base_url} lists too many models to read.",
            hint="Check --base-url: a server for one of them lists fewer.",
        )
    try:
        listed = msgspec.json.decode(reply.body, type=_ModelList | list[_ModelCard])
    except (ValueError, RecursionError):
        what = "a web page" if reply.body.lstrip()[:1] == b"<" else "something else"
        raise EndpointError(
            f"The server at {endpoint.base_url} answered with {what} instead of a list of models.",
            hint="Check --base-url (it usually ends in /v1).",
        ) from None
    cards = listed if isinstance(listed, list) else listed.data  # Together's API gives the bare list
    _require_storable(endpoint, [card.id for card in cards])
    return cards


def _require_storable(endpoint: Endpoint, names: Sequence[str]) -> None:
    """EndpointError for a name that would make every list and table of runs unreadable, or show a secret in
    them: what requests must repeat cannot be hidden."""
    longest = max(map(len, names), default=0)
    if longest > LONGEST_MODEL_NAME:
        raise EndpointError(
            f"A model's name has {longest:,} characters; {LONGEST_MODEL_NAME} are the most.",
            hint="Serve it under a shorter name (vLLM: --served-model-name).",
        )
    if any(map(endpoint.address.is_echoed, names)):
        raise EndpointError(
            "A model's name holds the server's API key or password, and every record of a run repeats it.",
            hint="Serve it under another name (vLLM: --served-model-name), or use another key.",
        )


def _choose_card(
    endpoint: Endpoint, model: str | None, cards: Sequence[_ModelCard], *, any_name: bool
) -> _ModelCard:
    names = [card.id for card in cards]
    if model is not None:
        found = next((card for card in cards if card.id == model), None)
        if found is not None:
            return found
        if any_name and cards:
            return _ModelCard(model, cards[0].max_model_len, cards[0].root)  # accepts any model name
        if not cards:
            return _ModelCard(model)
        raise EndpointError(
            failures.unknown_model_sentence(endpoint.address, model, names),
            hint="Set --model to one of these.",
        )
    bases = _without_adapters(cards)
    if len(bases) == 1:
        return bases[0]
    listed = ", ".join(endpoint.address.redact(name) for name in names[:10])
    if not names:
        raise EndpointError(
            f"The server at {endpoint.base_url} lists no model.", hint="Name it with --model."
        )
    raise EndpointError(
        f"The server at {endpoint.base_url} serves several models: {listed}.", hint="Choose with --model."
    )


def _unlisted(endpoint: Endpoint, model: str, cards: Sequence[_ModelCard]) -> MissingCapability:
    """The model is not in the server's list, so a different model may answer under its name."""
    name = endpoint.address.redact(model)
    if not cards:
        return MissingCapability(
            "a list of the models", f"whether '{name}' is what answers cannot be checked"
        )
    listed = endpoint.address.redact(cards[0].id)
    cost = f"the server lists '{listed}' and answers to any name, so the answers are probably of that one"
    return MissingCapability(f"{UNLISTED_MODEL} '{name}'", cost)


async def _cache_labels(endpoint: Endpoint) -> dict[str, str] | None:
    """What vLLM's metrics say of its KV cache; None without its metrics."""
    reply = await endpoint.query("/metrics", at_root=True)
    if isinstance(reply, ServiceFailure) or reply.status != 200:
        return None
    text = reply.body.decode("utf-8", "replace")
    if "vllm:" not in text:
        return None
    line = _CACHE_LINE.search(text)
    return dict(_CACHE_LABEL.findall(line[0])) if line is not None else {}


def _kv_cache_tokens(cache: Mapping[str, str]) -> int | None:
    """The size of the KV cache in tokens; None where it is not told."""

    def number(name: str) -> int | None:
        text = cache.get(name, "")
        return int(text) if text.isdecimal() and len(text) <= _LONGEST_NUMBER else None

    size, blocks, block = map(number, ("kv_cache_size_tokens", "num_gpu_blocks", "block_size"))
    if size is None and blocks is not None and block is not None:
        size = blocks * block
    return sane_count(size)


_SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "max_new_tokens",
)
_LARGEST = 1_000_000


def read_generation_config(root: str | None) -> dict[str, Any] | None:
    """The sampling defaults in the model's generation_config.json; None if they are unknown.

    root: the model's root as the server reports it; only a local folder can be read. An empty dict means
    that the folder sets no defaults. A server started with `--generation-config vllm` ignores the file,
    which cannot be detected from outside.
    """
    if not root or not root.startswith("/"):
        return None
    folder = Path(root)
    try:
        if not (folder / "config.json").is_file():
            return None
        file = folder / "generation_config.json"
        if not file.is_file():
            return {}
        if file.stat().st_size > _LARGEST:
            return None
        found = msgspec.json.decode(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    numbers = {key: found[key] for key in _SAMPLING if isinstance(found.get(key), int | float)}
    if found.get("do_sample") is False:
        numbers.setdefault("temperature", None)
    return {key: value for key, value in numbers.items() if value is not None}
