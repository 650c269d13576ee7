"""Recorded outputs as observations: the same estimand and the same bound as for a run's generations.

What differs: nobody planned the sample. So several outputs of one prompt are one witness for the
threshold (the first recorded), and beyond a bounded number of outputs a random part is kept, whole
prompts at a time, chosen by their names and never by their outcomes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace

from stresstest.model import Observation, Rigor, Threshold
from stresstest.model.scanned import Extent, Judged, LengthEffect
from stresstest.threshold.certify import certify
from stresstest.threshold.proportion import effective_size
from stresstest.threshold.sample import deduplicate
from stresstest.threshold.survival import onset_ratio

MOST = 100_000
"""Outputs kept of a group, about 70 bytes each. The bound on 1 % from 50,000 is 1.07 %."""
_ABSENT = -1
_ENDED, _UNRESOLVED, _TRUNCATED, _LOST = 1, 2, 4, 8
_ALL = 1 << 64


class RecordedSample:
    """Positions of a group's outputs in compact columns; a random part of the prompts beyond `most`."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._cutoff = _ALL
        self._seen = 0
        self._words = (array("i"), array("i"), array("i"))
        self._tokens = (array("i"), array("i"), array("i"))
        self._names = (array("Q"), array("Q"), array("Q"))
        self._flags = array("B")
        self._classes = array("d")

    def __len__(self) -> int:
        return len(self._flags)

    @property
    def complete(self) -> bool:
        """Whether every output that was added is still here."""
        return self._cutoff == _ALL

    def add(self, judged: Judged, *, truncated: bool) -> None:
        """Take one output. truncated: its symptom is its end, not a length at which it fails."""
        self._seen += 1
        name = judged.cluster or _mixed(self._seen)
        if name >= self._cutoff:
            return
        _append(self._words, judged.words)
        _append(self._tokens, judged.tokens)
        for column, value in zip(self._names, (name, judged.cluster, judged.digest), strict=True):
            column.append(value)
        flags = _ENDED * judged.ended | _UNRESOLVED * judged.unresolved | _TRUNCATED * truncated
        self._flags.append(flags | _LOST * judged.lost)
        self._classes.append(float("nan") if judged.length_class is None else judged.length_class)
        if len(self._flags) > self._most:
            self.thin()

    def observations(self, *, tokens: bool, doubt_lost: bool = False) -> list[Observation]:
        """For the threshold: the first output of every prompt, every output whose prompt is unknown.

        doubt_lost: what the service gave up may have failed right there, each of them for itself.
        """
        return deduplicate(self._split(tokens, doubt_lost)[0], None)

    def further(self, *, tokens: bool) -> list[Observation]:
        """The outputs that :meth:`observations` leaves aside: later ones of a prompt."""
        return self._split(tokens, False)[1]

    def _split(self, tokens: bool, doubt_lost: bool) -> tuple[list[Observation], list[Observation]]:
        """(first outputs, later ones) whose positions are known on that scale."""
        onsets, observed, _ = self._tokens if tokens else self._words
        _, clusters, digests = self._names
        seen: set[int] = set()
        first: list[Observation] = []
        later: list[Observation] = []
        for i, cluster in enumerate(clusters):
            if observed[i] == _ABSENT:
                continue
            flags = self._flags[i]
            lost = doubt_lost and bool(flags & _LOST)
            onset = None if onsets[i] == _ABSENT else onsets[i]
            name = f"{cluster:x}" if cluster else ""
            digest = f"{digests[i]:x}" if digests[i] and not lost else None
            ended, unresolved = bool(flags & _ENDED), lost or bool(flags & _UNRESOLVED)
            found = Observation(onset, observed[i], name, digest, None, ended, unresolved)
            (later if cluster in seen else first).append(found)
            if cluster:
                seen.add(cluster)
        return first, later

    def healthy_lengths(self, *, tokens: bool) -> list[int]:
        """Lengths of the outputs without an onset."""
        onsets, _, lengths = self._tokens if tokens else self._words
        return [n for onset, n in zip(onsets, lengths, strict=True) if onset == _ABSENT and n != _ABSENT]

    def clusters(self) -> Iterator[tuple[int, int]]:
        """(degenerate, outputs) of every prompt; an output of an unknown prompt is a prompt of its own."""
        known: dict[int, list[int]] = {}
        for onset, cluster in zip(self._words[0], self._names[1], strict=True):
            if not cluster:
                yield int(onset != _ABSENT), 1
            else:
                pair = known.setdefault(cluster, [0, 0])
                pair[0] += onset != _ABSENT
                pair[1] += 1
        yield from ((d, n) for d, n in known.values())

    @property
    def prompts(self) -> int | None:
        """Distinct prompts kept; None when no prompt is known."""
        return len(set(self._names[1]) - {0}) or None

    def effective_share(self) -> float:
        """Of the sample size, what is left when several outputs of one prompt are clusters."""
        effective, n = effective_size(self.clusters())
        return effective / n if n else 1.0

    def onsets_by_class(self, *, tokens: bool) -> dict[float, list[int]]:
        """Requested length → onsets; truncations are left out, they lie at the end by definition."""
        onsets = (self._tokens if tokens else self._words)[0]
        found: dict[float, list[int]] = {}
        for i, length in enumerate(self._classes):
            if length == length:  # not NaN
                there = found.setdefault(length, [])
                if onsets[i] != _ABSENT and not self._flags[i] & _TRUNCATED:
                    there.append(onsets[i])
        return found

    def thin(self) -> None:
        """Keep about half of the prompts, chosen by their names."""
        self._cutoff //= 2
        kept = [i for i, name in enumerate(self._names[0]) if name < self._cutoff]
        for columns in (self._words, self._tokens, self._names, (self._flags,)):
            for column in columns:
                column[:] = array(column.typecode, [column[i] for i in kept])
        self._classes[:] = array("d", [self._classes[i] for i in kept])


