"""Refuses answers that are not of the server and the model that are compared."""

from __future__ import annotations

from collections.abc import Collection

from stresstest.errors import EndpointError
from stresstest.model import GenerationRecord
from stresstest.model.model_names import other_models
from stresstest.model.server import PROVIDER, ServerClock
from stresstest.statistics.replays import old_answers_reason, replays


class ForeignAnswersError(EndpointError):
    """A cache in front of the server has answered, or another model."""


def refuse_foreign(
    answers: Collection[GenerationRecord], earlier: Collection[GenerationRecord], clock: ServerClock | None
) -> None:
    """ForeignAnswersError where answers are `earlier` ones again, are older than their requests by the
    server's clock, or name another model or server than the earlier ones do: both have to be of one."""
    if old := old_answers_reason(answers, clock):
        raise ForeignAnswersError(f"{old}.")
    again = len(replays(answers, earlier))
    if again:
        raise ForeignAnswersError(
            f"{again} of {len(answers)} answers are earlier ones again, by id and text: a cache in "
            "front of the server gives them, so that the two cannot be compared.",
            hint="Ask vLLM itself, or switch the gateway's cache off.",
        )
    known = {each.answered_by for each in earlier if each.answered_by is not None}
    named = {each.answered_by for each in answers if each.answered_by is not None}
    if others := other_models(known, named):
        then, now = (" and ".join(names[:3]) for names in (sorted(known), others))
        raise ForeignAnswersError(
            f"The streams name the model {now}, and those of the answers before {then}: a gateway answers "
            "with another model, so that the two cannot be compared.",
            hint="Ask vLLM itself, or switch the gateway's fallback off.",
        )
    before = _providers(earlier)
    if before and (strange := _providers(answers) - before):
        raise ForeignAnswersError(
            f"The streams name the {' and '.join(sorted(strange)[:3])}, and those of the answers before the "
            f"{' and '.join(sorted(before)[:3])}: a gateway answers with another server, so that the two "
            "cannot be compared.",
            hint="Ask one server itself, or bind the gateway to one.",
        )


def _providers(answers: Collection[GenerationRecord]) -> set[str]:
    """The servers that a gateway names in its streams."""
    return {
        g.fingerprint for g in answers if g.fingerprint is not None and g.fingerprint.startswith(PROVIDER)
    }
