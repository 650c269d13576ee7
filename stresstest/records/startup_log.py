"""A vLLM startup log as facts: 0.15 to 0.33, GPU or CPU, with or without process prefixes and colours.

Every line is matched on its own and unknown lines are passed over, so a log may begin anywhere, hold
several starts (the last one counts) or be wrapped by a container's own prefixes. Wording as in vLLM's own
sources and in logs that its users published.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any

from stresstest.config.credentials.texts import hide_credentials

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
LONGEST_LINE = 16_384
"""Characters of a line that are read."""
_MOST_GRAPHS = 16
"""Kinds of CUDA graphs: vLLM has two."""


@dataclass(frozen=True, slots=True)
class KvShortage:
    """vLLM refused to start: the KV cache that one request of full length needs is not there.

    needed/available: GiB. max_model_len: tokens requested. estimated: the longest that would fit, by vLLM.
    available None: nothing at all was left for the cache.
    """

    max_model_len: int | None = None
    needed: float | None = None
    available: float | None = None
    estimated: int | None = None


@dataclass(frozen=True, slots=True)
class StartupFacts:
    """Facts from a startup log. Sizes in GiB, times in seconds, lengths in tokens; None: not in the log.

    graphs: CUDA graphs captured by kind. weights_gib: of the largest worker. kv_cache_tokens: of the
    smallest worker. lines: lines read; known: lines that were recognised.
    """

    version: str | None = None
    model: str | None = None
    architecture: str | None = None
    dtype: str | None = None
    quantization: str | None = None
    kernel: str | None = None
    attention: str | None = None
    max_model_len: int | None = None
    tensor_parallel: int | None = None
    device: str | None = None
    kv_cache_dtype: str | None = None
    weights_gib: float | None = None
    weights_seconds: float | None = None
    loading_seconds: float | None = None
    compile_seconds: float | None = None
    kv_cache_gib: float | None = None
    kv_cache_tokens: int | None = None
    concurrency: float | None = None
    graphs: dict[str, int] = field(default_factory=dict)
    graph_gib: float | None = None
    graph_seconds: float | None = None
    chunked_prefill: bool | None = None
    batched_tokens: int | None = None
    prefix_caching: bool | None = None
    eager: bool | None = None
    utilization: float | None = None
    total_gib: float | None = None
    max_num_seqs: int | None = None
    init_seconds: float | None = None
    sampling_defaults: str | None = None
    ready: bool = False
    shortage: KvShortage | None = None
    out_of_memory: str | None = None
    error: str | None = None
    lines: int = 0
    known: int = 0


def read_startup_log(lines: Iterable[str]) -> StartupFacts:
    """The facts of a log, line by line; never raises for what a line holds."""
    facts = StartupFacts()
    total = 0
    for raw in lines:
        total += 1
        line = _COLOUR.sub("", raw[:LONGEST_LINE]).rstrip()
        if _BEGINS.search(line) and (facts.ready or facts.error or facts.shortage):
            facts = StartupFacts()  # the log continues with another start
        for pattern, apply in _RULES:
            found = pattern.search(line)
            if found is not None:
                with suppress(ValueError):  # a figure that was cut off, as in a log that was shortened
                    facts = replace(apply(facts, found), known=facts.known + 1)
    return replace(_without_credentials(facts), lines=total)


def _without_credentials(facts: StartupFacts) -> StartupFacts:
    """What is told of a log is pasted into issues: it holds no password of a proxy, no key."""
    values: dict[str, Any] = {each.name: getattr(facts, each.name) for each in fields(facts)}
    texts = {name: hide_credentials(text) for name, text in values.items() if isinstance(text, str)}
    return replace(facts, **texts)  # type: ignore[arg-type]


_Apply = Callable[[StartupFacts, "re.Match[str]"], StartupFacts]


def _int(text: str) -> int:
    return int(text.replace(",", "").replace("_", "")[:15] or 0)


def _set(*names: str, convert: Callable[[str], Any] = str) -> _Apply:
    def apply(facts: StartupFacts, found: re.Match[str]) -> StartupFacts:
        values = {name: convert(text) for name, text in zip(names, found.groups(), strict=True)}
        return replace(facts, **values)

    return apply


def _flag(name: str, value: bool) -> _Apply:
    values: dict[str, Any] = {name: value}
    return lambda facts, _found: replace(facts, **values)


def _extreme(name: str, convert: Callable[[str], Any], choose: Callable[..., Any]) -> _Apply:
    """Several workers say the same with their own numbers: the one that limits counts."""

    def apply(facts: StartupFacts, found: re.Match[str]) -> StartupFacts:
        value, before = convert(found.group(1)), getattr(facts, name)
        return replace(facts, **{name: value if before is None else choose(before, value)})

    return apply


_WANTED: dict[str, tuple[str, Callable[[str], Any]]] = {
    "model": ("model", str),
    "dtype": ("dtype", lambda text: text.removeprefix("torch.")),
    "max_seq_len": ("max_model_len", _int),
    "quantization": ("quantization", str),
    "tensor_parallel_size": ("tensor_parallel", _int),
    "kv_cache_dtype": ("kv_cache_dtype", str),
    "device_config": ("device", str),
}
_SWITCHES = {
    "enforce_eager": "eager",
    "enable_prefix_caching": "prefix_caching",
    "enable_chunked_prefill": "chunked_prefill",
    "chunked_prefill_enabled": "chunked_prefill",
}
_PAIR = re.compile(r"\b(\w+)=('[^']*'|\"[^\"]*\"|[^,\s]+)")


def _engine_config(facts: StartupFacts, found: re.Match[str]) -> StartupFacts:
    """The one long line that holds the whole configuration."""
    values: dict[str, Any] = {"version": found.group(1)}
    for key, raw in _PAIR.findall(found.group(2)):
        text = raw.strip("'\"")
        if key in _WANTED and text != "None":
            name, convert = _WANTED[key]
            if name not in values and (name != "quantization" or facts.quantization is None):
                values[name] = convert(text)
        elif key in _SWITCHES and text in {"True", "False"}:
            values.setdefault(_SWITCHES[key], text == "True")
    return replace(facts, **values)


def _arguments(facts: StartupFacts, found: re.Match[str]) -> StartupFacts:
    text = found.group(1)
    values: dict[str, Any] = {}
    share = re.search(rf"'gpu_memory_utilization': {_F}", text)
    seqs = re.search(r"'max_num_seqs': (\d+)", text)
    if share:
        values["utilization"] = float(share.group(1))
    if seqs:
        values["max_num_seqs"] = _int(seqs.group(1))
    return replace(facts, **values)


def _graphs(facts: StartupFacts, found: re.Match[str]) -> StartupFacts:
    if len(facts.graphs) >= _MOST_GRAPHS:
        return facts
    return replace(facts, graphs={**facts.graphs, found.group(1).strip(): _int(found.group(2))})


def _parse_shortage(facts: StartupFacts, found: re.Match[str]) -> StartupFacts:
    estimated = found.group(4)
    shortage = KvShortage(
        _int(found.group(1)),
        float(found.group(2)),
        float(found.group(3)),
        _int(estimated) if estimated else None,
    )
    return replace(facts, shortage=shortage, ready=False)


def _old_shortage(facts: StartupFacts, found: re.Match[str]) -> StartupFacts:
    return replace(
        facts, shortage=KvShortage(_int(found.group(1)), estimated=_int(found.group(2))), ready=False
    )


def _nothing_left(facts: StartupFacts, _found: re.Match[str]) -> StartupFacts:
    return replace(facts, shortage=facts.shortage or KvShortage(facts.max_model_len), ready=False)


def _error(facts: StartupFacts, found: re.Match[str]) -> StartupFacts:
    # The first error is the cause; what follows (engine core failed, see root cause above) is its echo.
    # Warnings quote errors that were survived, and a server that is ready answers bad requests with some.
    survived = facts.ready or _SURVIVED.search(found.string) is not None
    return facts if facts.error or survived else replace(facts, error=found.group(1)[:400])


def _ended(facts: StartupFacts, found: re.Match[str]) -> StartupFacts:
    """The end of the server, also of one that was ready."""
    return replace(facts, error=facts.error or found.group(1)[:400], ready=False)


_SURVIVED = re.compile(r"\b(?:INFO|WARNING|DEBUG)(?::|\s+[\d\[])")
"""A level as a line of vLLM, uvicorn or Python's logging begins; NCCL_DEBUG=INFO within an error is none."""
_BEGINS = re.compile(r"vLLM API server version|non-default args:|█\s+version \d")
_N = r"([\d,_]+)"
_F = r"(\d{1,12}(?:\.\d{1,12})?)"
_DICT = r"(\{[^{}]{0,2000}\})"
_ATTENTION = "Flash ?Attention|FlashInfer|Triton|XFormers|Flex ?Attention|Torch SDPA"
_OVERRIDDEN = rf"(?:have been|were) overridden[^{{]{{0,200}}: ?`?{_DICT}"
_SIGNALS = "Killed|Segmentation fault|Bus error|Aborted"
"""What a shell says of a process that a signal ended."""
_NEEDED = (
    rf"{_F} GiB KV cache is needed, which is larger than the available "
    rf"KV cache memory \({_F} GiB\)(?:.{{0,200}}?estimated maximum model length is {_N})?"
)
_MEMORY = _set("total_gib", "utilization", convert=float)
_GRAPH_COST = _set("graph_seconds", "graph_gib", convert=float)
# A line may begin a rule a thousand times over: what takes blanks has a bound, or is the end of its rule.
_RULES: tuple[tuple[re.Pattern[str], _Apply], ...] = tuple(
    (re.compile(pattern), apply)
    for pattern, apply in (
        (r"vLLM API server version ([\w.+-]+)", _set("version")),
        (r"█\s{1,9}version ([\w.+-]+)$", _set("version")),
        (r"█\s{1,9}model\s{1,9}(\S+)", _set("model")),
        (r"non-default args: (.*)", _arguments),
        (r"Initializing an? (?:V\d )?LLM engine \(v([\w.+-]+)\) with config: (.*)", _engine_config),
        (r"Resolved architecture: (\w+)", _set("architecture")),
        (rf"Using max model len {_N}", _set("max_model_len", convert=_int)),
        (rf"Auto-fit max_model_len: reduced from [\d,]+ to {_N}", _set("max_model_len", convert=_int)),
        (r"convertible to (\w+) during runtime\. Using (\w+) kernel", _set("quantization", "kernel")),
        (r"(?:Using|Selected) (?=\w+(?:Linear|Kernel))(\w+) for \w+", _set("kernel")),
        (r"Using ([\w. -]{1,60}?) attention backend\b", _set("attention")),
        (rf"(?i)Using ({_ATTENTION})\b.{{0,100}} backend", _set("attention")),
        (r"Using AttentionBackendEnum\.(\w+)", _set("attention")),
        (rf"Loading weights took {_F} s", _extreme("weights_seconds", float, max)),
        (rf"Model loading took {_F} Gi?B", _extreme("weights_gib", float, max)),
        (rf"Model loading took [\d.]+ Gi?B(?: memory)? and {_F} s", _extreme("loading_seconds", float, max)),
        (rf"Loading model weights took {_F} Gi?B", _extreme("weights_gib", float, max)),
        (rf"model weights take {_F} ?GiB", _extreme("weights_gib", float, max)),
        (rf"total_gpu_memory \({_F} ?GiB\) x gpu_memory_utilization \({_F}\)", _MEMORY),
        (rf"has a total capacity of {_F} GiB", _set("total_gib", convert=float)),
        (rf"torch\.compile (?:takes|took) {_F} s in total", _extreme("compile_seconds", float, max)),
        (rf"Available KV cache memory: {_F} GiB", _extreme("kv_cache_gib", float, min)),
        (rf"Explicitly set \({_F}/[\d.]+\) GiB for KV cache", _extreme("kv_cache_gib", float, min)),
        (rf"memory reserved for KV Cache is {_F} ?GiB", _extreme("kv_cache_gib", float, min)),
        (rf"KV cache size: {_N} tokens", _extreme("kv_cache_tokens", _int, min)),
        (rf"Maximum concurrency for [\d,]+ tokens per request: {_F}x", _extreme("concurrency", float, min)),
        (r"Capturing CUDA graphs? \(([^)]{1,60})\): 100%\D{0,200}(\d+)/\d+", _graphs),
        (rf"Graph capturing finished in {_F} secs, took {_F} GiB", _GRAPH_COST),
        (
            rf"Chunked prefill is enabled with max_num_batched_tokens={_N}",
            _set("batched_tokens", convert=_int),
        ),
        (r"Chunked prefill is enabled", _flag("chunked_prefill", True)),
        (r"Enforce eager set|enforce-eager|Cudagraph is disabled under eager mode", _flag("eager", True)),
        (r"(?i)prefix caching[^.]{0,200}\bdisabled", _flag("prefix_caching", False)),
        (rf"init engine \(.{{0,200}}\) took {_F} s", _set("init_seconds", convert=float)),
        (rf"[Dd]efault (?:vLLM )?sampling param\w* {_OVERRIDDEN}", _set("sampling_defaults")),
        (
            rf"Using default (?:chat |completion )?sampling params from model: {_DICT}",
            _set("sampling_defaults"),
        ),
        (r"Starting vLLM (?:API )?server|Application startup complete", _flag("ready", True)),
        (rf"max seq len \({_N}\),? \(?{_NEEDED}", _parse_shortage),
        (
            rf"max seq len \({_N}\) is larger than the maximum number of tokens .{{1,100}} KV cache \({_N}\)",
            _old_shortage,
        ),
        (r"No available memory for the cache blocks", _nothing_left),
        (r"((?:torch\.)?(?:cuda\.)?OutOfMemoryError: .*)", _set("out_of_memory")),
        (r"\b((?:EngineDeadError\b|Engine core initialization failed).*)", _ended),
        (
            rf"^(?:[^|]{{0,60}}\|\s{{0,9}})?((?:{_SIGNALS})(?: \(core dumped\))?)$",
            _ended,
        ),
        (r"(?:^|[\s.])([A-Z]\w{0,60}(?:Error|Exception))$", _error),
        (r"(?:^|[\s.])([A-Z]\w{0,60}(?:Error|Exception): .*)", _error),
    )
)
