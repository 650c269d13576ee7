"""The sentences of a diagnosis: a link of the chain, a decoding, the split that was tried. Pure."""

from __future__ import annotations

from stresstest.diagnosis.arms import ALONE
from stresstest.diagnosis.exact import MOST_LEFT
from stresstest.model import ArmResult, Basis, Decoding, Link, Plane, Remedy, SymptomKind

_WORDS = {
    SymptomKind.LOOP: "loop",
    SymptomKind.NEAR_LOOP: "near-loop",
    SymptomKind.FLOODING: "flooding",
    SymptomKind.LANGUAGE_DRIFT: "drift",
    SymptomKind.GIBBERISH: "gibberish",
    SymptomKind.ENTROPY_SHIFT: "entropy shift",
    SymptomKind.STRUCTURE_BREAK: "structure break",
    SymptomKind.TRUNCATION: "truncation",
}
_ROUNDED = 10


def link_sentence(link: Link) -> str:
    """ "loop at ~900: decoding, confirmed, cleared by repetition_penalty 1.15"."""
    what = "service failures" if link.symptom is None else _WORDS[link.symptom]
    where = f" at ~{_round(link.median_onset):,}" if link.median_onset is not None else ""
    if link.plane is None:
        return f"{what}{where}: inconclusive, {link.lacking}"
    words = f"{what}{where}: {link.plane}, {link.basis}"
    if link.plane is Plane.SYSTEM and link.basis is Basis.CONFIRMED:
        words += ", cleared alone on the server"
    elif link.cleared_by:
        words += f", cleared by {link.cleared_by}"
    changed = _constraint_changes(link)
    return f"{words}; {changed}" if changed else words


def _constraint_changes(link: Link) -> str | None:
    """A language constraint that does not clear may still change what the failure looks like."""
    unchanged = next((a for a in link.arms if a.plane is None), None)
    constraint = next((a for a in link.arms if a.name == "constraint"), None)
    if unchanged is None or constraint is None or constraint.clears or not constraint.symptoms:
        return None
    before, after = _commonest(unchanged), _commonest(constraint)
    if before is None or after is None or before == after:
        return None
    onset, moved = unchanged.median_onset, constraint.median_onset
    same = onset is not None and moved is not None and abs(moved - onset) <= 0.15 * onset
    effect = "not the onset" if same else "and moves the onset"
    return f"a language constraint changes the symptom ({after.replace('_', ' ')}), {effect}"


def _commonest(arm: ArmResult) -> str | None:
    return max(arm.symptoms, key=lambda kind: arm.symptoms[kind], default=None)


def _round(tokens: float) -> int:
    step = _ROUNDED if tokens < 1000 else 10 * _ROUNDED
    return round(tokens / step) * step


def decoding_words(decoding: Decoding) -> str:
    """A decoding in words, its system prompt quoted."""
    words = [f"{k} {v:g}" for k, v in decoding.sent().items()]
    if decoding.system_prompt is not None:
        words.append(f"system prompt “{' '.join(decoding.system_prompt.split())}”")
    return ", ".join(words) or "the server's defaults"


def split_sentence(remedy: Remedy) -> str:
    """What the split did. It is verified by the rule of an arm alone: few failures left, by their bound."""
    held = remedy.upper <= MOST_LEFT
    word = "verified" if held else "does not hold" if 2 * remedy.failed > remedy.outputs else "tried"
    return (
        f"{remedy.per_request} units a request with the last {remedy.carried} carried on: {word}, "
        f"{remedy.failed} of {remedy.outputs} split outputs degenerate over {remedy.units:.0f} units "
        f"(at most {remedy.upper:.0%} with 95 % confidence)"
    )


def alone(link: Link) -> bool:
    """Whether the link was cleared by having the server to itself."""
    return any(arm.name == ALONE and arm.clears for arm in link.arms)
