"""The panel against the parser, over the same outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from stresstest.model import GenerationVerdict
from tests.e2e.records import Record
from tests.lab.parser import Report

SHORTEST = 64
"""Tokens that a healthy part must have to be judged at all."""


@dataclass(frozen=True)
class Case:
    """One generation judged twice. Onsets are 1-based output tokens, None when healthy."""

    record: Record
    verdict: GenerationVerdict
    report: Report
    true_onset: int | None

    @property
    def healthy_part(self) -> Record | None:
        """The output as its cap would have cut it right before the true onset; None if that is its start."""
        if self.true_onset is None or self.true_onset < SHORTEST:
            return None
        return replace(self.record, tokens=self.record.tokens[: self.true_onset - 1], finish_reason="length")

    @property
    def sentences_off(self) -> int | None:
        """Sentences from the true onset to the detected one; negative: the panel is early."""
        if self.true_onset is None or self.verdict.onset is None or self.report.onset is None:
            return None
        starts = [self.record.token_of(s.start) for s in self.report.sentences]
        detected = sum(1 for start in starts if start <= self.verdict.onset) - 1
        return detected - self.report.onset.sentence


@dataclass
class Score:
    """Counts over many cases."""

    cases: list[Case] = field(default_factory=list)

    @property
    def healthy(self) -> list[Case]:
        return [c for c in self.cases if c.true_onset is None]

    @property
    def degenerate(self) -> list[Case]:
        return [c for c in self.cases if c.true_onset is not None]

    @property
    def false_alarms(self) -> list[Case]:
        """Healthy by the parser, degenerate by the panel."""
        return [c for c in self.healthy if c.verdict.degenerate]

    @property
    def missed(self) -> list[Case]:
        return [c for c in self.degenerate if not c.verdict.degenerate]

    @property
    def placed(self) -> list[Case]:
        """Found, with the onset two sentences before to five after the true one."""
        return [c for c in self.degenerate if c.sentences_off is not None and -2 <= c.sentences_off <= 5]

    @property
    def found(self) -> list[Case]:
        return [c for c in self.degenerate if c.verdict.degenerate]

    def malformed_before(self) -> tuple[int, int]:
        """(bad sentences, sentences) before the true onset: how cleanly the grammar was learned."""
        before = [s for c in self.cases for s in c.report.before_onset()]
        return sum(1 for s in before if s.reason is not None), len(before)

    def healthy_parts(self) -> tuple[int, int]:
        """(called degenerate, all) of the failing outputs cut right before their true onset."""
        parts = [part.verdict().degenerate for c in self.cases if (part := c.healthy_part) is not None]
        return sum(parts), len(parts)

    def counts(self) -> dict[str, int]:
        """The score in numbers."""
        return {
            "healthy": len(self.healthy),
            "false_alarms": len(self.false_alarms),
            "degenerate": len(self.degenerate),
            "found": len(self.found),
            "placed": len(self.placed),
        }

    def spread(self) -> str:
        """Sentences from the true onset to the detected one: least, median, most."""
        offs = sorted(c.sentences_off for c in self.found if c.sentences_off is not None)
        return f"{offs[0]}, {offs[len(offs) // 2]}, {offs[-1]}" if offs else "–"

    def lines(self) -> list[str]:
        """The score for people."""
        bad, sentences = self.malformed_before()
        degenerate = len(self.degenerate)
        symptoms = Counter(str(c.verdict.symptom) for c in self.found)
        reasons = Counter(r for c in self.degenerate for r in c.report.reasons().elements())
        return [
            f"generations: {len(self.cases)}; parser: {len(self.healthy)} healthy, {degenerate} degenerate",
            f"malformed sentences before the true onset: {bad} of {sentences}",
            f"healthy ones called degenerate: {len(self.false_alarms)} of {len(self.healthy)}",
            f"degenerate ones found: {len(self.found)} of {degenerate}",
            f"onset within 2 sentences before to 5 after: {len(self.placed)} of {degenerate}; "
            f"sentences off (min, median, max): {self.spread()}",
            f"symptoms: {dict(symptoms.most_common())}",
            f"parser's reasons: {dict(reasons.most_common())}",
        ]


def judge(records: Iterable[Record]) -> Score:
    return Score([case_of(r) for r in records])


def case_of(record: Record) -> Case:
    report = record.oracle()
    onset = None if report.onset is None else record.token_of(report.onset.char)
    return Case(record, record.verdict(), report, onset)


def quantile(onsets: Sequence[int | None], lengths: Sequence[int], share: float) -> float:
    """The smallest T at which `share` of the generations at risk have degenerated (the true q).

    onsets: None where a generation stayed healthy for its `length` tokens.
    """
    for t in sorted(o for o in onsets if o is not None):
        d = sum(1 for o in onsets if o is not None and o <= t)
        n = d + sum(
            1 for o, length in zip(onsets, lengths, strict=True) if (o is None or o > t) and length >= t
        )
        if d / n >= share:
            return float(t)
    return float("inf")
