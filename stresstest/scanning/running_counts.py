"""Whether a log's token counts are sums of running counts.

APIs that stream tell with each event how many tokens there are so far (Gemini's, vLLM's
`continuous_usage_stats`), and clients have added these up (LangChain.js): the sum grows with the square of
the answer's length. No tokenizer makes more tokens a byte of long texts than of short ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from statistics import StatisticsError, correlation, linear_regression, pstdev

_FEWEST = 8
_LEAST_SPREAD = 0.2
"""Standard deviation of the logarithm of sizes below which nothing can be told."""
_LEAST_GROWTH, _LEAST_CORRELATION = 0.3, 0.6
"""Of tokens a byte with bytes, on logarithmic scales. Of 4,107 samples of 8 to 300 answers of 29 models and
15 languages, with the true counts of two tokenizers, 22 have more; of those with sums over 10 tokens at a
time, 75 to 95 % do, with sums over 110, 58 to 76 %."""


def are_running_sums(counts: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether the answers' tokens a byte grow with their sizes as those of sums do. sizes: bytes, above 0."""
    if len(counts) < _FEWEST:
        return False
    x = [log(size) for size in sizes]
    y = [log(count / size) for count, size in zip(counts, sizes, strict=True)]
    try:
        if pstdev(x) < _LEAST_SPREAD or correlation(x, y) < _LEAST_CORRELATION:
            return False
        return linear_regression(x, y).slope >= _LEAST_GROWTH
    except StatisticsError:  # all equally dense
        return False
