"""Where failing answers are cut to be continued, and up to where a continuation is watched. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor

from stresstest.diagnosis.evidence import lost
from stresstest.diagnosis.exact import LOOKS
from stresstest.model import Generation, SymptomKind, Token

MOST_FORKS = LOOKS[-1]
WINDOW = 1.5
"""A continuation is watched up to this multiple of the original onset, ..."""
MOST_PAST = 600
"""... but no more than so many tokens past it, unless `PAST_ONSET` is more."""
SHORT_CONTEXT = 0.75
"""The context arm must stay below this share of the onset, kept units included, to be a short context: where
that is less than `WINDOW`, all arms are watched that far only."""
PAST_ONSET = 0.2
LEAST_PAST = 64
"""Tokens past the original onset that are watched in any case."""
SENTENCES_BACK = 80
"""Tokens before the run at which text without units is cut: three or four sentences."""
KEPT_UNITS = 3
KEPT_SHARE = 0.3
"""Units kept by the context arm take at most this share of the onset, else the cut changes little."""

_REPEATS = frozenset({SymptomKind.LOOP, SymptomKind.NEAR_LOOP, SymptomKind.FLOODING})
_SENTENCE_END = re.compile(r"[.!?…。！？]\W*\s")


@dataclass(frozen=True, slots=True)
class Fork:
    """A failing answer, cut before its failure.

    cut: output tokens kept. kept_from: 1-based first token of what the context arm keeps. onset: of the
    original. window: last output token (counted in the original answer) at which an onset is a failure.
    units_before: units that the context arm leaves out.
    """

    source: Generation
    cut: int
    kept_from: int
    onset: int
    window: int
    units_before: int = 0

    @property
    def key(self) -> str:
        return f"{self.source.job.rung}/{self.source.job.index}"

    @property
    def history(self) -> tuple[Token, ...]:
        return self.source.tokens[: self.cut]

    @property
    def kept(self) -> tuple[Token, ...]:
        """What the context arm keeps of the history."""
        return self.source.tokens[self.kept_from - 1 : self.cut]

    @property
    def has_ids(self) -> bool:
        return all(token.id is not None for token in self.history)


def family(kind: SymptomKind | None) -> str:
    """Symptoms that one cause shows as: repetition, early end, or text that loses its form."""
    if kind in _REPEATS:
        return "repetition"
    return "truncation" if kind is SymptomKind.TRUNCATION else "incoherence"


def failing(generations: Sequence[Generation]) -> list[Generation]:
    """Degenerate generations, service failures left out, one a prompt, in key order."""
    found: dict[str, Generation] = {}
    for generation in sorted(generations, key=lambda g: (g.job.rung, g.job.index)):
        if generation.verdict.onset is not None and not lost(generation):
            found.setdefault(generation.prompt_id, generation)
    return list(found.values())


def choose_forks(
    generations: Sequence[Generation], pattern: str | None, *, needed: int, scratch: bool = False
) -> list[Fork]:
    """Forks of the failing generations with distinct prompts, at most `MOST_FORKS`.

    When one family of symptoms has `needed` prompts of its own, the others are left for a later link.
    scratch: nothing is kept, the prompts are asked anew.
    """
    every = failing(generations)
    families: dict[str, list[Generation]] = {}
    for generation in every:
        families.setdefault(family(generation.verdict.symptom), []).append(generation)
    largest = max(families.values(), key=len, default=[])
    chosen = largest if len(largest) >= needed else every
    return [cut(generation, pattern, scratch=scratch) for generation in chosen[:MOST_FORKS]]


def cut(generation: Generation, pattern: str | None, *, scratch: bool = False) -> Fork:
    """Cut one whole unit before the unit in which the run begins. Raises ValueError without an onset."""
    onset = generation.verdict.onset
    if onset is None:
        raise ValueError(f"{generation.key} has no onset")
    past = ceil(PAST_ONSET * onset)
    end = min(ceil(WINDOW * onset), onset + max(MOST_PAST, past))
    least = onset + max(LEAST_PAST, past)
    if scratch:
        return Fork(generation, 0, 1, onset, max(end, least))
    starts = unit_starts(generation.tokens[: onset - 1], pattern)
    begins = _run_start(generation, onset)
    kept = [start for start in starts if start <= begins][:-1]
    where = (kept[-1] if kept else 1) if pattern else _sentence_before(generation.tokens, begins)
    keep = where - 1
    kept_from = _kept_from(starts, where, onset)
    short = keep + floor(SHORT_CONTEXT * onset) - (where - kept_from)
    left_out = sum(start < kept_from for start in starts) if pattern else 0
    return Fork(generation, keep, kept_from, onset, max(least, min(end, short)), left_out)


def unit_starts(tokens: Sequence[Token], pattern: str | None) -> list[int]:
    """1-based tokens at which units begin; without a pattern, sentences."""
    offsets: list[int] = []
    pieces: list[str] = []
    at = 0
    for token in tokens:
        offsets.append(at)
        piece = "" if token.reasoning else token.text
        pieces.append(piece)
        at += len(piece)
    text = "".join(pieces)
    if pattern is not None:
        marks = [m.start() + len(m[0]) - len(m[0].lstrip()) for m in re.finditer(pattern, text, re.MULTILINE)]
    else:
        marks = [0, *(m.end() for m in _SENTENCE_END.finditer(text))] if text else []
    return sorted({bisect_right(offsets, mark) for mark in marks})


def _run_start(generation: Generation, onset: int) -> int:
    """First token of the run that the onset belongs to: a loop's first copy, else the onset."""
    starts = [s.start for s in generation.verdict.symptoms if s.confirmed and s.start and s.onset <= onset]
    return min([*starts, onset])


def _sentence_before(tokens: Sequence[Token], begins: int) -> int:
    latest = max(1, begins - SENTENCES_BACK)
    starts = [start for start in unit_starts(tokens[:begins], None) if start <= latest]
    return starts[-1] if starts else 1


def _kept_from(starts: Sequence[int], where: int, onset: int) -> int:
    """The earliest unit start that keeps at most three units and a small share of the answer."""
    before = [start for start in starts if start < where][-KEPT_UNITS:]
    short = [start for start in before if where - start <= KEPT_SHARE * onset]
    if short:
        return short[0]
    return before[-1] if before else where
