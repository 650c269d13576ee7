"""What speaks against answers being of the model and the decoding that were asked, as a run's notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stresstest.campaign.provenance.age import pause_clause
from stresstest.model import GenerationRecord, Run
from stresstest.model.model_names import is_other_model
from stresstest.model.server import UNLISTED_MODEL, UNREAD_PARAMETERS

_SHOWN_MODELS = 4


def provenance_notes(run: Run, generations: Sequence[GenerationRecord]) -> list[str]:
    """What speaks against the answers being of the model and the decoding that were asked."""
    notes = []
    other = run.profile.gap(UNLISTED_MODEL)
    if other is not None:
        notes.append(f"The server has no {other.thing}: {other.cost}.")
    unread = run.profile.gap(UNREAD_PARAMETERS)
    if unread is not None:
        notes.append(f"The server gives no {unread.thing}: {unread.cost}. To be sure, {unread.remedy}.")
    if not (run.profile.is_vllm or run.profile.simulated):
        notes.append(
            "The server does not show that it is vLLM itself (/version, vLLM's /metrics, a context length). "
            "What stands in front of a model may clamp or drop what is asked, or answer with another server, "
            "and not all of that can be seen: the limit is that of what answered at this address."
        )
    if other_model := _other_model_sentence(generations, run.profile.model):
        notes.append(other_model)
    if (mixed := _mixed_models_sentence(generations)) or (mixed := _mixed_servers_sentence(generations)):
        notes.append(mixed)
    if pause := pause_clause(generations):
        notes.append(f"The answers are of several sittings: {pause}.")
    return notes


def _mixed_models_sentence(generations: Sequence[GenerationRecord]) -> str | None:
    """That the streams name several models, as a gateway's do that falls back to another one."""
    named = Counter(g.answered_by for g in generations if g.answered_by is not None).most_common()
    if len(named) < 2:
        return None
    return (
        f"The streams name {len(named)} models ({_counted(named)}): does a gateway fall back to another one? "
        f"The limit is that of this mixture, not of one model."
    )


def _other_model_sentence(generations: Sequence[GenerationRecord], asked: str) -> str | None:
    """That the streams name one model, and not the one that was asked."""
    named = {g.answered_by for g in generations if g.answered_by is not None}
    if len(named) != 1:
        return None
    (answered,) = named
    if not is_other_model(asked, answered):
        one, other = (name.lower().rpartition("/")[2] for name in (asked, answered))
        if one == other:
            return None
        return f"The streams name the model {answered!r} for {asked!r}, which was asked: a version of it."
    return (
        f"The streams name the model {answered!r}, not {asked!r}, which was asked: an alias, or a gateway "
        f"that answers with another model. The limit is that of the model that answered."
    )


def _mixed_servers_sentence(generations: Sequence[GenerationRecord]) -> str | None:
    """That the streams carry several `system_fingerprint`s, as those of servers of several versions do."""
    named = Counter(g.fingerprint for g in generations if g.fingerprint).most_common()
    each_its_own = 2 * len(named) > sum(count for _, count in named)  # old versions of MLX's server
    if len(named) < 2 or each_its_own:
        return None
    return (
        f"The streams carry {len(named)} different system_fingerprints or providers ({_counted(named)}): "
        f"several servers, versions or settings have answered. The limit is that of this mixture."
    )


def _counted(named: Sequence[tuple[str, int]]) -> str:
    shown = ", ".join(f"{name} {count}" for name, count in named[:_SHOWN_MODELS])
    return shown + (f" and {len(named) - _SHOWN_MODELS} more" if len(named) > _SHOWN_MODELS else "")
