"""The generations that have begun and not ended: an interruption drops them, and says what it dropped."""

from __future__ import annotations

from stresstest.campaign.execution.events import (
    AlarmRaised,
    GenerationAdvanced,
    GenerationEvent,
    GenerationFinished,
    GenerationStarted,
)


class UnderWay:
    """Follows the events of a campaign."""

    def __init__(self) -> None:
        self._tokens: dict[str, int] = {}
        self._degenerate: set[str] = set()

    def follow(self, event: GenerationEvent) -> None:
        """Take the next event."""
        if isinstance(event, GenerationStarted):
            self._tokens[event.key] = 0
        elif isinstance(event, GenerationAdvanced):
            self._tokens[event.key] = event.tokens
        elif isinstance(event, AlarmRaised):
            self._degenerate.add(event.key)
        elif isinstance(event, GenerationFinished):
            self._tokens.pop(event.generation.job.key, None)
            self._degenerate.discard(event.generation.job.key)

    def dropped(self) -> str | None:
        """A sentence on those that have not ended, of which nothing is kept; None for none."""
        number = len(self._tokens)
        if not number:
            return None
        what = "1 answer was" if number == 1 else f"{number} answers were"
        bad = f" ({len(self._degenerate)} already degenerate)" if self._degenerate else ""
        return (
            f"{what} under way when the run was interrupted{bad}: no number here counts them or their "
            f"{sum(self._tokens.values()):,} tokens, and --resume asks for them again."
        )
