"""Structure breaks: the numbering of units fails, or sentences and units lose their lengths.

Headings come from `headings`, numbering slips from `numbering`, odd lengths from `compression` and
paragraphs that never end from `overrun`. Each alone is a warning; two slips close together, a slip or an
endless paragraph beside a run of odd sentences, or a long deep collapse is a break, and so is any of them
beside a lasting rise of entropy. A symptom keeps the onset with which it was first reported (the offending
unit's heading, the first odd sentence or unit of the run), unless a rise of entropy dates it back.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import replace

from stresstest.detectors.base import PanelSpec
from stresstest.detectors.compression import SentenceLengths, Shrunk, UnitLengths
from stresstest.detectors.headings import Headings
from stresstest.detectors.numbering import WINDOW, Numbering, Slip
from stresstest.detectors.overrun import ENDED, ParagraphLengths
from stresstest.detectors.prose import strip_heading
from stresstest.detectors.segment import Span, TextFeed
from stresstest.detectors.structure_words import shrunk_words, slip_words
from stresstest.model import Symptom, SymptomKind, Token

_NOT_PROSE = re.compile(r"[-*•+|>`~#<{}\[\]$\\«“\"'„—–_=]|\d+[.)]|[^\W\d]+:")
"""List items, code, tables and lines of dialogue have lengths of their own."""

TOGETHER = 160
"""Tokens within which a rise of entropy and a warning from the text are one event."""

VARIED = 4
"""Different sentences beyond the usual length: no loop makes that paragraph endless."""


def _reach(what: str) -> int:
    """Units within which a slip belongs to odd lengths: an endless paragraph, only to its own or the next."""
    return 1 if what == "paragraph" else WINDOW


def _lasting(symptom: Symptom) -> bool:
    """Whether a rise of entropy proves it: short units may be a list, an endless paragraph a loop."""
    detail = symptom.detail
    varied = detail.get("event") != "paragraph" or detail["different"] >= VARIED
    return varied and detail.get("event") != "units"


class StructureDetector:
    """Online detector of `structure_break`; without a unit pattern it only warns of shrinking sentences."""

    def __init__(self, spec: PanelSpec, feed: TextFeed) -> None:
        self._feed = feed
        self._pattern = re.compile(spec.unit_pattern, re.MULTILINE) if spec.unit_pattern else None
        self._headings = Headings(self._pattern) if self._pattern is not None else None
        self._numbering = Numbering(wanted=spec.units)
        self._sentences = SentenceLengths()
        self._units = UnitLengths()
        self._paragraphs = ParagraphLengths()
        self._heads_read = 0
        self._sentences_read = 0
        self._symptoms: list[Symptom] = []
        self._slips: list[tuple[Slip, int]] = []
        self._shrinking: dict[str, tuple[int, int]] = {}
        self._heading_at = -1
        self._shifted_at: int | None = None
        self._well_dated = False
        self._finished = False

    def corroborate(self, shifted_at: int) -> None:
        """The entropy has risen for good, from token `shifted_at` on: a warning near it is no style, no slip.

        Two signs that share nothing, one read from the text and one from the distribution, fail together
        only when coherence does. Without a unit pattern the text may change its kind as it likes.
        """
        self._shifted_at = shifted_at
        self._well_dated = self._feed.tokens - shifted_at <= TOGETHER
        self._confirm(*(at for at, symptom in enumerate(self._symptoms) if self._near_shift(symptom)))
        for at, symptom in enumerate(self._symptoms):
            if symptom.confirmed:
                self._symptoms[at] = replace(symptom, onset=self._dated(symptom))

    def _near_shift(self, symptom: Symptom) -> bool:
        shifted = self._shifted_at
        within = shifted is not None and abs(symptom.onset - shifted) <= TOGETHER
        return within and self._pattern is not None and symptom.end is None and _lasting(symptom)

    @property
    def units(self) -> int | None:
        """Complete units, each number once; None without a pattern. The last one is complete at the end."""
        if self._pattern is None:
            return None
        return max(self._numbering.distinct - (0 if self._finished else 1), 0)

    @property
    def open_from(self) -> int | None:
        """Start of a slip or of a short run that might yet become a break, else the unfinished sentence."""
        if self._finished:
            return None
        candidates = [self._sentences.open_from, self._feed.pending_from]
        if self._pattern is not None:
            candidates.append(self._units.open_from)
            here = len(self._numbering.units) - 1
            candidates += [s.first for s, _ in self._slips if here - s.index < WINDOW]
        return min((c for c in candidates if c is not None), default=None)

    def update(self, token: Token) -> None:
        """Take the lines and sentences that this token completed. The feed has taken the token already."""
        del token
        feed = self._feed
        if self._heads_read < len(feed.heads) or self._sentences_read < len(feed.sentences):
            self._read()

    def finish(self, finish_reason: str | None) -> None:
        """Judge the last unit when the model ended by itself; a text that was cut off is left open."""
        self._feed.close()
        self._read()
        if finish_reason is None or finish_reason in ("length", "abort", "error"):
            return
        if not self._finished:
            self._end()
        self._finished = True

    def _end(self) -> None:
        """The model chose to end: so did its last paragraph; and after a heading whose unit it never wrote,
        where units have bodies, it ends in the middle of the structure."""
        for at, symptom in enumerate(self._symptoms):
            if symptom.end is None and not symptom.confirmed and symptom.detail.get("event") == "paragraph":
                self._symptoms[at] = replace(symptom, end=self._feed.tokens)
        units = self._numbering.units
        if not units or units[-1].chars > 2 or (len(units) > 1 and units[-2].chars <= 2):
            return
        words = f"the model ended by itself at the heading of unit {units[-1].number}"
        at = self._report(units[-1].first, 1.0, {"where": "unit"}, words)
        self._symptoms[at] = replace(self._symptoms[at], kind=SymptomKind.TRUNCATION, confirmed=True)

    def symptoms(self) -> list[Symptom]:
        """Breaks and warnings (unconfirmed), in order of onset."""
        return sorted(self._symptoms, key=lambda s: s.onset) if self._symptoms else []

    def _read(self) -> None:
        """Headings and sentences in the order of the text, however they were split into tokens."""
        heads, sentences = self._feed.heads, self._feed.sentences
        while self._heads_read < len(heads):
            head = heads[self._heads_read]
            self._read_sentences(head.start, sentences)
            self._heads_read += 1
            if self._headings is not None:
                self._on_head(head, self._headings)
        self._read_sentences(self._feed.chars, sentences)

    def _read_sentences(self, before: int, sentences: list[Span]) -> None:
        while self._sentences_read < len(sentences) and sentences[self._sentences_read].start < before:
            self._on_sentence(sentences[self._sentences_read])
            self._sentences_read += 1

    def _on_head(self, head: Span, headings: Headings) -> None:
        numbering = self._numbering
        found = headings.read(head.text, numbering.units[-1].number if numbering.units else None)
        if found is None:
            return
        if head.end >= self._feed.chars and found.end == len(head.text):
            return  # the output was cut inside the number: "Paragraph 4" of 430
        self._heading_at = head.start
        if numbering.units:
            unit = numbering.units[-1]
            shrunk = self._units.add(unit.chars, unit.first)
            if shrunk is not None:
                self._on_shrunk(shrunk)
        started = numbering.started
        slip = numbering.heading(found.number, head.first)
        if numbering.started != started:
            self._units.reset()
        if slip is None and found.renamed:
            slip = Slip("renamed", len(numbering.units) - 1, found.number, None, head.first)
        if slip is not None:
            self._on_slip(slip)
        self._settle()

    def _on_sentence(self, span: Span) -> None:
        prose = strip_heading(span.text)
        self._numbering.body(len(prose))
        if self._numbering.units:
            unit = len(self._numbering.units)
            overrun = self._paragraphs.add(prose, span.first, span.line, unit)
            if overrun is not None:
                self._on_shrunk(overrun)
        heading = span.start == self._heading_at
        if heading and not ENDED.search(prose):
            return  # a title
        # Where the text ends in mid-sentence, the length says nothing.
        if not span.closed or len(prose) < 2 or _NOT_PROSE.match(prose if heading else span.text):
            return
        shrunk = self._sentences.add(len(prose), span.first, len(self._numbering.units))
        if shrunk is not None:
            self._on_shrunk(shrunk)

    def _on_slip(self, slip: Slip) -> None:
        recent = self._slips_near(slip.index, WINDOW)
        detail = {"event": slip.kind, "number": slip.number, "before": slip.before}
        at = self._report(self._begun(slip), 0.5, detail, slip_words(slip))
        self._slips.append((slip, at))
        near = [a for what, (a, unit) in self._shrinking.items() if slip.index - unit <= _reach(what)]
        if recent or near or self._near_shift(self._symptoms[at]):
            self._confirm(*recent, *near, at)

    def _slips_near(self, unit: int, reach: int) -> list[int]:
        return [at for slip, at in self._slips if unit - slip.index <= reach]

    def _begun(self, slip: Slip) -> int:
        """Where the failure that a slip shows began: at its heading, once lost parts of sentences are seen by
        themselves; before there are lengths to compare with, at the sentence before it, on the safe side."""
        read = self._sentences_read
        if self._sentences.ready or not read:
            return slip.first
        return min(slip.first, self._feed.sentences[read - 1].first)

    def _on_shrunk(self, shrunk: Shrunk) -> None:
        here = len(self._numbering.units)
        known = self._shrinking.get(shrunk.what)
        if known is not None and here - known[1] <= WINDOW and self._symptoms[known[0]].end is None:
            at = known[0]
        else:
            detail = {"event": shrunk.what, "early": shrunk.before, "now": shrunk.after}
            if shrunk.what == "paragraph":
                detail["different"] = shrunk.count
            at = self._report(shrunk.first, 0.4, detail, shrunk_words(shrunk))
        self._shrinking[shrunk.what] = (at, here)
        if self._pattern is None:
            return
        near = self._slips_near(here, _reach(shrunk.what)) + self._endless(at)
        if near or shrunk.certain or self._near_shift(self._symptoms[at]):
            self._confirm(*near, at)

    def _endless(self, at: int) -> list[int]:
        """The odd sentences of an endless paragraph, or the paragraph of odd sentences, beside `at`."""
        both = [self._shrinking[what] for what in ("sentences", "paragraph") if what in self._shrinking]
        if len(both) < 2 or at not in (a for a, _ in both) or abs(both[0][1] - both[1][1]) > 1:
            return []
        if not self._sentences.regular:
            return []
        onsets = [self._symptoms[a].onset for a, _ in both]
        if max(onsets) - min(onsets) > TOGETHER:
            return []
        return [a for a, _ in both if a != at and self._symptoms[a].end is None]

    def _report(self, onset: int, score: float, detail: dict[str, object], summary: str) -> int:
        alarm = max(self._feed.tokens, onset)
        self._symptoms.append(
            Symptom(
                kind=SymptomKind.STRUCTURE_BREAK,
                onset=onset,
                alarm=alarm,
                score=score,
                confirmed=False,
                detail=detail,
                summary=summary,
            )
        )
        return len(self._symptoms) - 1

    def _confirm(self, *indices: int) -> None:
        for at in indices:
            symptom = self._symptoms[at]
            if not symptom.confirmed:
                self._symptoms[at] = replace(
                    symptom,
                    onset=self._dated(symptom),
                    confirmed=True,
                    score=1.0,
                    alarm=self._feed.tokens,
                    end=None,
                )

    def _dated(self, symptom: Symptom) -> int:
        """The onset. Of odd sentences, dated back to the first that began after a rise of entropy shortly
        before: what is lost first is the sureness, and lengths that tell of it come sentences later. A rise
        that took long to be seen is small, and its own date is rough."""
        shifted, onset = self._shifted_at, symptom.onset
        if shifted is None or not self._well_dated or symptom.detail.get("event") != "sentences":
            return onset
        if not 0 < onset - shifted <= TOGETHER:
            return onset
        sentences = self._feed.sentences
        at = bisect_left(sentences, shifted, key=lambda span: span.first)
        return min(onset, sentences[at].first) if at < len(sentences) else onset

    def _settle(self) -> None:
        """Close warnings that three units in good order have outlived."""
        here = len(self._numbering.units) - 1
        last = [s.index for s, _ in self._slips[-1:]] + [unit for _, unit in self._shrinking.values()]
        if not last or here - max(last) <= WINDOW:
            return
        end = self._numbering.units[-1].first - 1
        for i, symptom in enumerate(self._symptoms):
            if symptom.end is None:
                self._symptoms[i] = replace(symptom, end=end)
        self._slips.clear()
        self._shrinking.clear()
