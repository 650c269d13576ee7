"""Determines where failing answers are cut and how far their continuations are observed. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor

from stresstest.detectors.entry import Family
from stresstest.detectors.registry import symptom_info
from stresstest.diagnosis.evidence.server import is_lost
from stresstest.diagnosis.intervention.exact import LOOK_SIZES
from stresstest.model import Generation, GenerationRecord, Token
from stresstest.model.tokens import IMPOSSIBLE_TEXTS
from stresstest.unit_pattern import UnitPattern

MAX_FORKS = LOOK_SIZES[-1]
WINDOW_FACTOR = 1.5
"""A continuation is observed up to this multiple of the original onset, ..."""
MAX_TOKENS_PAST_ONSET = 600
"""... but at most this many tokens past it, or `MIN_SHARE_PAST_ONSET` if that is more."""
MAX_SHORT_CONTEXT_SHARE = 0.75
"""The context arm must stay below this share of the onset, kept units included, to count as a short context;
if that limits its window, the windows of all arms are limited alike."""
MIN_SHARE_PAST_ONSET = 0.2
MIN_TOKENS_PAST_ONSET = 64
"""Minimum number of tokens observed past the original onset."""
SENTENCES_BACK = 80
"""Tokens before the run at which text without units is cut: three or four sentences."""
KEPT_UNITS = 3
KEPT_SHARE = 0.3
"""Maximum length of the units kept by the context arm, as a share of the onset, so that the context is
substantially shortened."""

_SENTENCE_END = re.compile(r"[.!?…。！？]\W*\s")


@dataclass(frozen=True, slots=True)
class Fork:
    """A failing answer, cut before its failure.

    cut: output tokens kept. kept_from: 1-based first token that the context arm keeps. onset: of the
    original. window: last output token (counted in the original answer) at which an onset counts as a
    failure. units_before: units that the context arm omits.
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
        return tuple(self.source.tokens[: self.cut])

    @property
    def kept_history(self) -> tuple[Token, ...]:
        """The part of the history that the context arm keeps."""
        return tuple(self.source.tokens[self.kept_from - 1 : self.cut])

    @property
    def has_ids(self) -> bool:
        """Whether each token has an id, and not all texts the same one, as some servers name it."""
        ids = {token.id for token in self.history}
        one_id = len(ids) == 1 and len({token.text for token in self.history}) >= IMPOSSIBLE_TEXTS
        return None not in ids and not one_id


def symptom_family(kind: str | None) -> str:
    """The group of symptoms with a common cause: "repetition", "truncation" or "incoherence"."""
    return str(Family.INCOHERENCE if kind is None else symptom_info(kind).family)


def select_failing(generations: Sequence[GenerationRecord]) -> list[GenerationRecord]:
    """Degenerate generations without service failures, one per prompt, by rung and index."""
    found: dict[str, GenerationRecord] = {}
    for generation in sorted(generations, key=lambda g: (g.job.rung, g.job.index)):
        if generation.verdict.onset is not None and not is_lost(generation):
            found.setdefault(generation.prompt_id, generation)
    return list(found.values())


def choose_sources(generations: Sequence[GenerationRecord], *, needed: int) -> list[GenerationRecord]:
    """The failing generations to fork, with distinct prompts, at most `MAX_FORKS`.

    If the largest family of symptoms has `needed` prompts, the other families are left to a later link.
    """
    every = select_failing(generations)
    families: dict[str, list[GenerationRecord]] = {}
    for generation in every:
        families.setdefault(symptom_family(generation.verdict.symptom), []).append(generation)
    largest = max(families.values(), key=len, default=[])
    chosen = largest if len(largest) >= needed else every
    return chosen[:MAX_FORKS]


def cut_fork(generation: Generation, pattern: str | None, *, scratch: bool = False) -> Fork:
    """Cut one complete unit before the unit in which the run begins. Raises ValueError without an onset.

    pattern: regex of the start of a unit; None cuts at a sentence. scratch: keep nothing and send the prompt
    again.
    """
    onset = generation.verdict.onset
    if onset is None:
        raise ValueError(f"{generation.key} has no onset")
    past = ceil(MIN_SHARE_PAST_ONSET * onset)
    end = min(ceil(WINDOW_FACTOR * onset), onset + max(MAX_TOKENS_PAST_ONSET, past))
    least = onset + max(MIN_TOKENS_PAST_ONSET, past)
    if scratch:
        return Fork(generation, 0, 1, onset, max(end, least))
    starts = unit_start_tokens(generation.tokens[: onset - 1], pattern)
    begins = _run_start(generation, onset)
    kept = [start for start in starts if start <= begins][:-1]
    where = (kept[-1] if kept else 1) if pattern else _sentence_before(generation.tokens, begins)
    keep = where - 1
    kept_from = _kept_from(starts, where, onset)
    short = keep + floor(MAX_SHORT_CONTEXT_SHARE * onset) - (where - kept_from)
    left_out = sum(start < kept_from for start in starts) if pattern else 0
    return Fork(generation, keep, kept_from, onset, max(least, min(end, short)), left_out)


def unit_start_tokens(tokens: Sequence[Token], pattern: str | None) -> list[int]:
    """1-based tokens at which units begin; without a pattern, those at which sentences begin."""
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
        marks = [m.start() + len(m[0]) - len(m[0].lstrip()) for m in UnitPattern(pattern).finditer(text)]
    else:
        marks = [0, *(m.end() for m in _SENTENCE_END.finditer(text))] if text else []
    return sorted({bisect_right(offsets, mark) for mark in marks})


def _run_start(generation: Generation, onset: int) -> int:
    """First token of the run that contains the onset: of a loop's first copy, otherwise the onset itself."""
    starts = [s.start for s in generation.verdict.symptoms if s.confirmed and s.start and s.onset <= onset]
    return min([*starts, onset])


def _sentence_before(tokens: Sequence[Token], begins: int) -> int:
    latest = max(1, begins - SENTENCES_BACK)
    starts = [start for start in unit_start_tokens(tokens[:begins], None) if start <= latest]
    return starts[-1] if starts else 1


def _kept_from(starts: Sequence[int], where: int, onset: int) -> int:
    """The earliest unit start that keeps at most `KEPT_UNITS` units and `KEPT_SHARE` of the onset."""
    before = [start for start in starts if start < where][-KEPT_UNITS:]
    short = [start for start in before if where - start <= KEPT_SHARE * onset]
    if short:
        return short[0]
    return before[-1] if before else where
