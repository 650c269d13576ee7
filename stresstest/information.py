"""Entropy of a token's distribution from what a server reveals of it."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log


def entropy_bound(logprobs: Sequence[float]) -> float:
    """Lower bound of the entropy, in nats, from the top-k log-probabilities.

    The mass that the top k leave over is taken as one outcome; spreading it over the rest of the
    vocabulary can only add entropy, so this is a bound from below, tight when the residual is small.
    What is no log-probability is taken as the nearest one (above 0: certainty) or left out (NaN).
    """
    total = 0.0
    entropy = 0.0
    for lp in logprobs:
        if lp > -60.0:
            p = exp(lp) if lp < 0.0 else 1.0
            total += p
            entropy -= p * min(lp, 0.0)
    residual = 1.0 - total
    if residual > 1e-12:
        entropy -= residual * log(residual)
    return entropy if entropy > 0.0 else 0.0
