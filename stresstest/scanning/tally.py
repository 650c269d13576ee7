"""What is kept of the verdicts while they stream by: one small tally a group."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from stresstest.detectors.registry import ends_answer
from stresstest.detectors.screening.screen import OPEN_TAIL
from stresstest.errors import UsageError
from stresstest.model import AnswerPart, Rigor, SymptomKind
from stresstest.model.result import MOST_HEALTHY_CUT
from stresstest.model.scanned import Extent, GroupResult, PartRate, ScanExample, ScanVerdict
from stresstest.scanning.job import GroupKey
from stresstest.scanning.position_scale import SUMS
from stresstest.statistics import safe_max_tokens
from stresstest.statistics.certify import clustered_interval, rate_interval
from stresstest.statistics.recorded import MAX_KEPT, RecordedSample, certify_outputs, length_effect

MAX_GROUPS = 5_000
MAX_KEPT_OUTPUTS = 200_000
"""Outputs kept of all groups together, 73 bytes each: beyond that the largest groups are thinned."""
_TRIM_INTERVAL = 4_096
"""Requests after which the kept outputs are counted."""
_Worst = tuple[float, int, int, ScanExample]
"""Score, words wasted, minus the number of the request, the example."""
MAX_MODELS = 4
"""Model names that are kept for a group, the alphabetically first, so that memory stays bounded."""
_ODD_COUNTS = 0.1
"""Counts that exceed max_tokens, over those that confirm it: beyond this, another tokenizer has made some."""
_EXACT = frozenset({"record", "tokenizer", "empty"})


@dataclass(slots=True)
class GroupTally:
    """One group's counts. sources: token source → requests. missing: empty or lost. reasoned: with reasoning;
    answered: with an answer after healthy reasoning or none; the others are those of them that fail there."""

    requests: int = 0
    degenerate: int = 0
    recovered: int = 0
    empty: int = 0
    lost: int = 0
    given_up: int = 0
    undecided: int = 0
    capped: int = 0
    unseen: int = 0
    unknown_language: int = 0
    several_turns: int = 0
    stopped: int = 0
    in_doubt: int = 0
    missing: int = 0
    dharma_known: int = 0
    dharma: int = 0
    unsure_stops: int = 0
    repetitions: int = 0
    at_cap: int = 0
    beyond_cap: int = 0
    reasoned: int = 0
    reasoned_failed: int = 0
    answered: int = 0
    answered_failed: int = 0
    symptoms: Counter[str] = field(default_factory=Counter)
    sources: Counter[str | None] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    language_sources: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    total: Counter[str] = field(default_factory=Counter)
    wasted: Counter[str] = field(default_factory=Counter)
    healthy: Counter[str] = field(default_factory=Counter)
    sample: RecordedSample = field(default_factory=RecordedSample)

    def add(self, judged: ScanVerdict) -> None:
        self.requests += 1
        self.degenerate += judged.degenerate
        self.recovered += judged.recovered
        self.unsure_stops += judged.stop_unsure
        self.repetitions += judged.stop_unsure and judged.repetition
        empty = judged.words.length == 0
        self.empty += empty and not judged.unseen
        self.lost += judged.lost
        self.given_up += judged.lost and not judged.unseen
        explained = judged.unseen or judged.unknown_language or judged.several_turns
        self.undecided += judged.unresolved and not explained
        self.unseen += judged.unseen
        self.unknown_language += judged.unknown_language
        self.several_turns += judged.several_turns
        self.capped += judged.capped is True and not judged.degenerate and not judged.unseen
        self.stopped += judged.repetition and not judged.degenerate and not judged.unseen
        open_for_long = judged.unresolved and judged.words.length - judged.words.observed > OPEN_TAIL
        opened = open_for_long or judged.copied_end
        doubted = opened or explained or judged.repetition
        self.in_doubt += doubted and not judged.degenerate
        self.missing += empty or judged.lost
        if judged.ended_looping is not None:
            self.dharma_known += 1
            self.dharma += judged.ended_looping
        self.at_cap += judged.counted_to_cap is True
        self.beyond_cap += judged.counted_to_cap is False
        if judged.symptom is not None:
            self.symptoms[str(judged.symptom)] += 1
        thought = judged.onset_in is AnswerPart.REASONING
        self.reasoned += judged.reasoned
        self.reasoned_failed += thought
        self.answered += judged.answered and not thought
        self.answered_failed += judged.onset_in is AnswerPart.ANSWER
        self.sources[judged.token_source] += 1
        self.languages[judged.language or "unknown"] += 1
        self.language_sources[judged.language_source or "unknown"] += 1
        if judged.model is not None:
            self.models[judged.model] += 1
            self._limit_models()
        self._measure("words", judged.words)
        if judged.tokens is not None:
            self._measure("tokens", judged.tokens)
        self.sample.add(judged, truncated=ends_answer(judged.symptom))

    def _measure(self, unit: str, extent: Extent) -> None:
        self.total[unit] += extent.length
        if extent.onset is not None:
            self.wasted[unit] += extent.length - extent.onset + 1
        else:
            self.healthy[unit] += extent.length

    def _limit_models(self) -> None:
        for name in sorted(self.models)[MAX_MODELS:]:
            del self.models[name]

    def merge(self, later: GroupTally) -> None:
        """Add the counts of answers that follow these."""
        for each in fields(self):
            mine, theirs = getattr(self, each.name), getattr(later, each.name)
            if isinstance(mine, int):
                setattr(self, each.name, mine + theirs)
            elif isinstance(mine, Counter):
                mine.update(theirs)
        self._limit_models()
        self.sample.merge(later.sample)

    def dump(self) -> dict[str, Any]:
        """Everything, for `load`."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        counters = {name: list(value.items()) for name, value in found.items() if isinstance(value, Counter)}
        return {**found, **counters, "sample": self.sample.dump()}

    @classmethod
    def load(cls, dumped: Mapping[str, Any]) -> GroupTally:
        """A tally that was dumped."""
        found = cls(sample=RecordedSample.load(dumped["sample"]))
        for each in fields(found):
            value = dumped.get(each.name)  # None of an earlier version, which did not count it
            if value is not None and each.name != "sample":
                setattr(found, each.name, Counter(dict(value)) if isinstance(value, list) else value)
        return found

    @property
    def tokens_a_word(self) -> float | None:
        """Of healthy answers; None without any, or where tokens are not known of all."""
        known = self.unit != "words" and self.healthy["words"]
        return self.healthy["tokens"] / self.healthy["words"] if known else None

    @property
    def caps_refute_counts(self) -> bool:
        """Whether counts exceed max_tokens, and not just here and there among those that confirm it."""
        return self.beyond_cap > _ODD_COUNTS * self.at_cap

    @property
    def counts_known(self) -> bool:
        """Whether the tokens are certainly the model's: exact ones, or confirmed by caps."""
        return self.unit == "tokens" or (self.unit != "words" and self.at_cap > 0)

    @property
    def unit(self) -> str:
        """Tokens only where every request has them, and their caps do not refute them."""
        if not self.sources.keys().isdisjoint((None, SUMS)) or self.caps_refute_counts:
            return "words"
        return "tokens" if set(self.sources) <= _EXACT else "tokens (estimate)"

    def result(
        self, key: dict[str, str | None], rigor: Rigor, margin: float, by_length: bool, damaged: int
    ) -> GroupResult:
        """The group's rate, interval, threshold and limit. damaged: lines that may be of any group."""
        unit, sample = self.unit, self.sample
        tokens = unit != "words"
        scale = "tokens" if tokens else "words"
        threshold = certify_outputs(sample, rigor, tokens=tokens, damaged=damaged)
        safe = safe_max_tokens(threshold, margin)
        limit = safe if safe is None or tokens else threshold.tokens
        cut = None if limit is None else sample.share_cut(limit, tokens=tokens)
        share = sample.effective_share()
        return GroupResult(
            key=key,
            requests=self.requests,
            degenerate=self.degenerate,
            rate=self.degenerate / self.requests,
            rate_ci=rate_interval(self.degenerate, self.unseen, self.requests, share),
            threshold=threshold,
            unit=unit,
            dharma_rate=self.dharma / self.dharma_known if self.dharma_known else None,
            dharma_known=self.dharma_known,
            symptoms=dict(self.symptoms.most_common()),
            safe_max_tokens=safe if tokens and (cut is None or cut <= MOST_HEALTHY_CUT) else None,
            healthy_cut=cut,
            wasted=self.wasted[scale],
            total=self.total[scale],
            recovered=self.recovered,
            prompts=sample.prompts,
            questions=sample.questions,
            promptless=sample.promptless,
            sampled=None if sample.complete else len(sample),
            languages=dict(self.languages.most_common()),
            language_sources=dict(self.language_sources.most_common()),
            by_length=length_effect(sample.onsets_by_class(tokens=tokens)) if by_length else None,
            empty=self.empty,
            uncounted=self.sources[None] + self.sources[SUMS],
            sums=self.sources[SUMS],
            at_cap=self.at_cap,
            beyond_cap=self.beyond_cap,
            undecided=self.undecided,
            capped=self.capped,
            unseen=self.unseen,
            unknown_language=self.unknown_language,
            several_turns=self.several_turns,
            stopped=self.stopped,
            in_doubt=self.in_doubt,
            lost=self.given_up,
            unsure_stops=self.unsure_stops,
            repetitions=self.repetitions,
            effective_share=share,
            clustered=sample.clustered,
            copies=sample.copies,
            one_text=sample.one_text,
            brief=sample.brief,
            parts=self._parts(share),
            models=tuple(sorted(self.models)),
        )

    def _parts(self, share: float) -> tuple[PartRate, ...]:
        if not self.reasoned:
            return ()
        counts = {
            AnswerPart.REASONING: (self.reasoned_failed, self.reasoned),
            AnswerPart.ANSWER: (self.answered_failed, self.answered),
        }
        return tuple(
            PartRate(part, n, d, d / n if n else None, clustered_interval(d, n, share))
            for part, (d, n) in counts.items()
        )


