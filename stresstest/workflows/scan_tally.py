"""What is kept of the verdicts while they stream by: one small tally a group."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from stresstest.errors import UsageError
from stresstest.model import Rigor, SymptomKind
from stresstest.model.scanned import Extent, GroupResult, Judged, Shown
from stresstest.threshold import safe_max_tokens
from stresstest.threshold.proportion import clustered_interval
from stresstest.threshold.recorded import RecordedSample, certify_recorded, length_effect
from stresstest.workflows.scan_judge import Group

MOST_GROUPS = 5_000
MOST_KEPT = 200_000
"""Outputs kept of all groups together, 57 bytes each: beyond that the largest group is thinned."""
_COUNTED = 4_096
"""Requests after which the kept outputs are counted."""
_EXACT = frozenset({"record", "tokenizer", "empty"})


@dataclass(slots=True)
class Tally:
    """One group's counts. sources: token source → requests. missing: empty or lost."""

    requests: int = 0
    degenerate: int = 0
    recovered: int = 0
    empty: int = 0
    lost: int = 0
    undecided: int = 0
    missing: int = 0
    dharma_known: int = 0
    dharma: int = 0
    symptoms: Counter[str] = field(default_factory=Counter)
    sources: Counter[str | None] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    language_sources: Counter[str] = field(default_factory=Counter)
    total: Counter[str] = field(default_factory=Counter)
    wasted: Counter[str] = field(default_factory=Counter)
    sample: RecordedSample = field(default_factory=RecordedSample)

    def add(self, judged: Judged) -> None:
        """Take one verdict."""
        self.requests += 1
        self.degenerate += judged.degenerate
        self.recovered += judged.recovered
        empty = judged.words.length == 0
        self.empty += empty
        self.lost += judged.lost
        self.undecided += judged.unresolved
        self.missing += empty or judged.lost
        if judged.capped is not None:
            self.dharma_known += 1
            self.dharma += judged.capped and judged.tail_repeats
        if judged.symptom is not None:
            self.symptoms[str(judged.symptom)] += 1
        self.sources[judged.token_source] += 1
        self.languages[judged.language or "unknown"] += 1
        self.language_sources[judged.language_source or "unknown"] += 1
        self._measure("words", judged.words)
        if judged.tokens is not None:
            self._measure("tokens", judged.tokens)
        self.sample.add(judged, truncated=judged.symptom is SymptomKind.TRUNCATION)

    def _measure(self, unit: str, extent: Extent) -> None:
        self.total[unit] += extent.length
        if extent.onset is not None:
            self.wasted[unit] += extent.length - extent.onset + 1

    @property
    def unit(self) -> str:
        """Tokens only where every request has them."""
        if None in self.sources:
            return "words"
        return "tokens" if set(self.sources) <= _EXACT else "tokens (estimate)"

    def result(self, key: dict[str, str | None], rigor: Rigor, margin: float, by_length: bool) -> GroupResult:
        """The group's rate, interval, threshold and limit."""
        unit, sample = self.unit, self.sample
        tokens = unit != "words"
        scale = "tokens" if tokens else "words"
        threshold = certify_recorded(sample.observations(tokens=tokens), rigor, scale)
        safe = safe_max_tokens(threshold, margin)
        lengths = sample.healthy_lengths(tokens=tokens)
        limit = safe if safe is None or tokens else threshold.tokens
        cut = sum(n > limit for n in lengths) / len(lengths) if lengths and limit is not None else None
        share = sample.effective_share()
        return GroupResult(
            key=key,
            requests=self.requests,
            degenerate=self.degenerate,
            rate=self.degenerate / self.requests,
            rate_ci=clustered_interval(self.degenerate, self.requests, share),
            threshold=threshold,
            unit=unit,
            dharma_rate=self.dharma / self.dharma_known if self.dharma_known else None,
            dharma_known=self.dharma_known,
            symptoms=dict(self.symptoms.most_common()),
            safe_max_tokens=safe if tokens else None,
            healthy_cut=cut,
            wasted=self.wasted[scale],
            total=self.total[scale],
            recovered=self.recovered,
            prompts=sample.prompts,
            sampled=None if sample.complete else len(sample),
            languages=dict(self.languages.most_common()),
            language_sources=dict(self.language_sources.most_common()),
            by_length=length_effect(sample.onsets_by_class(tokens=tokens)) if by_length else None,
            empty=self.empty,
            uncounted=self.sources[None],
            undecided=self.undecided,
            clustered=any(outputs > 1 for _, outputs in sample.clusters()),
        )


class Tallies:
    """All groups, and the worst outputs of all."""

    def __init__(self, keys: Sequence[str], show: int) -> None:
        self._keys = tuple(keys)
        self._groups: dict[Group, Tally] = {}
        self._show = show
        self._worst: list[tuple[float, int, int, Shown]] = []
        self.requests = 0

    def add(self, judged: Judged) -> None:
        """Take one verdict. Raises UsageError when the keys make more groups than anybody could read."""
        self.requests += 1
        tally = self._groups.get(judged.group)
        if tally is None:
            if len(self._groups) >= MOST_GROUPS:
                raise UsageError(
                    f"--group-by {','.join(self._keys)} makes more than {MOST_GROUPS} groups: "
                    "group by something that requests share."
                )
            tally = self._groups[judged.group] = Tally()
        tally.add(judged)
        if self.requests % _COUNTED == 0:
            self._bound()
        if judged.shown is not None and self._show:
            entry = (judged.shown.score, judged.shown.wasted, -self.requests, judged.shown)
            if len(self._worst) < self._show:
                heapq.heappush(self._worst, entry)
            else:
                heapq.heappushpop(self._worst, entry)

    def _bound(self) -> None:
        samples = [tally.sample for tally in self._groups.values()]
        kept = sum(map(len, samples))
        while kept > MOST_KEPT:
            largest = max(samples, key=len)
            kept -= len(largest)
            largest.thin()
            kept += len(largest)

    @property
    def worst(self) -> tuple[Shown, ...]:
        """The worst first: by score, then by what was wasted, then as they came."""
        return tuple(entry[3] for entry in sorted(self._worst, reverse=True, key=lambda e: e[:3]))

    def results(self, rigor: Rigor, margin: float, *, by_length: bool) -> tuple[GroupResult, ...]:
        """Every group, the lowest rate first."""
        found = [
            tally.result(dict(zip(self._keys, group, strict=True)), rigor, margin, by_length)
            for group, tally in self._groups.items()
        ]
        return tuple(sorted(found, key=lambda g: (g.rate, -g.requests, [v or "" for v in g.key.values()])))
