"""Sentences that describe a diagnosis: a link of the chain, a decoding, a split. Pure."""

from __future__ import annotations

from stresstest.detectors.registry import symptom_info
from stresstest.diagnosis.intervention.arms import ALONE
from stresstest.diagnosis.intervention.exact import MAX_REMAINING_RATE
from stresstest.model import Arm, ArmResult, Basis, CauseLink, Decoding, Plane, SplitRemedy
from stresstest.model.percent import percent

_ROUNDED = 10
_CAUSES = {Plane.SYSTEM: "the system", Plane.DECODING: "decoding", Plane.CONTEXT: "the context"}


def link_sentence(link: CauseLink) -> str:
    """The link in words, without a full stop, e.g. "loop from about token 900 (median of the tested
    answers), caused by decoding; confirmed: it goes away with repetition_penalty 1.15"."""
    what = failure_name(link)
    if link.median_onset is not None:
        what += f" from about token {rounded_tokens(link.median_onset):,} (median of the tested answers)"
    if link.plane is None:
        return f"{what}: inconclusive, {link.lacking}"
    words = f"{what}, caused by {_CAUSES[link.plane]}"
    if link.basis is Basis.OBSERVED:
        words += " (observed)"
    elif link.plane is Plane.SYSTEM:
        words += "; confirmed: it goes away with one request at a time"
    elif link.cleared_by:
        words += f"; confirmed: it goes away with {link.cleared_by}"
    else:
        words += "; confirmed"
    changed = _constraint_changes(link)
    return f"{words}. {changed}" if changed else words


def failure_name(link: CauseLink) -> str:
    """What a link is about, for the middle of a sentence: "loop", "service failures"."""
    return "service failures" if link.symptom is None else symptom_info(link.symptom).label


def condition_words(arm: Arm | ArmResult) -> str:
    """Under which condition an arm continues its forks, e.g. "with repetition_penalty 1.15"."""
    if arm.plane is None:
        return "nothing changed"
    return f"with {arm.changed}"


def _constraint_changes(link: CauseLink) -> str | None:
    """What fails instead under a language constraint that does not clear; None if the symptom stays."""
    unchanged = next((a for a in link.arms if a.plane is None), None)
    constraint = next((a for a in link.arms if a.name == "constraint"), None)
    if unchanged is None or constraint is None or constraint.clears or not constraint.symptoms:
        return None
    before, after = _commonest(unchanged), _commonest(constraint)
    if before is None or after is None or before == after:
        return None
    onset, moved = unchanged.median_onset, constraint.median_onset
    same = onset is not None and moved is not None and abs(moved - onset) <= 0.15 * onset
    where = "about the same token" if same else "another token"
    return (
        f"Asking for the language in the system prompt does not help: the answers then fail by "
        f"{symptom_info(after).label}, at {where}"
    )


def _commonest(arm: ArmResult) -> str | None:
    return max(arm.symptoms, key=lambda kind: arm.symptoms[kind], default=None)


def rounded_tokens(tokens: float) -> int:
    """To tens, from 1,000 on to hundreds: for "at about token …"."""
    step = _ROUNDED if tokens < 1000 else 10 * _ROUNDED
    return round(tokens / step) * step


def describe_decoding(decoding: Decoding) -> str:
    """A decoding in words, its system prompt quoted."""
    words = [f"{k} {v:g}" for k, v in decoding.sent().items()] + decoding.extra_words()
    if decoding.system_prompt is not None:
        words.append(f"system prompt “{' '.join(decoding.system_prompt.split())}”")
    return ", ".join(words) or "the server's defaults"


def split_sentence(remedy: SplitRemedy) -> str:
    """The outcome of the split. It is verified if the bound of its failure rate is as low as for an arm."""
    how = (
        f"request {remedy.per_request} paragraphs at a time, each time with the last {remedy.carried} as "
        f"context"
    )
    seen = (
        f"{remedy.failed or 'none'} of {remedy.outputs} outputs of {remedy.units:.0f} paragraphs that were "
        f"written this way degenerate{'s' if remedy.failed == 1 else ''}"
    )
    risk = f"at most {percent(remedy.upper)}, with 95 % confidence"
    if remedy.upper <= MAX_REMAINING_RATE:
        return f"{how}. This is tested: {seen} (a risk of {risk})"
    if 2 * remedy.failed > remedy.outputs:
        return f"{how}. This does not hold here: {seen}"
    return f"{how}. This was only tried: {seen}, which shows no more than a risk of {risk}"


def cleared_alone(link: CauseLink) -> bool:
    """Whether the link was cleared by sending one request at a time."""
    return any(arm.name == ALONE and arm.clears for arm in link.arms)
