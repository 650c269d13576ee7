"""vLLM on the CPU: how it shows, and why requests with a seed can end it.

A prompt that does not fit into a step is read in parts, and vLLM then sets back the request's random
generator, which PyTorch's generator on the CPU cannot do: "CPU Generator does not use offset" ends the engine
(seen with 0.32). What has to fit is all that the prompts in flight bring into one step.
"""

from __future__ import annotations

from collections.abc import Mapping

ROOMY_STEP = 16_384
"""Tokens a step with which no prompt of a measurement is read in parts."""
WHY_SEEDS_KILL = (
    "vLLM on the CPU dies when a request with a seed is read in parts ('CPU Generator does not use offset'), "
    "because more prompt tokens arrive at once than --max-num-batched-tokens"
)
REMEDY = f"start vLLM with --max-num-batched-tokens {ROOMY_STEP}, or measure with --no-seed"
SEEDS_MAY_HAVE_KILLED = f"The likely cause: {WHY_SEEDS_KILL}. To fix it, {REMEDY}."


def computes_on_cpu(cache: Mapping[str, str]) -> bool:
    """Whether these labels of `vllm:cache_config_info` are those of vLLM on the CPU.

    There the cache's size is set in bytes, and its blocks have 128 tokens if the user says nothing. False
    where that cannot be told.
    """
    if cache.get("cpu_kvcache_space_bytes", "").isdecimal():
        return True
    default = (cache.get("user_specified_block_size"), cache.get("block_size")) == ("False", "128")
    return default and cache.get("kv_cache_memory_bytes", "").isdecimal()
