"""Recorded outputs as observations, with the same estimand and bound as for a run's generations.

Unlike a run, recorded outputs are not a planned sample. Only the first recorded output of a prompt counts for
the threshold, and above a maximum number of outputs a random subsample is kept, of prompts selected by
their hash and never by their outcome.
"""

from __future__ import annotations

import operator
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stresstest.model import Observation
from stresstest.model.scanned import ScanVerdict
from stresstest.statistics.certify import effective_size
from stresstest.statistics.recorded.columns import ABSENT, ALL_NAMES, append_extent, little_endian, mix64
from stresstest.statistics.recorded.prompts import one_name_each
from stresstest.statistics.sample import COPY_TOKENS, deduplicate

MAX_KEPT = 100_000
"""Maximum outputs kept per group, about 70 bytes each. At 50,000 outputs the upper bound for an observed 1 %
is 1.07 %."""
MAX_OF_A_PROMPT = 16
"""Outputs of one prompt that a random subsample keeps: the first. Otherwise one prompt could fill it."""
_FEWEST_ALIKE, _ALIKE_SHARE, _SHORT_TEXT = 5, 0.001, 2 * COPY_TOKENS
"""Prompts with one short answer, and their part of the outputs, that a note has where most are longer: a part
of what a gate allows."""
_BRIEF, _SHARE_BRIEF = 6, 0.1
"""Words and signs of a label or a number ("-1234.5" has five), and their part of the outputs in a note."""
_BUCKETS = 1024
"""Random groups for the variance between prompts, 16 KB a group of records once it is thinned."""
_ENDED, _UNRESOLVED, _TRUNCATED, _LOST = 1, 2, 4, 8


