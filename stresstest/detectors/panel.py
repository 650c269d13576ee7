"""The panel: all detectors over one generation, and the one verdict that they come to together.

Which symptom gives the onset, what a warning is worth, how far an output without an onset counts as
observed: decided here and nowhere else, online and over stored text alike.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from stresstest.detectors.base import Detector, PanelSpec
from stresstest.detectors.entropy import EntropyDetector
from stresstest.detectors.flooding import FloodingDetector
from stresstest.detectors.gibberish import GibberishDetector
from stresstest.detectors.language import LanguageDetector
from stresstest.detectors.loop import LoopDetector
from stresstest.detectors.marks import ALONE, LONGEST_PIECE
from stresstest.detectors.near_loop import NearLoopDetector
from stresstest.detectors.segment import TextFeed
from stresstest.detectors.structure import StructureDetector
from stresstest.detectors.truncation import TruncationDetector
from stresstest.model import Symptom, SymptomKind, Token, Verdict, Zone, ZoneKind

WARNED_BEFORE = 64
"""Tokens, about three sentences: an entropy change at most so long before a confirmed onset belongs to
it. A longer reach would date an onset back to a change that the text survived."""

LASTING_COPIES, LASTING_TOKENS = 8, 1000
"""Copies and repeated tokens from which on an exact loop is one by itself. A shorter one may be a stretch of
a near-loop that happens to be exact: that one is where it began, and a threshold must not stand after it. A
generation that is aborted soon after its alarm never gets so far."""

HELD = 32
"""Tokens that are held back at most until somebody asks."""

_LOOPS = (SymptomKind.LOOP, SymptomKind.NEAR_LOOP)
_EXACT = (*_LOOPS, SymptomKind.TRUNCATION, SymptomKind.GIBBERISH)
"""Their onset is exact by definition, or dated by its own statistics (gibberish); nothing dates it back."""

_OWN_WORDS = (SymptomKind.FLOODING, SymptomKind.STRUCTURE_BREAK)
"""What an exact loop brings about by itself: its few words own the window, its headings come again."""
_ENDLESS = (*_LOOPS, SymptomKind.FLOODING, SymptomKind.GIBBERISH)
"""Failures that have no sentence ends of their own."""

_PIECE = re.compile(
    rf"[^\S\n]{{0,{LONGEST_PIECE}}}(?:[{ALONE}]|[^\W{ALONE}]{{1,{LONGEST_PIECE}}}|[^\w\s]|\n)"
    rf"|[^\S\n]{{1,{LONGEST_PIECE}}}"
)


class Panel:
    """All detectors over one generation. `update` once a token, then `finish` once.

    The verdict's onset is that of the earliest confirmed symptom. It never changes through what
    merely continues; it moves back when later text proves an earlier symptom.
    """

    def __init__(self, spec: PanelSpec) -> None:
        self._feed = TextFeed()
        self._loop = LoopDetector(spec)
        self._structure = StructureDetector(spec, self._feed)
        self._entropy = EntropyDetector()
        self._numbered = spec.unit_pattern is not None
        self._shifted = False
        language = LanguageDetector(spec, self._feed)
        gibberish = GibberishDetector(spec, self._feed)
        truncation = TruncationDetector(spec, self._feed)
        near_loop, flooding = NearLoopDetector(spec), FloodingDetector(spec)
        repetition: tuple[Detector, ...] = (self._loop, near_loop, flooding)
        on_spans: tuple[Detector, ...] = (language, self._structure)
        self._detectors: tuple[Detector, ...] = (*repetition, self._entropy, gibberish, *on_spans, truncation)
        self._on_tokens = tuple(detector.update for detector in repetition)
        self._on_text = gibberish.update
        # These act only where a sentence or a line's head is complete, and truncation at the end.
        self._on_spans = tuple(detector.update for detector in on_spans)
        # Only these can find something between two spans; entropy proves nothing alone.
        self._quick: tuple[Detector, ...] = (*repetition, gibberish)
        self._held: list[Token] = []
        self._spans = self._spans_looked = 0
        self._tokens = 0
        self._looked = 0
        self._alarm: int | None = None
        self._finished = False

    def update(self, token: Token) -> None:
        """Take the next output token. Reasoning is watched for loops and flooding only."""
        self._tokens += 1
        self._held.append(token)
        if len(self._held) >= HELD:
            self._take()

    def _take(self) -> None:
        """Give the detectors what is held back: each all of it in a row, which costs half as much as all of
        them token by token. What listens to the text takes it token by token, for it shares the feed."""
        held = self._held
        if not held:
            return
        for update in self._on_tokens:
            for token in held:
                update(token)
        feed, on_text, entropy = self._feed, self._on_text, self._entropy
        sentences, heads = feed.sentences, feed.heads
        for token in held:
            feed.update(token)
            entropy.update(token)
            on_text(token)
            spans = len(sentences) + len(heads)
            if spans != self._spans:
                self._spans = spans
                for update in self._on_spans:
                    update(token)
            if not self._shifted and (rise := entropy.rise) is not None:
                self._shifted = True
                self._structure.corroborate(rise)
        held.clear()

    @property
    def alarm(self) -> int | None:
        """The token at which a degeneration became certain, or None. Never changes once set."""
        if self._alarm is None and self._looked != self._tokens:
            self._looked = self._tokens
            self._take()
            for detector in self._quick:
                if detector.symptoms():
                    self._look(detector)
            if self._spans != self._spans_looked or self._finished:
                self._spans_looked = self._spans
                for detector in self._detectors:
                    self._look(detector)
        return self._alarm

    def _look(self, detector: Detector) -> None:
        for symptom in detector.symptoms():
            if symptom.confirmed and (self._alarm is None or symptom.alarm < self._alarm):
                self._alarm = symptom.alarm

    def finish(self, finish_reason: str | None) -> Verdict:
        """The output has ended ("stop", "length", None when lost or unknown). Later calls only answer."""
        if not self._finished:
            self._finished = True
            self._looked = -1
            self._take()
            self._feed.close()
            for detector in self._detectors:
                detector.finish(finish_reason)
        return self.verdict()

    def verdict(self) -> Verdict:
        """What is known so far; after `finish`, of the whole output."""
        self._take()
        symptoms = settled([symptom for detector in self._detectors for symptom in detector.symptoms()])
        confirmed = [symptom for symptom in symptoms if symptom.confirmed]
        first = min(confirmed, key=precedence, default=None)
        onset = self._dated(first, symptoms) if first else None
        loops = [symptom for symptom in confirmed if symptom.kind in _LOOPS]
        standing = any(loop.end is None for loop in loops)
        return Verdict(
            tokens=self._tokens,
            observed=self._observed(symptoms) if onset is None else onset - 1,
            onset=onset,
            alarm=first.alarm if first else None,
            symptom=first.kind if first else None,
            symptoms=tuple(symptoms),
            zones=zones_of(self._tokens, onset, symptoms),
            units=self._structure.units,
            recovered=bool(loops) and not standing,
            loops_to_end=standing,
            score=max((s.score if s.confirmed else s.score / 2 for s in symptoms), default=0.0),
        )

    def _observed(self, symptoms: list[Symptom]) -> int:
        """Up to the oldest open candidate, and up to a warning that still stands where the output ends."""
        opened = [d.open_from for d in self._detectors]
        opened += [s.onset for s in symptoms if s.end is None and self._may_be_confirmed(s)]
        return min((start - 1 for start in opened if start is not None), default=self._tokens)

    def _may_be_confirmed(self, warning: Symptom) -> bool:
        """A change of entropy never is, nor are odd sentences in a text without units."""
        if warning.kind is SymptomKind.STRUCTURE_BREAK:
            return self._numbered
        return warning.kind is not SymptomKind.ENTROPY_SHIFT

    def _dated(self, first: Symptom, symptoms: list[Symptom]) -> int:
        """The onset of the first symptom, dated back by the warnings that belong to it.

        A warning from the text itself (a shrinking sentence, a foreign passage) that leads up to the
        onset is where it began. A rise of entropy is no text: it moves the onset to the first sentence
        that begins after the change, so that no sentence is accused in which the model was still sure.
        """
        onset = first.onset
        if first.kind is SymptomKind.LOOP:
            if lasts(first):
                return onset  # what led into it was drifting: the second copy is the first that says nothing
            led = [s.onset for s in symptoms if s.kind is SymptomKind.NEAR_LOOP and _leads(s, first)]
            return min([onset, *led])
        if first.kind in _EXACT:
            return onset
        dates = [onset]
        for warning in symptoms:
            if warning.confirmed or not onset - WARNED_BEFORE <= warning.onset < onset:
                continue
            if warning.kind is not SymptomKind.ENTROPY_SHIFT:
                if warning.end is None or warning.end >= onset - 1:
                    dates.append(warning.onset)
            elif warning.detail.get("direction") == "up":
                dates.append(self._sentence_from(warning.onset))
        return min(dates)

    def _sentence_from(self, position: int) -> int:
        """First token of the first sentence that begins at `position` or later."""
        sentences = self._feed.sentences
        at = bisect_left(sentences, position, key=lambda span: span.first)
        return sentences[at].first if at < len(sentences) else self._tokens


_token = lru_cache(1 << 15)(Token)
"""Tokens are frozen, so that one serves every place where its piece stands."""


def pieces(text: str) -> list[str]:
    """Plain text cut into words, punctuation and line breaks, each with the blanks before it. Joined they
    are the text. Scripts without spaces go character by character."""
    return _PIECE.findall(text)


def text_tokens(text: str) -> list[Token]:
    """Plain text as tokens without ids: its `pieces`."""
    return list(map(_token, _PIECE.findall(text)))


def judge_tokens(tokens: Iterable[Token], spec: PanelSpec, finish_reason: str | None = None) -> Verdict:
    """The panel's verdict over a stored generation; the same as online."""
    panel = Panel(spec)
    for token in tokens:
        panel.update(token)
    return panel.finish(finish_reason)


