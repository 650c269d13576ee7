"""Sustained surprisal: one token after another is unlikely to the model itself, and the text loses its sense.

Coherent text alternates between open and nearly certain tokens, so its mean surprisal (−ln p) is low. Where
penalties or a high temperature push the likely tokens out, or where the model is lost, every token is
surprising, while grammar and words may still look right.

Method: a one-sided CUSUM (Page, "Continuous inspection schemes", Biometrika 41, 1954) over the surprisal
above a reference level, dated to where the sum last left zero. It needs raw log probabilities, vLLM's
default.
"""

from __future__ import annotations

from stresstest.model import Symptom, SymptomKind, Token

REFERENCE_NATS = 3.5
"""Mean surprisal that never adds up: a perplexity of 33. Coherent answers of a real small instruct model, at
penalties up to 1.2 and temperatures up to 0.7, stay below it over 40 tokens; larger models are surer."""

LIMIT_NATS = 50.0
"""The sum that is reported: 25 tokens at 2 nats above the reference. In those answers it never exceeds 16."""

SLACK_NATS = 1.5
"""Where the distribution is open, the reference is its known entropy plus this."""

MAX_EXCESS_NATS = 6.5
"""The most that one token adds: a rare name or a token forced by a grammar is one odd token."""


class SurprisalDetector:
    """Online CUSUM over the surprisal; silent where the server sends no logprobs.

    Reports one symptom, without an end, with `direction`, `mean_surprisal` and `mean_entropy` (nats, from the
    onset to the alarm).
    """

    def __init__(self) -> None:
        self._position = 0
        self._sum = 0.0
        self._first = 0
        self._surprisal = 0.0
        self._entropy = 0.0
        self._found: list[Symptom] = []

    def update(self, token: Token) -> None:
        self._position += 1
        if token.logprob is None or token.entropy is None or token.reasoning or self._found:
            return
        surprisal, entropy = -token.logprob, token.entropy
        excess = min(surprisal - max(entropy + SLACK_NATS, REFERENCE_NATS), MAX_EXCESS_NATS)
        if excess > 0.0 and any(character.isdigit() for character in token.text):
            excess = 0.0  # digits of telephone numbers and keys are a free choice
        if self._sum == 0.0:
            self._first = self._position
            self._surprisal = self._entropy = 0.0
        self._surprisal += surprisal
        self._entropy += entropy
        self._sum = max(self._sum + excess, 0.0)
        if self._sum >= LIMIT_NATS:
            self._found.append(self._symptom())

    def finish(self, finish_reason: str | None) -> None:
        """Do nothing: a surprisal that has not added up is none."""

    @property
    def open_from(self) -> int | None:
        return None

    def symptoms(self) -> list[Symptom]:
        return self._found

    def _symptom(self) -> Symptom:
        tokens = self._position - self._first + 1
        surprisal, entropy = self._surprisal / tokens, self._entropy / tokens
        return Symptom(
            kind=SymptomKind.ENTROPY_SHIFT,
            onset=self._first,
            alarm=self._position,
            score=1.0,
            confirmed=True,
            detail={
                "direction": "up",
                "mean_surprisal": round(surprisal, 4),
                "mean_entropy": round(entropy, 4),
            },
            summary=(
                f"mean surprisal of {surprisal:.2f} nats over {tokens} tokens: coherent text stays below "
                f"{REFERENCE_NATS:g}"
            ),
        )
