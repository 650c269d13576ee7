"""Side effects on healthy text of a decoding that clears a failure, in pairs of text per fork. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean, median

from stresstest.diagnosis.intervention.forks import Fork
from stresstest.model import Generation, PairedEffect, Token

_WORD = re.compile(r"[^\W\d_]{2,}")
_WINDOW_WORDS = 50
"""Window of the moving-average type-token ratio, in words (Covington & McFall 2010)."""
_MIN_TERM_LETTERS = 6
"""Minimum length of a term, in letters."""
_RECURS = 3
_FEWEST = 6


def side_effects(forks: Sequence[Fork], after: Mapping[str, Generation]) -> tuple[PairedEffect, ...]:
    """Lexical diversity, recurring terms and entropy of the continuations against the text before the cut.

    after: the arm's generation by fork. Both texts have equal length, at most up to the end of the window.
    """
    pairs = [pair for fork in forks if (pair := _sides(fork, after.get(fork.key))) is not None]
    diversity = [(lexical_diversity(a), lexical_diversity(b)) for a, b in pairs]
    return (
        _change("lexical diversity (share of distinct words in 50)", diversity),
        _change("entropy (nats)", [(_entropy(a), _entropy(b)) for a, b in pairs]),
        _change("recurring terms per 100 words", [_terms(a, b) for a, b in pairs]),
    )


def _sides(fork: Fork, generation: Generation | None) -> tuple[Sequence[Token], Sequence[Token]] | None:
    """The text before the cut and the continuation, at equal length; None where either is too short."""
    if generation is None:
        return None
    length = min(fork.cut, len(generation.tokens), fork.window - fork.cut)
    if length < _WINDOW_WORDS:
        return None
    return fork.history[-length:], generation.tokens[:length]


def _words(tokens: Sequence[Token]) -> list[str]:
    return [w.lower() for w in _WORD.findall("".join(t.text for t in tokens if not t.reasoning))]


def lexical_diversity(tokens: Sequence[Token]) -> float | None:
    """Mean share of distinct words over all windows of 50 words; None for a shorter text."""
    words = _words(tokens)
    if len(words) < _WINDOW_WORDS:
        return None
    return fmean(
        len(set(words[i : i + _WINDOW_WORDS])) / _WINDOW_WORDS for i in range(len(words) - _WINDOW_WORDS + 1)
    )


def _entropy(tokens: Sequence[Token]) -> float | None:
    known = [t.entropy for t in tokens if t.entropy is not None]
    return fmean(known) if len(known) >= _WINDOW_WORDS else None


def recurring_terms(tokens: Sequence[Token]) -> float | None:
    """Occurrences of terms that appear at least three times, per 100 words; None below 50 words."""
    words = _words(tokens)
    if len(words) < _WINDOW_WORDS:
        return None
    counts = Counter(w for w in words if len(w) >= _MIN_TERM_LETTERS)
    return 100.0 * sum(n for n in counts.values() if n >= _RECURS) / len(words)


def _terms(before: Sequence[Token], after: Sequence[Token]) -> tuple[float | None, float | None]:
    """Frequency per 100 words, before and after the cut, of the terms that recur before it.

    It falls if a penalty suppresses terms that must be repeated (names, technical terms).
    """
    first, second = _words(before), _words(after)
    counts = Counter(w for w in first if len(w) >= _MIN_TERM_LETTERS)
    terms = {w for w, n in counts.items() if n >= _RECURS}
    if not terms or len(first) < _WINDOW_WORDS or len(second) < _WINDOW_WORDS:
        return None, None
    return tuple(100.0 * sum(w in terms for w in words) / len(words) for words in (first, second))  # type: ignore[return-value]


def _change(what: str, pairs: Sequence[tuple[float | None, float | None]]) -> PairedEffect:
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    if len(known) < _FEWEST:
        return PairedEffect(what, len(known))
    before, after = [a for a, _ in known], [b for _, b in known]
    p = None
    if any(a != b for a, b in known):
        from scipy.stats import wilcoxon

        p = float(wilcoxon(before, after).pvalue)
    return PairedEffect(what, len(known), median(before), median(after), p)