def judge_text(text: str, spec: PanelSpec, finish_reason: str | None = None) -> Verdict:
    """The panel's verdict over plain text. Positions count the tokens of `text_tokens`."""
    return judge_tokens(text_tokens(text), spec, finish_reason)


def lasts(loop: Symptom) -> bool:
    """Whether an exact loop went on for so long that it is one by itself."""
    copies, repeated = float(loop.detail["exponent"]), int(loop.detail["repeated"])
    return copies >= LASTING_COPIES and repeated >= LASTING_TOKENS


def precedence(symptom: Symptom) -> tuple[int, int, str]:
    """By which the first of several symptoms is the one that a verdict names."""
    return symptom.onset, symptom.alarm, symptom.kind


def settled(symptoms: list[Symptom]) -> list[Symptom]:
    """All symptoms by onset, each failure once.

    A loop of few words floods its window from its first copy on, which is legitimate text, and an exact
    loop is a near-loop too. A near-loop that leads into an exact loop, and was not proven before that
    loop's second copy, is how the loop began: a warning. The exact onset is better known.
    """
    exact = [s for s in symptoms if s.kind is SymptomKind.LOOP and s.confirmed]
    standing = [s for s in symptoms if s.confirmed and s.end is None and s.kind in _ENDLESS]
    near = [_yielding(s, exact) for s in symptoms if s.kind is SymptomKind.NEAR_LOOP]
    near = [s for s in near if not any(_covers(loop, s.onset) for loop in exact)]
    kept = [
        symptom
        for symptom in symptoms
        if symptom.kind is not SymptomKind.NEAR_LOOP
        and (symptom.kind not in _OWN_WORDS or not any(_covers(s, symptom.onset) for s in exact))
        and (symptom.kind is not SymptomKind.TRUNCATION or not any(_within(s, symptom) for s in standing))
    ]
    told = [_known(s, symptoms) if s in exact else s for s in kept]
    return sorted([*told, *near], key=precedence)


