"""`doctor`: checks the requirements of a measurement and reports what is missing, its cost and its remedy."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

from stresstest import clock
from stresstest.endpoint.capabilities import profile_endpoint, read_generation_config
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.cpu_vllm import REMEDY, WHY_SEEDS_KILL
from stresstest.endpoint.outcome import HttpReply
from stresstest.endpoint.probe import refuse_cache
from stresstest.errors import EndpointError, StoreError, UsageError
from stresstest.model import Decoding, EndpointProfile
from stresstest.model.server import UNLISTED_MODEL, CheckState, HealthCheck
from stresstest.telemetry.gpu.nvml_sampler import probe_gpus
from stresstest.telemetry.gpu.watch import ELSEWHERE, MISSING_GPUS_COST, is_local
from stresstest.telemetry.page_sampler import MAX_PAGE
from stresstest.telemetry.prometheus import recognise_metrics

_KNOWN_VERSIONS = ((0, 15), (0, 33))
_REMEDIES = {
    "the model's context length": "run with --horizon TOKENS",
    "vLLM's /metrics": "let the proxy pass /metrics, or point --base-url at vLLM itself",
    "/tokenize": "let the proxy pass /tokenize, or point --base-url at vLLM itself",
    "logprobs": "vllm serve … --max-logprobs 20",
    "token ids": "vLLM ≥ 0.10.2 sends them on request (return_token_ids)",
    "token counts while streaming": "vLLM ≥ 0.10.2, or a server with stream_options.continuous_usage_stats",
    "chat messages": "vllm serve … --chat-template FILE",
}


async def run_checks(
    base_url: str,
    *,
    model: str | None,
    api_key: str | None,
    store: str | None,
    on_step: Callable[[str], None] = lambda _: None,
) -> list[HealthCheck]:
    """All checks, in the order in which a measurement needs them. A failed check raises no exception.

    on_step: called with a description of each step before it starts.
    """
    on_step(f"asking {Endpoint(base_url, api_key=api_key).base_url}")
    checks = await _endpoint(base_url, model, api_key)
    on_step("looking at this machine")
    gpus = await asyncio.to_thread(_gpus, base_url)
    return [*checks, gpus, _clock(), _store(store)]


async def _endpoint(base_url: str, model: str | None, api_key: str | None) -> list[HealthCheck]:
    async with Endpoint(base_url, api_key=api_key, model=model) as endpoint:
        try:
            found = await profile_endpoint(endpoint, model)
            await refuse_cache(endpoint, found, Decoding())
        except EndpointError as error:
            return [
                HealthCheck(
                    "endpoint",
                    CheckState.FAILED,
                    str(error),
                    "nothing can be measured",
                    error.hint or "start the server, or set --base-url and --api-key",
                )
            ]
        page = await endpoint.query("/metrics", at_root=True) if found.metrics else None
        return [
            HealthCheck(
                "endpoint",
                CheckState.OK,
                f"{found.base_url} answers" + (" (SIMULATED)" if found.simulated else ""),
            ),
            _version(found),
            _model(found),
            *_capabilities(found),
            *_seeds(found),
            _metrics(page),
            _defaults(found),
        ]


def _version(found: EndpointProfile) -> HealthCheck:
    if found.version is None:
        return HealthCheck(
            "vLLM version",
            CheckState.UNKNOWN,
            "the server has no /version: not vLLM, or behind a proxy",
            "a swapped model or server cannot be distinguished from a new version",
        )
    numbers = re.match(r"(\d{1,9})\.(\d{1,9})", found.version)
    low, high = _KNOWN_VERSIONS
    if numbers and not low <= (int(numbers[1]), int(numbers[2])) <= high:
        return HealthCheck(
            "vLLM version",
            CheckState.DEGRADED,
            f"{found.version}; known are {low[0]}.{low[1]} to {high[0]}.{high[1]}",
            "metrics or fields may have other names",
        )
    return HealthCheck("vLLM version", CheckState.OK, found.version)


def _model(found: EndpointProfile) -> HealthCheck:
    length = found.max_model_len
    other = found.gap(UNLISTED_MODEL)
    if other is not None:
        return HealthCheck("model", CheckState.DEGRADED, f"the server has no {other.thing}", other.cost)
    served = found.model + (f" (root {found.root})" if found.root and found.root != found.model else "")
    if length is None:
        return HealthCheck(
            "model",
            CheckState.DEGRADED,
            f"{served}, context length not reported",
            "the horizon cannot be checked against it",
            _REMEDIES["the model's context length"],
        )
    return HealthCheck("model", CheckState.OK, f"{served}, {length:,} tokens of context")


def _capabilities(found: EndpointProfile) -> list[HealthCheck]:
    missing = {gap.what: gap for gap in found.missing}
    checks: list[HealthCheck] = []

    def check(name: str, available: bool, found_text: str, *gaps: str) -> None:
        gap = next((g for what, g in missing.items() if what in gaps or what.startswith(gaps)), None)
        if gap is None and available:
            checks.append(HealthCheck(name, CheckState.OK, found_text))
            return
        what = gap.what if gap else gaps[0]
        remedy = next((remedy for key, remedy in _REMEDIES.items() if what.startswith(key)), None)
        state = CheckState.DEGRADED if available else CheckState.MISSING
        checks.append(
            HealthCheck(name, state, what if available else f"no {what}", gap.cost if gap else None, remedy)
        )

    check("chat", "chat messages" not in missing, "messages are accepted", "chat messages")
    check("/tokenize", found.tokenize, "prompts are counted before they are sent", "/tokenize")
    mode = found.logprobs_mode or "mode unknown: the model was too sure of its first token"
    top = f"top {found.top_logprobs}, {mode}"
    check("logprobs", found.top_logprobs > 0, top, "logprobs", "20 top logprobs")
    if found.logprobs_mode == "processed_logprobs":
        checks[-1] = HealthCheck(
            "logprobs",
            CheckState.DEGRADED,
            top,
            "entropy is measured after penalties and temperature, so decodings cannot be compared by it",
            "vllm serve … --logprobs-mode raw_logprobs",
        )
    check("token ids", found.token_ids, "each chunk carries its token ids", "token ids")
    counted = "token counts while streaming" not in missing
    check("token counts", counted, "counted while streaming", "token counts while streaming")
    return checks


def _seeds(found: EndpointProfile) -> list[HealthCheck]:
    """Nothing, except for vLLM on the CPU: its room for a step is in no API."""
    if not found.on_cpu:
        return []
    words = "the server computes on the CPU"
    return [HealthCheck("seeds", CheckState.DEGRADED, words, f"{WHY_SEEDS_KILL} (2,048 unless set)", REMEDY)]


def _metrics(page: Any) -> HealthCheck:
    cost = "no KV-cache, queue or preemption evidence for the system plane"
    if not isinstance(page, HttpReply):
        return HealthCheck(
            "/metrics", CheckState.MISSING, "no vLLM metrics page", cost, _REMEDIES["vLLM's /metrics"]
        )
    if len(page.body) > MAX_PAGE:
        return HealthCheck(
            "/metrics",
            CheckState.DEGRADED,
            f"the page has {len(page.body) / 2**20:.0f} MiB; a measurement reads {MAX_PAGE // 2**20}",
            cost,
        )
    names = recognise_metrics(page.body.decode("utf-8", "replace"))
    parts = [f"{len(names.known)} metrics known"]
    if names.old:
        parts.append(f"older names in use: {', '.join(names.old)}")
    if names.absent:
        more = f" and {len(names.absent) - 4} more" if len(names.absent) > 4 else ""
        parts.append(f"not exposed: {', '.join(names.absent[:4])}{more}")
    if names.other:
        parts.append(f"{names.other} {'other' if names.other == 1 else 'others'} not needed")
    if names.absent:
        return HealthCheck(
            "/metrics", CheckState.DEGRADED, "; ".join(parts), "what is not exposed is shown as not measured"
        )
    return HealthCheck("/metrics", CheckState.OK, "; ".join(parts))


def _defaults(found: EndpointProfile) -> HealthCheck:
    settings = read_generation_config(found.root)
    if settings is None:
        return HealthCheck(
            "sampling defaults",
            CheckState.UNKNOWN,
            "no API reports them; vLLM prints them in its startup log",
            "options that are not sent take unknown defaults (temperature, penalties, max_new_tokens)",
            "stresstest doctor --log vllm.log, or set them: --temperature, --repetition-penalty",
        )
    values = ", ".join(f"{key} {value}" for key, value in settings.items()) or "none set by the model"
    if "max_new_tokens" in settings:
        # With --generation-config auto it is a default for requests without a limit, with a folder a cap.
        most = settings["max_new_tokens"]
        return HealthCheck(
            "sampling defaults",
            CheckState.DEGRADED,
            f"generation_config.json: {values}",
            f"requests without max_tokens end at {most}; every request does, if the server was started with "
            "--generation-config FOLDER or --override-generation-config",
            "vllm serve … --generation-config vllm",
        )
    return HealthCheck("sampling defaults", CheckState.OK, f"generation_config.json: {values}")


_GPU_CHECK = "GPU readings (NVML)"


def _gpus(base_url: str) -> HealthCheck:
    found = probe_gpus()
    if found.trouble is not None:
        return HealthCheck(
            _GPU_CHECK, CheckState.MISSING, found.trouble.rstrip("."), MISSING_GPUS_COST, found.remedy
        )
    names = ", ".join(f"GPU {d.gpu} {d.name or ''}".rstrip() for d in found.devices)
    if not is_local(base_url):
        why = f"driver {found.driver}, {names}; but the server is on another machine"
        return HealthCheck(_GPU_CHECK, CheckState.MISSING, why, MISSING_GPUS_COST, ELSEWHERE[1])
    reasons: dict[str, dict[str, None]] = {}
    for device in found.devices:
        for what, why in device.missing.items():
            reasons.setdefault(why, {})[what.replace("_", " ")] = None
    if reasons:
        gaps = "; ".join(f"{', '.join(what)} {why}" for why, what in reasons.items())
        cost = "values that are not reported are shown as not measured"
        return HealthCheck(_GPU_CHECK, CheckState.DEGRADED, f"driver {found.driver}, {names}; {gaps}", cost)
    return HealthCheck(_GPU_CHECK, CheckState.OK, f"driver {found.driver}, {names}")


def _clock() -> HealthCheck:
    steps: list[float] = []
    before = clock.now()
    while len(steps) < 50:
        now = clock.now()
        if now > before:
            steps.append(now - before)
            before = now
    resolution = min(steps)
    fine = resolution < 0.002
    return HealthCheck(
        "clock",
        CheckState.OK if fine else CheckState.DEGRADED,
        f"monotonic, steps of {resolution * 1e6:.1f} µs",
        None if fine else "shorter times between tokens cannot be distinguished",
    )


def _store(url: str | None) -> HealthCheck:
    from stresstest.store import open_store
    from stresstest.store.tables import SCHEMA_REVISION

    try:
        with open_store(url) as store:
            runs = len(store.runs())
            return HealthCheck(
                "store", CheckState.OK, f"{store.location}, schema {SCHEMA_REVISION}, runs: {runs:,}"
            )
    except (StoreError, UsageError) as error:
        return HealthCheck("store", CheckState.FAILED, str(error), "nothing can be kept", error.hint)
