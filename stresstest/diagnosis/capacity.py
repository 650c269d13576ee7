"""Explains KV cache shortages at server start, and computes how many long requests a KV cache holds.

All numbers are computed from those of a startup log; nothing is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

from stresstest.model.percent import percent

LENGTH_MARGIN = 0.05
"""Safety margin subtracted from vLLM's estimated maximum length, which is exact to the block."""
_STEP = 256
_LEAST_UTILIZATION, _MOST_UTILIZATION = 0.9, 0.97


@dataclass(frozen=True, slots=True)
class StartOption:
    """One way to make a server start. because: the arithmetic behind the flag."""

    flag: str
    because: str


@dataclass(frozen=True, slots=True)
class FailureChain:
    """Why a server did not start, as a sequence of sentences, and the options to fix it.

    kib_per_token: KV cache per token. missing_gib: memory needed for the length beyond what is available.
    """

    sentences: tuple[str, ...]
    options: tuple[StartOption, ...]
    kib_per_token: float | None = None
    missing_gib: float | None = None


def explain_kv_shortage(
    *,
    max_model_len: int | None,
    needed_gib: float | None,
    available_gib: float | None,
    estimated: int | None,
    weights_gib: float | None,
    utilization: float | None,
    total_gib: float | None,
    kv_cache_dtype: str | None = None,
) -> FailureChain:
    """Explain vLLM's error "KV cache is needed, which is larger than the available KV cache memory".

    Sizes in GiB, lengths in tokens, None if not in the log. utilization: gpu-memory-utilization, 0-1.
    estimated: vLLM's estimate of the maximum length. total_gib: the device's memory.
    """
    sentences: list[str] = []
    options: list[StartOption] = []
    share = utilization or _LEAST_UTILIZATION
    if total_gib is not None:
        sentences.append(
            f"vLLM may use {total_gib:.2f} GiB × {share:g} (gpu-memory-utilization) = "
            f"{total_gib * share:.2f} GiB."
        )
    if weights_gib is not None and available_gib is not None:
        sentences.append(
            f"The weights take {weights_gib:.2f} GiB; after activations and CUDA graphs "
            f"{available_gib:.2f} GiB are left for the KV cache."
        )
    elif available_gib is not None:
        sentences.append(f"After weights and activations {available_gib:.2f} GiB are left for the KV cache.")
    else:
        sentences.append("After weights and activations nothing is left for the KV cache.")
    per_token = missing = None
    if needed_gib is not None and max_model_len:
        per_token = needed_gib * 1024 * 1024 / max_model_len
        over = None if available_gib is None else needed_gib - available_gib
        more = "" if over is None else f", {over:.2f} GiB more than there is"
        sentences.append(
            f"One request of {max_model_len:,} tokens needs {needed_gib:.2f} GiB "
            f"({per_token:.1f} KiB a token){more}."
        )
    longest = estimated
    if longest is None and per_token and available_gib:
        longest = floor(available_gib * 1024 * 1024 / per_token)
    if longest:
        safe = max(1, floor(longest * (1 - LENGTH_MARGIN)))
        safe = safe // _STEP * _STEP if safe >= 2 * _STEP else safe
        options.append(
            StartOption(
                f"--max-model-len {safe}",
                f"{longest:,} tokens would just fit; {percent(LENGTH_MARGIN)} less and rounded down",
            )
        )
    if needed_gib is not None and available_gib is not None:
        missing = max(0.0, needed_gib - available_gib)
        options += _more_memory(missing, share, total_gib)
        if not (kv_cache_dtype or "auto").startswith("fp8"):
            fits = "fits" if needed_gib / 2 <= available_gib else "still does not fit"
            options.append(
                StartOption(
                    "--kv-cache-dtype fp8",
                    f"halves the need to {needed_gib / 2:.2f} GiB: {fits}; check the answers",
                )
            )
        if weights_gib is not None:
            options.append(
                StartOption(
                    "a smaller quantization",
                    f"weights of {max(0.0, weights_gib - missing):.2f} GiB at most, not {weights_gib:.2f}",
                )
            )
    options.append(
        StartOption(
            "--max-num-seqs 16",
            "fewer sequences take less for activations and CUDA graphs; how much is not in the log",
        )
    )
    return FailureChain(tuple(sentences), tuple(options), per_token, missing)


def _more_memory(missing: float, share: float, total_gib: float | None) -> list[StartOption]:
    if not total_gib:
        what = f"{missing:.2f} GiB ÷ the GPU's memory in GiB, added to {share:g}"
        return [StartOption("--gpu-memory-utilization", what)]
    wanted = share + missing / total_gib
    if wanted > _MOST_UTILIZATION:
        return [
            StartOption(
                f"--gpu-memory-utilization {_MOST_UTILIZATION}",
                f"is not enough: {share:g} + {missing:.2f} ÷ {total_gib:.2f} GiB = {wanted:.2f}",
            )
        ]
    # Rounded up, because the server would not start with any less.
    return [
        StartOption(
            f"--gpu-memory-utilization {floor(wanted * 100 + 1) / 100:.2f}",
            f"{share:g} + {missing:.2f} ÷ {total_gib:.2f} GiB = {wanted:.3f}, if nothing else uses the GPU",
        )
    ]


@dataclass(frozen=True, slots=True)
class KvCapacity:
    """How many requests a KV cache holds. Sizes in tokens, shares 0-1.

    safe: safe max_tokens. at_safe, at_full_length: concurrent requests of `prompt + safe` tokens and of the
    full context length (limited by max_num_seqs if known). loop_tokens: held by one request that loops to the
    end of its context; loop_share: as a share of the cache.
    """

    kv_cache_tokens: int
    prompt_tokens: int
    safe: int | None
    at_safe: int | None
    at_full_length: int | None
    loop_tokens: int | None
    loop_share: float | None


def kv_capacity(
    kv_cache_tokens: int,
    max_model_len: int | None,
    safe: int | None,
    *,
    prompt_tokens: int,
    max_num_seqs: int | None = None,
) -> KvCapacity:
    """The concurrent requests that fit at the safe max_tokens, and the tokens that one loop holds."""

    def fitting(length: int) -> int:
        held = kv_cache_tokens // max(1, length)
        return min(held, max_num_seqs) if max_num_seqs else held

    loop = min(max_model_len, kv_cache_tokens) if max_model_len else None
    return KvCapacity(
        kv_cache_tokens=kv_cache_tokens,
        prompt_tokens=prompt_tokens,
        safe=safe,
        at_safe=fitting(prompt_tokens + safe) if safe else None,
        at_full_length=fitting(max_model_len) if max_model_len else None,
        loop_tokens=loop,
        loop_share=loop / kv_cache_tokens if loop and kv_cache_tokens else None,
    )
