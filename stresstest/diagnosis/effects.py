"""What a decoding that clears a failure does to healthy text: each fork before and after, in pairs. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median

from stresstest.diagnosis.forks import Fork
from stresstest.model import Change, Generation, Token

_WORD = re.compile(r"[^\W\d_]{2,}")
_SPAN = 50
"""Words of a window of the moving type-token ratio (Covington & McFall 2010)."""
_TERM = 6
"""Letters from which on a word counts as a term."""
_RECURS = 3
_FEWEST = 6

Measure = Callable[[Sequence[Token]], float | None]


def side_effects(forks: Sequence[Fork], after: Mapping[str, Generation]) -> tuple[Change, ...]:
    """Lexical diversity, recurring terms and entropy of continuations against as much text before the cut.

    after: the arm's generation by fork. Texts are compared up to the window's end, at equal length.
    """
    found = []
    for what, measure in (
        ("lexical diversity (share of distinct words in 50)", diversity),
        ("entropy (nats)", _entropy),
    ):
        pairs = []
        for fork in forks:
            pair = _sides(fork, after.get(fork.key))
            if pair is not None:
                pairs.append((measure(pair[0]), measure(pair[1])))
        found.append(_change(what, pairs))
    terms = []
    for fork in forks:
        pair = _sides(fork, after.get(fork.key))
        if pair is not None:
            terms.append(_terms(*pair))
    found.append(_change("recurring terms per 100 words", terms))
    return tuple(found)


def _sides(fork: Fork, generation: Generation | None) -> tuple[Sequence[Token], Sequence[Token]] | None:
    """The text before the cut and the continuation, at equal length; None where either is too short."""
    if generation is None:
        return None
    length = min(fork.cut, len(generation.tokens), fork.window - fork.cut)
    if length < _SPAN:
        return None
    return fork.history[-length:], generation.tokens[:length]


def _words(tokens: Sequence[Token]) -> list[str]:
    return [w.lower() for w in _WORD.findall("".join(t.text for t in tokens if not t.reasoning))]


def diversity(tokens: Sequence[Token]) -> float | None:
    """Mean share of distinct words in every window of 50 words; None for a shorter text."""
    words = _words(tokens)
    if len(words) < _SPAN:
        return None
    return fmean(len(set(words[i : i + _SPAN])) / _SPAN for i in range(len(words) - _SPAN + 1))


def _entropy(tokens: Sequence[Token]) -> float | None:
    known = [t.entropy for t in tokens if t.entropy is not None]
    return fmean(known) if len(known) >= _SPAN else None


def recurring_terms(tokens: Sequence[Token]) -> float | None:
    """Occurrences of terms that come three times or more, per 100 words; None for a short text."""
    words = _words(tokens)
    if len(words) < _SPAN:
        return None
    counts = Counter(w for w in words if len(w) >= _TERM)
    return 100.0 * sum(n for n in counts.values() if n >= _RECURS) / len(words)


def _terms(before: Sequence[Token], after: Sequence[Token]) -> tuple[float | None, float | None]:
    """How often the terms that recur in the text before the cut come, there and after it.

    A term that must be repeated (a name, a technical word) and is pushed out by a penalty shows here.
    """
    first, second = _words(before), _words(after)
    counts = Counter(w for w in first if len(w) >= _TERM)
    terms = {w for w, n in counts.items() if n >= _RECURS}
    if not terms or len(first) < _SPAN or len(second) < _SPAN:
        return None, None
    return tuple(100.0 * sum(w in terms for w in words) / len(words) for words in (first, second))  # type: ignore[return-value]


def _change(what: str, pairs: Sequence[tuple[float | None, float | None]]) -> Change:
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    if len(known) < _FEWEST:
        return Change(what, len(known))
    before, after = [a for a, _ in known], [b for _, b in known]
    p = None
    if any(a != b for a, b in known):
        from scipy.stats import wilcoxon

        p = float(wilcoxon(before, after).pvalue)
    return Change(what, len(known), median(before), median(after), p)
