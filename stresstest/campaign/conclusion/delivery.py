"""Whether tokens arrived at the pace at which the engine generated them.

vLLM's API process formats every token, and 20 logprobs quadruple that work. Where the engine is faster,
tokens queue between the two: latencies are then those of the queue, and a loop runs on while its first copies
are read.
"""

from __future__ import annotations

from collections.abc import Sequence

from stresstest.diagnosis.evidence.metrics_series import longest_gap, sessions_of, summarize_server
from stresstest.diagnosis.evidence.server import MAX_SAMPLE_AGE_S
from stresstest.model import GenerationRecord, ServerSample

_PACE = "inter_token_latency_seconds"
_SLOWER = 2.0
"""Tokens that arrive this many times as far apart as they were generated have queued. Other clients, whose
tokens are in the engine's mean as well, make smaller differences."""
_FEW_TOKENS = 1000


def slow_delivery_sentence(
    generations: Sequence[GenerationRecord], samples: Sequence[ServerSample], *, logprobs: bool
) -> str | None:
    """That the server's API process was slower than its engine; None if it was not, or if it is not known.

    samples: readings of /metrics, in order of time. logprobs: whether they were requested.
    """
    generated, arrived = _generated_apart(samples), _arrived_apart(generations)
    if generated is None or arrived is None or arrived < _SLOWER * generated:
        return None
    longest = max((longest_gap(s.at for s in part) for part in sessions_of(samples)), default=0.0)
    effects = ["latencies are those of the delivery", "loops ran on before they could be stopped"]
    if longest > MAX_SAMPLE_AGE_S:
        effects.append(f"/metrics could not be read for up to {longest:.0f} s")
    cause = "Logprobs are most of its work; --no-logprobs" if logprobs else "A lower --concurrency"
    or_fewer = ", like a lower --concurrency," if logprobs else ""
    return (
        f"Tokens arrived {_milliseconds(arrived)} apart, but were generated {_milliseconds(generated)} "
        f"apart: the server's API process was slower than its engine. So {', '.join(effects[:-1])} and "
        f"{effects[-1]}. Texts and limits are not affected. "
        f"{cause}{or_fewer} relieves it."
    )


def _generated_apart(samples: Sequence[ServerSample]) -> float | None:
    """Mean seconds between tokens where the engine generated them."""
    summary = summarize_server(samples)
    return None if summary is None else summary.means.get(_PACE)


def _arrived_apart(generations: Sequence[GenerationRecord]) -> float | None:
    """Mean seconds between tokens where they arrived; None with few tokens."""
    seconds, tokens = 0.0, 0
    for each in generations:
        if each.first_token is not None and each.output_tokens > 1:
            seconds += each.ended - each.first_token
            tokens += each.output_tokens - 1
    return seconds / tokens if tokens >= _FEW_TOKENS else None


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.{0 if seconds >= 0.01 else 1}f} ms"