def _known(loop: Symptom, symptoms: list[Symptom]) -> Symptom:
    """The exact loop, with the alarm of the near-loop that it was known as before, if it was."""
    alarms = [
        s.alarm
        for s in symptoms
        if s.kind is SymptomKind.NEAR_LOOP and s.confirmed and loop.onset <= s.alarm < loop.alarm
        if _covers(loop, s.onset) or _leads(s, loop)
    ]
    return replace(loop, alarm=min(alarms)) if alarms else loop


def _yielding(near: Symptom, exact: list[Symptom]) -> Symptom:
    """The near-loop, as a warning if it stands into an exact loop and was proven only by it."""
    return replace(near, confirmed=False) if any(_leads(near, loop) for loop in exact) else near


def _leads(near: Symptom, loop: Symptom) -> bool:
    return near.onset < loop.onset <= near.alarm and (near.end is None or near.end >= loop.onset)


def _within(failure: Symptom, truncation: Symptom) -> bool:
    """What ends the output ends it in mid-sentence: the sentence that is cut is the failure's own."""
    return (failure.onset if failure.start is None else failure.start) <= truncation.alarm


def _covers(loop: Symptom, position: int) -> bool:
    start = loop.onset if loop.start is None else loop.start
    return start <= position and (loop.end is None or position <= loop.end)


def zones_of(tokens: int, onset: int | None, symptoms: list[Symptom]) -> tuple[Zone, ...]:
    """Stable to the first warning, drifting to the onset, collapsed from there on: covers 1..tokens."""
    if tokens == 0:
        return ()
    collapsed = tokens + 1 if onset is None else onset
    warned = min((s.onset for s in symptoms if not s.confirmed), default=collapsed)
    bounds = (
        (ZoneKind.STABLE, 1, min(warned, collapsed) - 1),
        (ZoneKind.DRIFTING, min(warned, collapsed), collapsed - 1),
        (ZoneKind.COLLAPSED, collapsed, tokens),
    )
    return tuple(Zone(kind, start, end) for kind, start, end in bounds if start <= end)
