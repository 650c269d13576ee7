"""`doctor`: look at everything a measurement stands on, and say what is missing and what mends it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any

from stresstest import clock
from stresstest.endpoint.capabilities import profile
from stresstest.endpoint.client import Endpoint, Reply
from stresstest.endpoint.defaults import generation_config
from stresstest.errors import EndpointError, StoreError, UsageError
from stresstest.model import EndpointProfile
from stresstest.model.health import Check, State
from stresstest.telemetry.gpus import COST, is_local
from stresstest.telemetry.nvml import look
from stresstest.telemetry.prometheus import recognise

_KNOWN_VERSIONS = ((0, 15), (0, 33))
_MENDS = {
    "the model's context length": "run with --horizon TOKENS",
    "vLLM's /metrics": "let the proxy pass /metrics, or point --base-url at vLLM itself",
    "/tokenize": "let the proxy pass /tokenize, or point --base-url at vLLM itself",
    "logprobs": "vllm serve … --max-logprobs 20",
    "token ids": "vLLM ≥ 0.10.2 sends them on request (return_token_ids)",
    "token counts while streaming": "vLLM ≥ 0.10.2, or a server with stream_options.continuous_usage_stats",
    "chat messages": "vllm serve … --chat-template FILE",
}


async def examine(
    base_url: str,
    *,
    model: str | None,
    api_key: str | None,
    store: str | None,
    telling: Callable[[str], None] = lambda _: None,
) -> list[Check]:
    """All checks, in the order in which a measurement needs them. Raises nothing for what it finds."""
    telling(f"asking {Endpoint(base_url, api_key=api_key).base_url}")
    checks = await _endpoint(base_url, model, api_key)
    telling("looking at this machine")
    gpus = await asyncio.to_thread(_gpus, base_url)
    return [*checks, gpus, _clock(), _store(store)]


async def _endpoint(base_url: str, model: str | None, api_key: str | None) -> list[Check]:
    async with Endpoint(base_url, api_key=api_key, model=model) as endpoint:
        try:
            found = await profile(endpoint, model)
        except EndpointError as error:
            return [
                Check(
                    "endpoint",
                    State.FAILED,
                    str(error),
                    "nothing can be measured",
                    error.hint or "start the server, or set --base-url and --api-key",
                )
            ]
        page = await endpoint.ask("/metrics", at_root=True) if found.metrics else None
        return [
            Check(
                "endpoint",
                State.OK,
                f"{found.base_url} answers" + (" (SIMULATED)" if found.simulated else ""),
            ),
            _version(found),
            _model(found),
            *_capabilities(found),
            _metrics(page),
            _defaults(found),
        ]


def _version(found: EndpointProfile) -> Check:
    if found.version is None:
        return Check(
            "vLLM version",
            State.UNKNOWN,
            "the server has no /version: not vLLM, or behind a proxy",
            "a model or server swap cannot be told from a version change",
        )
    numbers = re.match(r"(\d+)\.(\d+)", found.version)
    low, high = _KNOWN_VERSIONS
    if numbers and not low <= (int(numbers[1]), int(numbers[2])) <= high:
        return Check(
            "vLLM version",
            State.DEGRADED,
            f"{found.version}; known are {low[0]}.{low[1]} to {high[0]}.{high[1]}",
            "metrics or fields may have other names",
        )
    return Check("vLLM version", State.OK, found.version)


def _model(found: EndpointProfile) -> Check:
    length = found.max_model_len
    served = found.model + (f" (root {found.root})" if found.root and found.root != found.model else "")
    if length is None:
        return Check(
            "model",
            State.DEGRADED,
            f"{served}, context length not told",
            "the horizon cannot be checked against it",
            _MENDS["the model's context length"],
        )
    return Check("model", State.OK, f"{served}, {length:,} tokens of context")


def _capabilities(found: EndpointProfile) -> list[Check]:
    missing = {gap.what: gap for gap in found.missing}
    checks: list[Check] = []

    def check(name: str, here: bool, says: str, *gaps: str) -> None:
        gap = next((g for what, g in missing.items() if what in gaps or what.startswith(gaps)), None)
        if gap is None and here:
            checks.append(Check(name, State.OK, says))
            return
        what = gap.what if gap else gaps[0]
        mend = next((mend for key, mend in _MENDS.items() if what.startswith(key)), None)
        state = State.DEGRADED if here else State.MISSING
        checks.append(Check(name, state, f"no {what}" if not here else what, gap.cost if gap else None, mend))

    check("chat", "chat messages" not in missing, "messages are accepted", "chat messages")
    check("/tokenize", found.tokenize, "prompts are counted before they are sent", "/tokenize")
    mode = found.logprobs_mode or "mode not told: the model was too sure of its first token"
    top = f"top {found.top_logprobs}, {mode}"
    check("logprobs", found.top_logprobs > 0, top, "logprobs", "20 top logprobs")
    if found.logprobs_mode == "processed_logprobs":
        checks[-1] = Check(
            "logprobs",
            State.DEGRADED,
            top,
            "entropy is measured after penalties and temperature, so decodings cannot be compared by it",
            "vllm serve … --logprobs-mode raw_logprobs",
        )
    check("token ids", found.token_ids, "each chunk names its token ids", "token ids")
    counted = "token counts while streaming" not in missing
    check("token counts", counted, "counted while streaming", "token counts while streaming")
    return checks


def _metrics(page: Any) -> Check:
    cost = "no KV-cache, queue or preemption evidence for the system plane"
    if not isinstance(page, Reply):
        return Check("/metrics", State.MISSING, "no vLLM metrics page", cost, _MENDS["vLLM's /metrics"])
    names = recognise(page.body.decode("utf-8", "replace"))
    parts = [f"{len(names.known)} metrics known"]
    if names.old:
        parts.append(f"older names in use: {', '.join(names.old)}")
    if names.absent:
        parts.append(f"not exposed: {_some(names.absent)}")
    if names.other:
        parts.append(f"{names.other} {'other' if names.other == 1 else 'others'} not needed")
    if names.absent:
        return Check(
            "/metrics", State.DEGRADED, "; ".join(parts), "what is not exposed is shown as not measured"
        )
    return Check("/metrics", State.OK, "; ".join(parts))


def _some(names: Sequence[str], shown: int = 4) -> str:
    """The first few names, and how many more there are."""
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more} more" if more > 0 else "")


def _defaults(found: EndpointProfile) -> Check:
    settings = generation_config(found.root)
    if settings is None:
        return Check(
            "sampling defaults",
            State.UNKNOWN,
            "no API tells them; vLLM names them in its startup log",
            "what a request does not say is the model's own choice (temperature, penalties, max_new_tokens)",
            "stresstest doctor --log vllm.log, or say what you mean: --temperature, --repetition-penalty",
        )
    said = ", ".join(f"{key} {value}" for key, value in settings.items()) or "none set by the model"
    if "max_new_tokens" in settings:
        # By --generation-config auto it is a default for requests that name none; by a folder it is a cap.
        most = settings["max_new_tokens"]
        return Check(
            "sampling defaults",
            State.DEGRADED,
            f"generation_config.json: {said}",
            f"requests without max_tokens end at {most}; every request does, if the server was started with "
            "--generation-config FOLDER or --override-generation-config",
            "vllm serve … --generation-config vllm",
        )
    return Check("sampling defaults", State.OK, f"generation_config.json: {said}")


def _gpus(base_url: str) -> Check:
    found = look()
    if found.trouble is not None:
        return Check("NVML", State.MISSING, found.trouble.rstrip("."), COST, found.mend)
    names = ", ".join(f"GPU {d.gpu} {d.name or ''}".rstrip() for d in found.devices)
    if not is_local(base_url):
        why = f"driver {found.driver}, {names}; but the server is on another machine"
        return Check("NVML", State.MISSING, why, COST, "run with --gpu-exporter URL (dcgm-exporter)")
    reasons: dict[str, dict[str, None]] = {}
    for device in found.devices:
        for what, why in device.missing.items():
            reasons.setdefault(why, {})[what.replace("_", " ")] = None
    if reasons:
        gaps = "; ".join(f"{', '.join(what)} {why}" for why, what in reasons.items())
        cost = "what is not told is shown as not measured"
        return Check("NVML", State.DEGRADED, f"driver {found.driver}, {names}; {gaps}", cost)
    return Check("NVML", State.OK, f"driver {found.driver}, {names}")


def _clock() -> Check:
    steps: list[float] = []
    before = clock.now()
    while len(steps) < 50:
        now = clock.now()
        if now > before:
            steps.append(now - before)
            before = now
    resolution = min(steps)
    fine = resolution < 0.002
    return Check(
        "clock",
        State.OK if fine else State.DEGRADED,
        f"monotonic, steps of {resolution * 1e6:.1f} µs",
        None if fine else "shorter times between tokens are not told apart",
    )


def _store(url: str | None) -> Check:
    from stresstest.store import open_store
    from stresstest.store.tables import SCHEMA_REVISION

    try:
        with open_store(url) as store:
            runs = len(store.runs())
            return Check("store", State.OK, f"{store.location}, schema {SCHEMA_REVISION}, {runs} runs")
    except (StoreError, UsageError) as error:
        return Check("store", State.FAILED, str(error), "nothing can be kept", error.hint)
