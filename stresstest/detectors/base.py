"""What every detector of the panel offers, and what the panel is told of a generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from stresstest.model import Symptom, Token


@dataclass(frozen=True, slots=True)
class PanelSpec:
    """What is known of a generation before its first token.

    language: ISO 639-1 code the answer is wanted in, None when unknown (no language verdicts).
    unit_pattern: regex whose group 1 is the unit's number, None for unstructured output.
    units: how many units were asked for, if any. prompt_text: what was asked; its own template is
    exempt from loop detection and its language samples are not the answer's.
    """

    language: str | None = None
    unit_pattern: str | None = None
    units: int | None = None
    prompt_text: str = ""


class Detector(Protocol):
    """An online detector: O(1) amortised a token, same answer online and over a stored generation."""

    @property
    def open_from(self) -> int | None:
        """First token not yet known healthy (an open candidate, an unfinished sentence or unit)."""

    def update(self, token: Token) -> None:
        """Take the next output token; positions are counted from 1 by the detector itself."""

    def finish(self, finish_reason: str | None) -> None:
        """The output has ended ("stop", "length", None when it was lost); judge what was pending."""

    def symptoms(self) -> list[Symptom]:
        """All symptoms so far, in order of onset; a symptom's onset never changes once reported."""


class Reader(Detector, Protocol):
    """A detector that can take a whole answer at once, many times faster."""

    def read(self, texts: Sequence[str]) -> None:
        """The texts of all tokens, without ids or reasoning, instead of `update` with each token."""
