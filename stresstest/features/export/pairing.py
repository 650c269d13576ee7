"""From answers to preference pairs: same prompt, lengths as near as they come, one split by prompt. Pure."""

from __future__ import annotations

import hashlib
import heapq
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stresstest.features.export.answers import SHORT, AskedPrompt, ExportedAnswer
from stresstest.unit_pattern import UnitPattern


@dataclass(frozen=True, slots=True)
class PreferencePair:
    """Two answers to one prompt.

    shared_chars: characters with which both begin, where both continue one fork; intervention: the change
    under which the chosen one was continued then.
    """

    chosen: ExportedAnswer
    rejected: ExportedAnswer
    shared_chars: int = 0
    intervention: str | None = None


def is_held_out(prompt: AskedPrompt, share: float) -> bool:
    """Whether a prompt belongs to the held-out part: by a hash of what it asks, so the same in every run."""
    digest = hashlib.sha256((prompt.topic or prompt.question).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def with_known_prompts(answers: Sequence[ExportedAnswer]) -> list[ExportedAnswer]:
    """The answers, each with what any of them knows of its prompt, and marked where shorter than asked for.

    A prompt out of a file is known as a task's where a run of the task is among the sources.
    """
    known: dict[str, AskedPrompt] = {}
    for answer in answers:
        before = known.setdefault(answer.prompt.key, answer.prompt)
        if before.topic is None:
            known[answer.prompt.key] = answer.prompt
    return [_marked(_with_prompt(answer, known[answer.prompt.key])) for answer in answers]


def _with_prompt(answer: ExportedAnswer, prompt: AskedPrompt) -> ExportedAnswer:
    return answer if answer.prompt is prompt else replace(answer, prompt=prompt)


def _marked(answer: ExportedAnswer) -> ExportedAnswer:
    prompt = answer.prompt
    if not answer.healthy or prompt.units is None or prompt.unit_pattern is None:
        return answer
    units = sum(1 for _ in UnitPattern(prompt.unit_pattern).finditer(answer.text))
    return replace(answer, flaw=SHORT) if units < prompt.units else answer


def distinct(answers: Iterable[ExportedAnswer]) -> list[ExportedAnswer]:
    """Without those that repeat the text of an earlier one to the same prompt under the same decoding."""
    found: dict[tuple[Hashable, ...], ExportedAnswer] = {}
    for a in answers:
        found.setdefault((a.prompt.key, a.subject.model, a.decoding, a.degenerate, a.text), a)
    return list(found.values())


def pair_answers(
    answers: Sequence[ExportedAnswer], elsewhere: Sequence[ExportedAnswer], most: int
) -> list[PreferencePair]:
    """Pairs of the same prompt, at most `most` of each; no answer is in two.

    answers: paired within one model and decoding. elsewhere: whose healthy answers, of any decoding, stand
    beside those that find no partner there. Of the possible pairs those nearest in length are taken.
    """
    pairs: list[PreferencePair] = []
    same = _healthy_by(answers, lambda a: (a.prompt.key, a.subject.model, a.decoding))
    other = _healthy_by(elsewhere, lambda a: a.prompt.key)
    failing: dict[str, list[ExportedAnswer]] = defaultdict(list)
    for answer in answers:
        if answer.degenerate:
            failing[answer.prompt.key].append(answer)
    for key, rejected in failing.items():
        used: set[int] = set()
        own = [(r, same.get((key, r.subject.model, r.decoding), ())) for r in rejected]
        found = _nearest(own, most, used)
        found += _nearest([(r, other.get(key, ())) for r in rejected], most - len(found), used)
        pairs += found
    return pairs


def _healthy_by(
    answers: Iterable[ExportedAnswer], key: Callable[[ExportedAnswer], Hashable]
) -> Mapping[Hashable, Sequence[ExportedAnswer]]:
    found: dict[Hashable, list[ExportedAnswer]] = defaultdict(list)
    for answer in answers:
        if answer.healthy:
            found[key(answer)].append(answer)
    return found


def _nearest(
    candidates: Sequence[tuple[ExportedAnswer, Sequence[ExportedAnswer]]], most: int, used: set[int]
) -> list[PreferencePair]:
    """The pairs nearest in length; each answer once. used: identities of answers, added to.

    n answers make up to n² / 4 pairs, so that these are looked at one by one until there are enough.
    """
    groups = {id(healthy): healthy for _, healthy in candidates}  # most share one
    by_length = {place: _ByLength(healthy) for place, healthy in groups.items()}
    nearest = (by_length[id(healthy)].nearest(bad, i) for i, (bad, healthy) in enumerate(candidates))
    found: list[PreferencePair] = []
    if most < 1:
        return found
    for _, i, j in heapq.merge(*nearest):
        rejected, healthy = candidates[i]
        if not used & {id(healthy[j]), id(rejected)}:
            found.append(PreferencePair(healthy[j], rejected))
            used |= {id(healthy[j]), id(rejected)}
            if len(found) == most:
                break
    return found


_Nearness = tuple[int, int, int]
"""A difference in length, the place of the rejected answer, and that of the healthy one."""


class _ByLength:
    """Healthy answers by their length: in words, and in tokens where these are counted."""

    def __init__(self, answers: Sequence[ExportedAnswer]) -> None:
        self._words = _Lengths((a.words, j) for j, a in enumerate(answers))
        self._tokens = _Lengths((a.tokens, j) for j, a in enumerate(answers) if a.tokens is not None)
        self._uncounted = _Lengths((a.words, j) for j, a in enumerate(answers) if a.tokens is None)

    def nearest(self, rejected: ExportedAnswer, i: int) -> Iterator[_Nearness]:
        """All of them, the nearest in length first: in tokens where both are counted, else in words; else in
        their order."""
        if rejected.tokens is None:
            return self._words.outwards(rejected.words, i)
        return heapq.merge(
            self._tokens.outwards(rejected.tokens, i), self._uncounted.outwards(rejected.words, i)
        )


class _Lengths:
    """Lengths with the places of their answers, in both directions."""

    def __init__(self, lengths: Iterable[tuple[int, int]]) -> None:
        self._up = sorted(lengths)
        self._down = sorted((-length, j) for length, j in self._up)

    def outwards(self, length: int, i: int) -> Iterator[_Nearness]:
        """From a length on to the longer and the shorter ones, whichever is nearer."""
        up, down = self._up, self._down
        above = range(bisect_left(up, (length, 0)), len(up))
        below = range(bisect_left(down, (1 - length, 0)), len(down))
        return heapq.merge(
            ((up[k][0] - length, i, up[k][1]) for k in above),
            ((length + down[k][0], i, down[k][1]) for k in below),
        )


def at_most_per_prompt(answers: Iterable[ExportedAnswer], most: int) -> list[ExportedAnswer]:
    """The first `most` healthy and the first `most` degenerate answers of each prompt, for KTO."""
    counts: Counter[tuple[str, bool]] = Counter()
    kept = []
    for answer in answers:
        place = answer.prompt.key, answer.degenerate
        if answer.flaw is None and counts[place] < most:
            counts[place] += 1
            kept.append(answer)
    return kept
