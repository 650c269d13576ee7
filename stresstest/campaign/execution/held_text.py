"""Onsets in text that came late: a parser of tools holds an argument back until it is closed.

Asked for token ids, vLLM sends an event without text for each token that its parser holds back, and then the
text of all of them in one. What fails in that text may have failed at any of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from stresstest.detectors.verdict import PositionMap
from stresstest.model import GenerationVerdict, Token

_LONGEST = 64
"""Characters that hardly any token has."""


def date_at_earliest(verdict: GenerationVerdict, tokens: Sequence[Token]) -> GenerationVerdict:
    """The verdict with an onset in a text that was held back at the first token that it may be of."""
    onset = verdict.onset
    if onset is None or onset > len(tokens) or len(tokens[onset - 1].text) <= _LONGEST:
        return verdict
    earliest = onset
    while earliest > 1 and not tokens[earliest - 2].text:
        earliest -= 1
    if earliest == onset:
        return verdict
    scale = PositionMap(
        verdict.tokens,
        first=lambda at: earliest if earliest <= at <= onset else at,
        last=lambda at: at,
    )
    return scale.verdict(verdict)