class RecordedSample:
    """Positions of a group's outputs in compact columns; above `most` outputs, a random subsample.

    What is kept is a function of the outputs and their order alone, never of the parts in which they were
    added. Outputs without a prompt are named by their text, if it is long and healthy, or else by their
    identity, so that copies of a record and answers that two loggers wrote share a name: they count as one
    prompt for the interval, and are kept or dropped together. Beyond `most`, all outputs are also counted in
    `_BUCKETS` random groups of prompts: what one prompt or one record with a million copies does to the
    variance is seen there, whether it is among the kept ones or not.
    """

    def __init__(self, most: int = MAX_KEPT) -> None:
        self._most = most
        self._cutoff = ALL_NAMES
        self._spread: array[int] | None = None  # failing and all outputs of each bucket, in turn
        self._settled = True
        self._words = (array("i"), array("i"), array("i"))
        self._tokens = (array("i"), array("i"), array("i"))
        self._names = (array("Q"), array("Q"), array("Q"))
        self._requests = array("Q")
        self._flags = array("B")
        self._classes = array("d")
        self._questions = array("Q")

    def __len__(self) -> int:
        return len(self._flags)

    @property
    def complete(self) -> bool:
        """Whether every added output is still kept."""
        return self._spread is None

    def add(self, judged: ScanVerdict, *, truncated: bool) -> None:
        """Add one output. truncated: its symptom is a truncation, so the onset is only where it ended."""
        # Loops of several requests are often the same text; long healthy answers are not.
        extent = judged.words
        by_text = judged.digest and extent.onset is None and extent.length >= COPY_TOKENS
        name = judged.cluster or mix64(judged.digest if by_text else judged.identity)
        if self._spread is not None:
            _count(self._spread, name, judged.words.onset is not None)
            self._settled = False
        if name >= self._cutoff:
            return
        append_extent(self._words, judged.words)
        append_extent(self._tokens, judged.tokens)
        for column, value in zip(self._names, (name, judged.cluster, judged.digest), strict=True):
            column.append(value)
        self._requests.append(judged.request)
        flags = _ENDED * judged.ended | _UNRESOLVED * judged.unresolved | _TRUNCATED * truncated
        self._flags.append(flags | _LOST * judged.lost)
        self._classes.append(float("nan") if judged.length_class is None else judged.length_class)
        self._questions.append(judged.question if judged.cluster else 0)
        if len(self) > self._most:
            self.limit(self._most)

    def limit(self, most: int) -> None:
        """From now on keep at most so many outputs, of prompts selected by hash."""
        self._most = min(self._most, most)
        if len(self) > self._most:
            self._start_spread()
            self._settled = False
            self._settle()

    def merge(self, later: RecordedSample) -> None:
        """Add the outputs of another sample, which follow these."""
        if self._spread is not None or later._spread is not None:
            mine, theirs = self._start_spread(), later._start_spread()
            self._spread = array("q", map(operator.add, mine, theirs))
            self._settled = False
        for column, more in zip(self._columns(), later._columns(), strict=True):
            column.extend(more)
        self._cutoff = min(self._cutoff, later._cutoff)
        self._settle()
        self.limit(later._most)

    def dump(self) -> dict[str, Any]:
        """Everything, for `load`: as numbers and bytes."""
        return {
            "most": self._most,
            "cutoff": format(self._cutoff, "x"),
            "spread": None if self._spread is None else little_endian(self._spread).tobytes(),
            "columns": [little_endian(column).tobytes() for column in self._columns()],
        }

    @classmethod
    def load(cls, dumped: Mapping[str, Any]) -> RecordedSample:
        """A sample that was dumped, perhaps by another machine."""
        found = cls(dumped["most"])
        found._cutoff = int(dumped["cutoff"], 16)
        if dumped["spread"] is not None:
            found._spread, found._settled = little_endian(array("q", dumped["spread"])), False
        for column, raw in zip(found._columns(), dumped["columns"], strict=True):
            stored = array(column.typecode, raw)
            column.extend(little_endian(stored))
        return found

    def observations(self, *, tokens: bool, doubt_lost: bool = False) -> list[Observation]:
        """For the threshold: the first output of each prompt, and every output with an unknown prompt, but of
        several spans of one request the first.

        doubt_lost: treat each lost output separately, as possibly failing where it was lost.
        """
        return deduplicate(self._split(tokens, doubt_lost)[0], None)

    def repeated_observations(self, *, tokens: bool) -> list[Observation]:
        """The outputs that :meth:`observations` omits: later ones of a prompt."""
        return self._split(tokens, False)[1]

    def _split(self, tokens: bool, doubt_lost: bool) -> tuple[list[Observation], list[Observation]]:
        """(first outputs, later ones) of each prompt, where positions are known on that scale."""
        self._settle()
        onsets, observed, _ = self._tokens if tokens else self._words
        _, clusters, digests = self._names
        seen: set[int] = set()
        requests: set[int] = set()
        first: list[Observation] = []
        later: list[Observation] = []
        for i, cluster in enumerate(clusters):
            if observed[i] == ABSENT:
                continue
            flags = self._flags[i]
            lost = doubt_lost and bool(flags & _LOST)
            onset = None if onsets[i] == ABSENT else onsets[i]
            name = f"{cluster:x}" if cluster else ""
            digest = f"{digests[i]:x}" if digests[i] and not lost else None
            ended, unresolved = bool(flags & _ENDED), lost or bool(flags & _UNRESOLVED)
            found = Observation(onset, observed[i], name, digest, None, ended, unresolved)
            request = self._requests[i]
            (later if cluster in seen or request in requests else first).append(found)
            if cluster:
                seen.add(cluster)
            if request:
                requests.add(request)
        return first, later

    def healthy_lengths(self, *, tokens: bool) -> list[int]:
        """Lengths of the outputs without an onset; an empty one is none that a cap could cut."""
        self._settle()
        onsets, _, lengths = self._tokens if tokens else self._words
        return [
            n for onset, n in zip(onsets, lengths, strict=True) if onset == ABSENT and n not in (ABSENT, 0)
        ]

    def share_cut(self, limit: int, *, tokens: bool) -> float | None:
        """The share of the outputs without an onset that a cap of `limit` would cut; None without any."""
        lengths = self.healthy_lengths(tokens=tokens)
        return sum(n > limit for n in lengths) / len(lengths) if lengths else None

    def clusters(self) -> Iterator[tuple[int, int]]:
        """(degenerate, outputs) per prompt; an output with an unknown prompt counts as its own prompt, which
        it shares with its copies. Prompts that share a long text are one: two loggers saw one request, each
        with its own part of the prompt."""
        self._settle()
        known: dict[int, list[int]] = {}
        for onset, name in zip(self._words[0], self._one_name_each(), strict=True):
            pair = known.setdefault(name, [0, 0])
            pair[0] += onset != ABSENT
            pair[1] += 1
        yield from ((d, n) for d, n in known.values())

    def _one_name_each(self) -> Iterator[int]:
        names, _, digests = self._names
        return one_name_each(names, digests, self._requests, self._words[0], self._words[2])

    @property
    def prompts(self) -> int | None:
        """Number of distinct prompts kept; None if no prompt is known."""
        return len(set(self._names[1]) - {0}) or None

    @property
    def questions(self) -> int:
        """Number of different texts of the prompts kept, but for times and ids."""
        return len(set(self._questions) - {0})

    @property
    def promptless(self) -> int:
        """Outputs kept of which no prompt is known: each counts as one to a prompt of its own."""
        return self._names[1].count(0)

    @property
    def clustered(self) -> bool:
        """Whether some known prompt has several outputs."""
        known = [cluster for cluster in self._names[1] if cluster]
        return len(set(known)) < len(known)

    @property
    def copies(self) -> int:
        """Outputs kept that are copies of an earlier record, without a prompt or with another one."""
        self._settle()
        unknown = [name for name, cluster in zip(*self._names[:2], strict=True) if not cluster]
        names = set(self._names[0])
        return len(unknown) - len(set(unknown)) + len(names) - len(set(self._one_name_each()))

    @property
    def one_text(self) -> int:
        """How many kept outputs are one short text beside longer ones, to so many prompts: a refusal, or the
        words of an application or a gateway in place of an answer."""
        self._settle()
        names, _, digests = self._names
        alike: Counter[int] = Counter()
        for digest, onset, length in zip(digests, self._words[0], self._words[2], strict=True):
            if digest and onset == ABSENT and 0 < length < _SHORT_TEXT:
                alike[digest] += 1
        if not alike:
            return 0
        [(text, count)] = alike.most_common(1)
        prompts = {name for name, digest in zip(names, digests, strict=True) if digest == text}
        few = len(prompts) < max(_FEWEST_ALIKE, _ALIKE_SHARE * len(self))
        return 0 if few or not self._others_have(_SHORT_TEXT, count) else count

    @property
    def brief(self) -> int:
        """How many kept outputs are as short as labels or numbers, beside longer ones: they may be none."""
        self._settle()
        count = sum(
            onset == ABSENT and 0 < length <= _BRIEF
            for onset, length in zip(self._words[0], self._words[2], strict=True)
        )
        few = count < max(_FEWEST_ALIKE, _SHARE_BRIEF * len(self))
        return 0 if few or not self._others_have(COPY_TOKENS, count) else count

    def _others_have(self, words: int, short: int) -> bool:
        """Whether most outputs, but for so many short ones, have so many words."""
        long = sum(length >= words for length in self._words[2])
        return 2 * long >= len(self) - short and long > 0

    def effective_share(self) -> float:
        """Effective sample size over sample size, with the outputs of one prompt as a cluster.

        Of a subsample, by the random groups of all outputs (Wolter 2007, chapter 2): their variance is that
        of the prompts, whatever their number. Where everything or nothing fails, the number of prompts.
        """
        if self._spread is None:
            effective, n = effective_size(self.clusters())
            return effective / n if n else 1.0
        groups = list(zip(self._spread[::2], self._spread[1::2], strict=True))
        self._settle()
        prompts = len(set(self._names[0])) * (ALL_NAMES / self._cutoff)
        effective, n = effective_size(groups, prompts)
        if sum(d for d, _ in groups) in (0, n):
            effective = prompts
        return min(effective / n, 1.0)

    def onsets_by_class(self, *, tokens: bool) -> dict[float, list[list[int]]]:
        """Requested length → the onsets of each prompt that has any. Truncations, which lie at the end by
        definition, are none.

        Copies of an output count once. Other prompts may have the same text only where next to nothing of it
        is healthy: floods are alike from their first token.
        """
        self._settle()
        onsets = (self._tokens if tokens else self._words)[0]
        found: dict[float, dict[int, list[int]]] = {}
        seen: set[tuple[float, int, int]] = set()
        for i, length in enumerate(self._classes):
            if length != length:  # NaN
                continue
            there = found.setdefault(length, {})
            onset, (name, cluster, digest) = onsets[i], (column[i] for column in self._names)
            copied = (length, 0 if onset > COPY_TOKENS else cluster, digest)
            if onset == ABSENT or self._flags[i] & _TRUNCATED or copied in seen:
                continue
            if digest:
                seen.add(copied)
            there.setdefault(name, []).append(onset)
        return {length: list(prompts.values()) for length, prompts in found.items()}

    def _columns(self) -> tuple[array[Any], ...]:
        return (
            *self._words,
            *self._tokens,
            *self._names,
            self._flags,
            self._classes,
            self._questions,
            self._requests,
        )

    def _start_spread(self) -> array[int]:
        """The random groups of a sample that is no longer kept whole, or will not be."""
        if self._spread is None:
            self._spread = array("q", bytes(16 * _BUCKETS))
            for onset, name in zip(self._words[0], self._names[0], strict=True):
                _count(self._spread, name, onset != ABSENT)
        return self._spread

    def _settle(self) -> None:
        """If not everything is kept: only the first outputs of a prompt, of no more prompts than fit."""
        if self._spread is None or self._settled:
            return
        self._settled = True
        outputs: Counter[int] = Counter()
        kept = []
        for i, name in enumerate(self._names[0]):
            if name < self._cutoff and outputs[name] < MAX_OF_A_PROMPT:
                outputs[name] += 1
                kept.append(i)
        self._keep(kept)
        while len(self) > self._most:
            self._cutoff //= 2
            self._keep([i for i, name in enumerate(self._names[0]) if name < self._cutoff])

    def _keep(self, rows: Sequence[int]) -> None:
        if len(rows) < len(self):
            for column in self._columns():
                column[:] = array(column.typecode, [column[i] for i in rows])


def _count(spread: array[int], name: int, failing: bool) -> None:
    bucket = 2 * (name % _BUCKETS)
    spread[bucket] += failing
    spread[bucket + 1] += 1
