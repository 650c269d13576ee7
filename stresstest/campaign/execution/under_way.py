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
    """Follows the events of a campaign.

    tokens: of each generation that has not ended, by key. degenerate: the keys of those that already failed.
    """

    def __init__(self) -> None:
        self.tokens: dict[str, int] = {}
        self.degenerate: set[str] = set()

    def follow(self, event: GenerationEvent) -> int:
        """Take the next event. Returns the output tokens that it tells of beyond those before it."""
        if isinstance(event, GenerationAdvanced):
            before, self.tokens[event.key] = self.tokens.get(event.key, 0), event.tokens
            return event.tokens - before
        if isinstance(event, GenerationStarted):
            self.tokens[event.key] = 0
        elif isinstance(event, AlarmRaised):
            self.degenerate.add(event.key)
        elif isinstance(event, GenerationFinished):
            generation = event.generation
            self.degenerate.discard(generation.key)
            return generation.output_tokens - self.tokens.pop(generation.key, 0)
        return 0

    def clear(self) -> None:
        """Those under way were dropped."""
        self.tokens.clear()
        self.degenerate.clear()

    def dropped(self) -> str | None:
        """A sentence on those that have not ended, of which nothing is kept; None for none."""
        number = len(self.tokens)
        if not number:
            return None
        what = "1 answer was" if number == 1 else f"{number} answers were"
        bad = f" ({len(self.degenerate)} already degenerate)" if self.degenerate else ""
        return (
            f"{what} under way when the run was interrupted{bad}: no number here counts them or their "
            f"{sum(self.tokens.values()):,} tokens, and --resume asks for them again."
        )
