"""Ablations of the prompt: compares fresh answers to differently worded prompts with the run's. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from stresstest.model import Ablation, GenerationRecord
from stresstest.statistics import onset_ratio

OPEN, LONGER = "open structure", "twice the length"
LONGER_PROMPTS = 6
"""One more than the ratio of medians requires."""
_OPEN_PROMPTS = range(3, 9)
_SEEN = 0.01
_FEWEST = 3


def open_prompts_needed(run: Sequence[GenerationRecord], window: int) -> int:
    """The smallest number of open prompts that would show an effect of the structure if none of them failed.

    run: the certifying answers; window: the last token considered.
    """
    from scipy.stats import fisher_exact

    failed, n = _counts_by(run, window, _median_onset(run, window))
    for many in _OPEN_PROMPTS:
        if n and fisher_exact([[0, many], [failed, n - failed]]).pvalue <= _SEEN:
            return many
    return _OPEN_PROMPTS[-1]


def compare_ablation(
    name: str, answers: Sequence[GenerationRecord], run: Sequence[GenerationRecord], window: int
) -> Ablation:
    """Compare an ablation with the run. answers: to the changed prompts, observed up to `window` tokens.
    run: the run's certifying answers."""
    place = _median_onset(run, window)
    here, there = _counts_by(answers, window, place), _counts_by(run, window, place)
    onsets = [o for g in answers if (o := g.verdict.onset) is not None and o <= window]
    own = [o for g in run if (o := g.verdict.onset) is not None and o <= window]
    ratio = onset_ratio(own, onsets)
    p = None
    if here[1] and there[1]:
        from scipy.stats import fisher_exact

        p = float(fisher_exact([[here[0], here[1] - here[0]], [there[0], there[1] - there[0]]]).pvalue)
    found = Ablation(
        name,
        n=here[1],
        failed=here[0],
        run_n=there[1],
        run_failed=there[0],
        p=p,
        ratio=None if ratio is None else ratio.ratio,
        lo=None if ratio is None else ratio.lo,
        hi=None if ratio is None else ratio.hi,
        independent=None if ratio is None else ratio.independent,
        sentence="",
    )
    return replace(found, sentence=_sentence(found, window))


def _median_onset(run: Sequence[GenerationRecord], window: int) -> float:
    """Median of the run's onsets in the window; the window itself without any."""
    onsets = [o for g in run if (o := g.verdict.onset) is not None and o <= window]
    return median(onsets) if onsets else float(window)


def _counts_by(answers: Sequence[GenerationRecord], window: int, place: float) -> tuple[int, int]:
    """(answers degenerate by `window`, answers that either failed or were healthy past `place`).

    Answers that ended before `place` are excluded, because they could not have failed there.
    """
    failed = sum(1 for g in answers if g.verdict.onset is not None and g.verdict.onset <= window)
    healthy = sum(
        1
        for g in answers
        if (g.verdict.onset is None or g.verdict.onset > window) and g.verdict.observed > place
    )
    return failed, failed + healthy


def _sentence(found: Ablation, window: int) -> str:
    """window: the counts are of failures up to there, so they can be fewer than the run's at any length."""
    if found.name == OPEN:
        counts = (
            f"Asked without numbered paragraphs, {found.failed} of {found.n} answers fail by token "
            f"{window:,} (with them: {found.run_failed} of {found.run_n})"
        )
        less = found.failed * found.run_n < found.run_failed * found.n
        if less and found.p is not None and found.p <= 0.05:
            return f"{counts}: the numbering matters (p = {found.p:.2g})."
        if found.n >= _FEWEST and 2 * found.failed * found.run_n >= found.run_failed * found.n:
            known = "" if found.p is None else f" (p = {found.p:.2g} for a difference)"
            return f"{counts}: they fail without the numbering, too{known}."
        return f"{counts}: too few got that far to tell."
    run = f"{found.run_failed} of the run's {found.run_n}"
    counts = f"{found.failed} of {found.n} fail by token {window:,}, against {run}"
    if found.ratio is None:
        return f"With twice the length requested, {counts}; too few onsets for a ratio."
    ratio = f"onsets come at {found.ratio:.2f} times the place (90 % interval {found.lo:.2f}-{found.hi:.2f})"
    verdict = "independent of the requested length" if found.independent else "independence is not shown"
    return f"With twice the length requested, {ratio}: {verdict}."
