"""From positions counted in chunks to positions counted in tokens, where chunks are the finer ones.

A server that counts nothing while it streams may send several chunks a token; positions in chunks would
then exceed the tokens, and a T made of them every cap. The panel judges the chunks as they came, since
joining them first would hide repetition from it; its positions are then brought down onto the scale of
the true total. With several tokens a chunk nothing is done: such positions are too early, which is safe,
and spreading them out would be a guess towards the unsafe side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stresstest.model import Symptom, Token, Verdict, Zone


class Scale:
    """`chunks` positions onto fewer `tokens` positions: evenly, rounded down."""

    def __init__(self, chunks: int, tokens: int) -> None:
        if not 0 < tokens <= chunks:
            raise ValueError(f"{chunks} chunks cannot be brought down onto {tokens} tokens")
        self._chunks = chunks
        self._tokens = tokens

    def first(self, chunk: int) -> int:
        """The token that a chunk begins in."""
        return self.seen(chunk - 1) + 1

    def seen(self, chunks: int) -> int:
        """Whole tokens in so many chunks."""
        return chunks * self._tokens // self._chunks

    def tokens(self, chunks: Sequence[Token]) -> tuple[Token, ...]:
        """The chunks joined into tokens; one more than counted where thought and answer meet inside one."""
        made: list[Token] = []
        open_at = 0
        for k, chunk in enumerate(chunks, 1):
            at = self.first(k)
            if at == open_at and made[-1].reasoning == chunk.reasoning:
                earlier = made[-1]
                made[-1] = Token(
                    earlier.text + chunk.text, arrived=earlier.arrived, reasoning=earlier.reasoning
                )
            else:
                made.append(chunk)
            open_at = at
        return tuple(made)

    def verdict(self, verdict: Verdict) -> Verdict:
        """The same judgement in tokens."""
        if verdict.onset is None:
            onset, observed = None, self.seen(verdict.observed)
        else:
            onset = self.first(verdict.onset)
            observed = min(onset - 1, self.seen(verdict.observed))
        return replace(
            verdict,
            tokens=self._tokens,
            observed=observed,
            onset=onset,
            alarm=None if verdict.alarm is None else self._after(verdict.alarm, onset or 1),
            symptoms=tuple(self._symptom(s) for s in verdict.symptoms),
            zones=self._zones(verdict.zones),
        )

    def _after(self, chunk: int, first: int) -> int:
        return max(first, self.seen(chunk))

    def _symptom(self, symptom: Symptom) -> Symptom:
        onset = self.first(symptom.onset)
        return replace(
            symptom,
            onset=onset,
            alarm=self._after(symptom.alarm, onset),
            start=None if symptom.start is None else self.first(symptom.start),
            end=None if symptom.end is None else self._after(symptom.end, onset),
        )

    def _zones(self, zones: Sequence[Zone]) -> tuple[Zone, ...]:
        """Zones meet without a gap, so each begins where the one before it ends."""
        found: list[Zone] = []
        for zone, after in zip(zones, [*zones[1:], None], strict=True):
            start = self.first(zone.start)
            end = self._tokens if after is None else self.first(after.start) - 1
            if start <= end:
                found.append(Zone(zone.kind, start, end))
        return tuple(found)