def certify_recorded(sample: Sequence[Observation], rigor: Rigor, unit: str) -> Threshold:
    """:func:`certify`, in the words of the unit that positions were counted in."""
    threshold = certify(sample, rigor)
    if threshold.lacking is None:
        return threshold
    lacking = threshold.lacking if sample else f"{rigor.floor} requests at risk are needed, none was."
    if any(observation.cluster for observation in sample):
        lacking = lacking.replace(" of ≥", " from other prompts, of ≥")
    return replace(threshold, lacking=lacking.replace(" tokens", f" {unit}"))


def length_effect(onsets: dict[float, list[int]]) -> LengthEffect | None:
    """Does onset depend on the requested length? None when there are fewer than two classes."""
    if len(onsets) < 2:
        return None
    low, high = min(onsets), max(onsets)
    short, long = onsets[low], onsets[high]
    ratio = onset_ratio(short, long)
    names = f"{low:g}", f"{high:g}"
    if ratio is None:
        counts = f"{len(short)} onsets at {names[0]} and {len(long)} at {names[1]}"
        return LengthEffect(
            *names, n_short=len(short), n_long=len(long), lacking=f"{counts}: five are needed"
        )
    return LengthEffect(
        *names, ratio.ratio, ratio.lo, ratio.hi, ratio.n_short, ratio.n_long, ratio.independent
    )


def _append(columns: tuple[array[int], array[int], array[int]], extent: Extent | None) -> None:
    row = (
        (_ABSENT, _ABSENT, _ABSENT)
        if extent is None
        else (_ABSENT if extent.onset is None else extent.onset, extent.observed, extent.length)
    )
    for column, value in zip(columns, row, strict=True):
        column.append(min(value, (1 << 31) - 1))


def _mixed(n: int) -> int:
    """SplitMix64 of n: a uniform 64-bit name for an output whose prompt is unknown (Steele et al. 2014)."""
    z = (n * 0x9E3779B97F4A7C15) % _ALL
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % _ALL
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % _ALL
    return z ^ (z >> 31)
