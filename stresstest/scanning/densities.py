"""How many tokens a byte the healthy answers of a log have, which tells where in tokens another one fails.

Only answers of the same model in the same language tell, with no larger share of figures and signs than what
is to be dated: rows of figures have twice as many tokens a byte as prose.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from stresstest.model import GenerationVerdict
from stresstest.records import Record
from stresstest.records.record import utf8_size

_BYTES_A_TOKEN, _BEYOND_ASCII = 6, 9
"""Of prose, at most: what nine in ten answers in 15 languages have (o200k, the largest vocabulary at hand). A
text with fewer of them is taken to fail earlier than it does."""
_FEW = 10
_LEAST_HEALTHY = 8
"""Healthy answers from which the tokens a byte of a log are known."""
_MORE_SIGNS = 0.05
"""By which share of its bytes an answer may have more figures and signs than what is dated by it."""
_WORDS = bytes({*string.ascii_letters.encode(), *string.whitespace.encode(), *range(0x80, 0x100)})


def bytes_a_token(script: int) -> int:
    """Of prose, at most. script: bytes a character, rounded."""
    return _BYTES_A_TOKEN if script <= 1 else _BEYOND_ASCII


@dataclass(frozen=True, slots=True)
class _Healthy:
    """Of one healthy answer. script: bytes a character; signs: share of figures and signs among its bytes;
    density: tokens a byte."""

    script: int
    signs: float
    density: float


class Neighbours:
    """The healthy answers by which an answer is dated. They are measured when the first one has to be."""

    def __init__(self, records: Sequence[Record] = ()) -> None:
        self._records = records

    @cached_property
    def _healthy(self) -> list[_Healthy]:
        return [*map(_healthy, self._records)]

    def density(self, text: str) -> float:
        """Tokens a byte of a text: fewer than nine in ten of its neighbours have, as some are lists of names
        beside prose."""
        size = utf8_size(text)
        script = round(size / len(text)) if text else 1
        most = _sign_share(text) + _MORE_SIGNS
        alike = sorted(h.density for h in self._healthy if h.script == script and h.signs <= most)
        return alike[len(alike) // _FEW] if len(alike) >= _LEAST_HEALTHY else 1 / bytes_a_token(script)


class HealthyAnswers:
    """Those of some records that have a count, by model and language."""

    def __init__(
        self,
        records: Sequence[Record],
        verdicts: Sequence[GenerationVerdict],
        languages: Sequence[str | None],
    ) -> None:
        self._counted: dict[tuple[str | None, str | None], list[Record]] = {}
        self._known: dict[tuple[str | None, str | None], Neighbours] = {}
        for record, verdict, language in zip(records, verdicts, languages, strict=True):
            if record.completion_tokens and (record.reasoning or record.text) and not verdict.degenerate:
                self._counted.setdefault((record.model, language), []).append(record)

    def like(self, record: Record, language: str | None) -> Neighbours:
        """Those of its model in its language."""
        key = record.model, language
        if key not in self._known:
            self._known[key] = Neighbours(self._counted.get(key, ()))
        return self._known[key]


ALONE = HealthyAnswers((), (), ())
"""Of an answer without others."""


def _healthy(record: Record) -> _Healthy:
    text = record.reasoning + record.text
    size = utf8_size(text)
    return _Healthy(round(size / len(text)), _sign_share(text), (record.completion_tokens or 0) / size)


def _sign_share(text: str) -> float:
    """Share of figures and signs among the bytes of a text."""
    encoded = text.encode("utf-8", "replace")
    return len(encoded.translate(None, _WORDS)) / max(len(encoded), 1)
