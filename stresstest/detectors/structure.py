"""Structure breaks: the numbering of units fails, or sentences and units compress.

Numbering slips come from `numbering`, shrinking lengths from `compression`. Each alone is a warning;
two slips close together, a slip beside a shrinking run, or a long deep collapse is a break. Every
symptom keeps the onset with which it was first reported: the offending unit's heading, or the first
short sentence or unit of the run.
"""

from __future__ import annotations

import re
from dataclasses import replace

from stresstest.detectors.base import PanelSpec
from stresstest.detectors.compression import SentenceLengths, Shrunk, UnitLengths
from stresstest.detectors.numbering import WINDOW, Numbering, Slip
from stresstest.detectors.prose import strip_heading
from stresstest.detectors.segment import Span, TextFeed
from stresstest.model import Symptom, SymptomKind, Token

_NOT_PROSE = re.compile(r"[-*•+|>`~#<{}\[\]$\\«“\"'„—–_=]|\d+[.)]|[^\W\d]+:")
"""List items, code, tables and lines of dialogue have lengths of their own."""
_ENDED = re.compile(r"[.!?…؟।۔。！？｡]\W*\Z")

TOGETHER = 160
"""Tokens within which a rise of entropy and a run of odd sentences are one event."""

_WORDS = {
    "stick": "unit number {number} comes twice in a row",
    "back": "unit number {number} follows {before}",
    "repeat": "unit number {number} comes again",
    "skip": "unit number {number} follows {before}",
    "empty": "unit {number} is a heading without a body",
}


class StructureDetector:
    """Online detector of `structure_break`; without a unit pattern it only warns of shrinking sentences."""

    def __init__(self, spec: PanelSpec, feed: TextFeed) -> None:
        self._feed = feed
        self._pattern = re.compile(spec.unit_pattern, re.MULTILINE) if spec.unit_pattern else None
        self._numbering = Numbering(wanted=spec.units)
        self._sentences = SentenceLengths()
        self._units = UnitLengths()
        self._heads_read = 0
        self._sentences_read = 0
        self._symptoms: list[Symptom] = []
        self._slips: list[tuple[Slip, int]] = []
        self._shrinking: dict[str, tuple[int, int]] = {}
        self._heading_at = -1
        self._shifted_at: int | None = None
        self._finished = False

    def corroborate(self, shifted_at: int) -> None:
        """The entropy has risen for good, from token `shifted_at` on: odd sentences near it are no style.

        Two signs that share nothing, one read from the text and one from the distribution, fail together
        only when coherence does. Without a unit pattern the text may change its kind as it likes.
        """
        self._shifted_at = shifted_at
        known = self._shrinking.get("sentences")
        if known is not None and self._near_shift(self._symptoms[known[0]]):
            self._confirm(known[0])

    def _near_shift(self, symptom: Symptom) -> bool:
        shifted = self._shifted_at
        within = shifted is not None and abs(symptom.onset - shifted) <= TOGETHER
        return within and self._pattern is not None and symptom.end is None

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
        self._finished = True

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
            if self._pattern is not None:
                self._on_head(head, self._pattern)
        self._read_sentences(self._feed.chars, sentences)

    def _read_sentences(self, before: int, sentences: list[Span]) -> None:
        while self._sentences_read < len(sentences) and sentences[self._sentences_read].start < before:
            self._on_sentence(sentences[self._sentences_read])
            self._sentences_read += 1

    def _on_head(self, head: Span, pattern: re.Pattern[str]) -> None:
        match = pattern.search(head.text)
        if match is None or not match.groups() or not (match.group(1) or "").isdecimal():
            return
        if head.end >= self._feed.chars and match.end(1) == len(head.text):
            return  # the output was cut inside the number: "Paragraph 4" of 430
        self._heading_at = head.start
        numbering = self._numbering
        if numbering.units:
            unit = numbering.units[-1]
            shrunk = self._units.add(unit.chars, unit.first)
            if shrunk is not None:
                self._on_shrunk(shrunk)
        started = numbering.started
        slip = numbering.heading(int(match.group(1)), head.first)
        if numbering.started != started:
            self._units.reset()
        if slip is not None:
            self._on_slip(slip)
        self._settle()

    def _on_sentence(self, span: Span) -> None:
        prose = strip_heading(span.text)
        self._numbering.body(len(prose))
        heading = span.start == self._heading_at
        if heading and not _ENDED.search(prose):
            return  # a title
        # Where the text ends in mid-sentence, the length says nothing.
        if not span.closed or len(prose) < 2 or _NOT_PROSE.match(prose if heading else span.text):
            return
        shrunk = self._sentences.add(len(prose), span.first, len(self._numbering.units))
        if shrunk is not None:
            self._on_shrunk(shrunk)

    def _on_slip(self, slip: Slip) -> None:
        recent = [at for s, at in self._slips if slip.index - s.index <= WINDOW]
        summary = _WORDS[slip.kind].format(number=slip.number, before=slip.before)
        detail = {"event": slip.kind, "number": slip.number, "before": slip.before}
        at = self._report(self._begun(slip), 0.5, detail, summary)
        self._slips.append((slip, at))
        near = [a for a, unit in self._shrinking.values() if slip.index - unit <= WINDOW]
        if recent or near:
            self._confirm(*recent, *near, at)

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
            summary = (
                f"{shrunk.count} of {shrunk.of} {shrunk.what} have lost the lengths of the beginning: "
                f"median {shrunk.after:.0f} characters against {shrunk.before:.0f}"
            )
            at = self._report(shrunk.first, 0.4, detail, summary)
        self._shrinking[shrunk.what] = (at, here)
        near = [a for s, a in self._slips if here - s.index <= WINDOW]
        alone = shrunk.certain or (shrunk.what == "sentences" and self._near_shift(self._symptoms[at]))
        if self._pattern is not None and (near or alone):
            self._confirm(*near, at)

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
                    symptom, confirmed=True, score=1.0, alarm=self._feed.tokens, end=None
                )

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