class ScanTally:
    """All groups, and the worst outputs of all."""

    def __init__(self, keys: Sequence[str], show: int) -> None:
        self._keys = tuple(keys)
        self._groups: dict[GroupKey, GroupTally] = {}
        self._show = show
        self._worst: list[_Worst] = []
        self.requests = 0

    def add(self, judged: ScanVerdict) -> None:
        """Take one verdict. Raises UsageError when the keys make more groups than anybody could read."""
        self.requests += 1
        self._group(judged.group).add(judged)
        if self.requests % _TRIM_INTERVAL == 0:
            self._limit_kept()
        if judged.shown is not None:
            self._keep_worst([(judged.shown.score, judged.shown.wasted, -self.requests, judged.shown)])

    def merge(self, dumped: Mapping[str, Any]) -> None:
        """Add what was dumped of the verdicts that follow. Raises UsageError as `add` does."""
        for group, tally in dumped["groups"]:
            self._group(tuple(group)).merge(GroupTally.load(tally))
        self._keep_worst(
            (
                score,
                wasted,
                n - self.requests,
                ScanExample(**{**shown, "symptom": SymptomKind(shown["symptom"])}),
            )
            for score, wasted, n, shown in dumped["worst"]
        )
        self.requests += dumped["requests"]
        self._limit_kept()

    def dump(self) -> dict[str, Any]:
        """Everything, for `merge`."""
        return {
            "requests": self.requests,
            "groups": [(group, tally.dump()) for group, tally in self._groups.items()],
            "worst": [(*entry[:3], asdict(entry[3])) for entry in self._worst],
        }

    def _group(self, group: GroupKey) -> GroupTally:
        tally = self._groups.get(group)
        if tally is None:
            if len(self._groups) >= MAX_GROUPS:
                raise UsageError(
                    f"--group-by {','.join(self._keys)} makes more than {MAX_GROUPS} groups: "
                    "group by something that requests share."
                )
            tally = self._groups[group] = GroupTally()
        return tally

    def _keep_worst(self, entries: Iterable[_Worst]) -> None:
        for entry in entries:
            heapq.heappush(self._worst, entry)
            if len(self._worst) > self._show:
                heapq.heappop(self._worst)

    def _limit_kept(self) -> None:
        """Keep as many outputs of every group as all groups have room for together.

        The limit follows from how many answers each group has, so that parts that are merged keep what one
        scan of everything keeps.
        """
        most = MAX_KEPT
        while sum(min(tally.requests, most) for tally in self._groups.values()) > MAX_KEPT_OUTPUTS:
            most //= 2
        for tally in self._groups.values():
            tally.sample.limit(most)

    @property
    def worst(self) -> tuple[ScanExample, ...]:
        """The worst first: by score, then by what was wasted, then as they came."""
        return tuple(entry[3] for entry in sorted(self._worst, reverse=True, key=lambda e: e[:3]))

    def results(
        self, rigor: Rigor, margin: float, *, by_length: bool, damaged: int = 0
    ) -> tuple[GroupResult, ...]:
        """Every group, the lowest rate first. damaged: lines without an answer that can be read."""
        self._limit_kept()
        found = [
            tally.result(dict(zip(self._keys, group, strict=True)), rigor, margin, by_length, damaged)
            for group, tally in self._groups.items()
        ]
        return tuple(sorted(found, key=lambda g: (g.rate, -g.requests, [v or "" for v in g.key.values()])))


def _load_example(dumped: Mapping[str, Any]) -> ScanExample:
    return ScanExample(**{**dumped, "symptom": SymptomKind(dumped["symptom"])})
