"""Structure breaks: the numbering of units fails, or sentences and units lose their lengths.

Headings and numbering slips come from `numbering`, odd lengths and endless paragraphs from `compression`.
Each alone is a warning; two slips close together, a slip or an endless paragraph beside a run of odd
sentences, or a long deep collapse is a break, and so is any of them beside a lasting rise of entropy.
Headings one after the other with nothing under them, labels with nothing after them, and a passage of figures
without a word are breaks alone. A symptom keeps its first onset (the unit's heading, the first odd sentence
or unit of the run), unless a rise of entropy dates it back.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import replace

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.structure.compression import (
    SENTENCE_END,
    LengthAnomaly,
    ParagraphLengthMonitor,
    SentenceLengthMonitor,
    UnitLengthMonitor,
)
from stresstest.detectors.structure.numbering import (
    SLIP_WINDOW,
    HeadingReader,
    LabelTracker,
    NumberingSlip,
    NumberingTracker,
)
from stresstest.detectors.structure.records import Repetition, UnitComparison, unit_reader
from stresstest.detectors.text.prose import strip_heading
from stresstest.detectors.text.segments import TextSegmenter, TextSpan
from stresstest.model import Symptom, SymptomKind, Token
from stresstest.unit_pattern import UnitPattern

_NOT_PROSE = re.compile(r"[-*•+|>`~#<{}\[\]$\\«“\"'„—–_=]|\d+[.)]|[^\W\d]+:")
"""List items, code, tables and lines of dialogue have lengths of their own."""

EVENT_WINDOW_TOKENS = 160
"""Tokens within which a rise of entropy and a warning from the text are one event."""

MIN_DISTINCT_SENTENCES = 4
"""Distinct sentences beyond the usual length that rule out a loop as the paragraph's content."""

_SLIP_TEMPLATES = {
    "stick": "unit number {number} comes twice in a row",
    "back": "unit number {number} follows {before}",
    "repeat": "unit number {number} comes again",
    "skip": "unit number {number} follows {before}",
    "empty": "unit {number} is a heading without a body",
    "empties": "headings without a body follow each other from unit {number} on",
    "unanswered": "units up to number {number} end with a label that nothing follows",
    "counting": "a passage of figures without a word",
    "renamed": "unit number {number} has another word in front of it than the units before",
}


MIN_COUNTED_FIGURES = 100
"""Digits of a passage without words that count on and say nothing: more than a date, a sum, a short table."""
_CERTAIN_SLIPS = frozenset({"empties", "unanswered", "counting"})
"""They prove a break alone: nobody who writes prose in units makes one by mistake."""


HEAD_TOKENS = 24
"""Of a record, row or function, in which its own name and number stand: a copy differs there."""


def _slip_reach(what: str) -> int:
    """Units within which a slip belongs to odd lengths: for an endless paragraph only its own or the next."""
    return 1 if what == "paragraph" else SLIP_WINDOW


def _is_lasting(symptom: Symptom) -> bool:
    """Whether a rise of entropy proves it: short units may be a list, an endless paragraph a loop."""
    detail = symptom.detail
    varied = detail.get("event") != "paragraph" or detail["different"] >= MIN_DISTINCT_SENTENCES
    return varied and detail.get("event") != "units"


class StructureDetector:
    """Online detector of `structure_break`; without a unit pattern it only warns of shrinking sentences."""

    def __init__(self, spec: DetectorSpec, feed: TextSegmenter) -> None:
        self._feed = feed
        self._pattern = UnitPattern(spec.unit_pattern) if spec.unit_pattern else None
        self._headings = HeadingReader(self._pattern) if self._pattern is not None else None
        self._numbering = NumberingTracker(wanted=spec.units)
        self._labels = LabelTracker()
        self._reader = unit_reader(spec.unit)
        self._compared = UnitComparison()
        self._read_to = 0
        self._endless_from = -1
        self._sentences = SentenceLengthMonitor()
        self._units = UnitLengthMonitor()
        self._paragraphs = ParagraphLengthMonitor()
        self._heads_read = 0
        self._sentences_read = 0
        self._symptoms: list[Symptom] = []
        self._slips: list[tuple[NumberingSlip, int]] = []
        self._shrinking: dict[str, tuple[int, int]] = {}
        self._heading_at = -1
        self._counted: tuple[int, int] = (0, 0)
        self._shifted_at: int | None = None
        self._dated_by_heading = False
        self._finished = False

    def confirm_with_entropy_shift(self, shifted_at: int) -> None:
        """Confirm warnings near a lasting rise of entropy that began at token `shifted_at`.

        Two independent signs, one from the text and one from the distribution, fail together only when
        coherence does. Without a unit pattern the text may change its kind at will.
        """
        self._shifted_at = shifted_at
        self._dated_by_heading = self._feed.tokens - shifted_at <= EVENT_WINDOW_TOKENS
        self._confirm(*(at for at, symptom in enumerate(self._symptoms) if self._near_entropy_shift(symptom)))
        for at, symptom in enumerate(self._symptoms):
            if symptom.confirmed:
                self._symptoms[at] = replace(symptom, onset=self._date_onset(symptom))

    def _near_entropy_shift(self, symptom: Symptom) -> bool:
        shifted = self._shifted_at
        within = shifted is not None and abs(symptom.onset - shifted) <= EVENT_WINDOW_TOKENS
        return within and self._pattern is not None and symptom.end is None and _is_lasting(symptom)

    @property
    def units(self) -> int | None:
        """Complete units, each number once; None without a pattern. The last one is complete at the end."""
        if self._reader is not None:
            return self._reader.begun if self._finished else self._compared.complete
        if self._pattern is None:
            return None
        return max(len(self._numbering.seen) - (0 if self._finished else 1), 0)

    @property
    def headings(self) -> int | None:
        """Numbers of units so far, each once, the last one's included; None without a pattern."""
        if self._reader is not None:
            return self._reader.begun
        return None if self._pattern is None else len(self._numbering.seen)

    def unit_head(self, position: int) -> int:
        """The first token of the record, row or function at whose head a token stands, or of the first that
        only repeats if all do from there on; else that token."""
        if self._compared.run is not None:
            repeated = self._feed.token_at(self._compared.run.start)
            if repeated <= position:
                return repeated
        starts = self._compared.starts
        at = bisect_right(starts, position, key=self._feed.token_at)
        head = self._feed.token_at(starts[at - 1]) if at else position
        return head if position - head <= HEAD_TOKENS else position

    @property
    def open_from(self) -> int | None:
        """Start of a slip or of a short run that might yet become a break, else the unfinished sentence."""
        if self._finished:
            return None
        candidates = [self._sentences.open_from, self._feed.pending_token]
        if self._compared.open is not None:
            candidates.append(self._feed.token_at(self._compared.open.start))
        if self._pattern is not None:
            candidates.append(self._units.open_from)
            here = len(self._numbering.units) - 1
            candidates += [s.first for s, _ in self._slips if here - s.index < SLIP_WINDOW]
        return min((c for c in candidates if c is not None), default=None)

    def update(self, token: Token) -> None:
        del token
        feed = self._feed
        if self._heads_read < len(feed.line_heads) or self._sentences_read < len(feed.sentences):
            self._process_spans()

    def finish(self, finish_reason: str | None) -> None:
        """Judge the last unit when the model ended by itself; a text that was cut off is left open."""
        self._feed.close()
        self._process_spans()
        if finish_reason is None or finish_reason in ("length", "abort", "error"):
            return
        if not self._finished:
            self._check_end()
        self._finished = True

    def _check_end(self) -> None:
        """The model chose to end. In good order, warnings of lengths that would need a second sign are over;
        after a heading whose unit was never written, where units have bodies, it ended in the middle of the
        structure."""
        sentences = self._feed.sentences
        if not sentences or sentences[-1].closed:
            for at, symptom in enumerate(self._symptoms):
                if symptom.end is None and not symptom.confirmed and not self._proves_alone(symptom):
                    self._symptoms[at] = replace(symptom, end=self._feed.tokens)
        units = self._numbering.units
        if units:
            self._end_unit()
        if not units or units[-1].chars > 2 or (len(units) > 1 and units[-2].chars <= 2):
            return
        words = f"the model stopped at the heading of unit {units[-1].number}"
        at = self._report(units[-1].first, 1.0, {"where": "unit"}, words)
        self._symptoms[at] = replace(self._symptoms[at], kind=SymptomKind.TRUNCATION, confirmed=True)

    def _proves_alone(self, warning: Symptom) -> bool:
        """Whether more of the same could have proven it: a run of odd lengths that still goes on, where
        lengths are regular. A slip in the numbering is no good order, and stays open."""
        event = warning.detail.get("event")
        if event == "sentences":
            return self._sentences.regular and self._sentences.open_from is not None
        if event == "units":
            return self._units.open_from is not None
        return event != "paragraph"

    def symptoms(self) -> list[Symptom]:
        return sorted(self._symptoms, key=lambda s: s.onset) if self._symptoms else []

    def _process_spans(self) -> None:
        """Process headings and sentences in text order, however they were split into tokens."""
        self._read_units()
        heads, sentences = self._feed.line_heads, self._feed.sentences
        while self._heads_read < len(heads):
            head = heads[self._heads_read]
            self._read_sentences(head.start, sentences)
            self._heads_read += 1
            if self._headings is not None:
                self._on_head(head, self._headings)
        self._read_sentences(self._feed.chars, sentences)

    def _read_units(self) -> None:
        """Process records, rows or functions that have closed."""
        if self._reader is None:
            return
        text, at = self._feed.text_from(self._read_to), self._read_to
        self._read_to = self._feed.chars
        for unit in self._reader.feed(text, at):
            repeated = self._compared.add(unit)
            if repeated is not None:
                self._on_repetition(repeated)
        start = self._reader.open_from
        if (
            start is None
            or start == self._endless_from
            or not self._compared.is_endless(self._read_to - start)
        ):
            return
        self._endless_from = start
        words = f"a record goes on to {self._read_to - start:,} characters and does not close"
        self._confirm(self._report(self._feed.token_at(start), 1.0, {"event": "endless record"}, words))

    def _on_repetition(self, found: Repetition) -> None:
        turn = f", {found.period} in turn" if found.period > 1 else ""
        words = f"{found.count} units in a row say what those before them said{turn}"
        at = self._report(self._feed.token_at(found.first.start), 1.0, {"event": "units repeat"}, words)
        kind = SymptomKind.LOOP if found.exact else SymptomKind.NEAR_LOOP
        self._symptoms[at] = replace(self._symptoms[at], kind=kind, confirmed=True)

    def _read_sentences(self, before: int, sentences: list[TextSpan]) -> None:
        while self._sentences_read < len(sentences) and sentences[self._sentences_read].start < before:
            self._on_sentence(sentences[self._sentences_read])
            self._sentences_read += 1

    def _on_head(self, head: TextSpan, headings: HeadingReader) -> None:
        numbering = self._numbering
        found = headings.parse_line(head.text, numbering.units[-1].number if numbering.units else None)
        if found is None:
            return
        if head.end >= self._feed.chars and found.end == len(head.text):
            return  # the output was cut inside the number: "Paragraph 4" of 430
        self._heading_at = head.start
        if numbering.units:
            unit = numbering.units[-1]
            shrunk = self._units.add(unit.chars, unit.first)
            if shrunk is not None:
                self._on_length_anomaly(shrunk)
            self._end_unit()
        started = numbering.numbering_start
        slip = numbering.add_heading(found.number, head.first)
        if numbering.numbering_start != started:
            self._units.reset()
        if slip is None and found.renamed:
            slip = NumberingSlip("renamed", len(numbering.units) - 1, found.number, None, head.first)
        if slip is not None:
            self._on_slip(slip)
        self._close_outlived_warnings()

    def _end_unit(self) -> None:
        units = self._numbering.units
        slip = self._labels.end_unit(len(units) - 1, units[-1].number)
        if slip is not None:
            self._on_slip(slip)

    def _count_figures(self, span: TextSpan) -> None:
        """Add up the digits since the last letter."""
        text = span.text
        worded = next((n for n in range(len(text), 0, -1) if text[n - 1].isalpha()), 0)
        first, before = self._counted
        if worded or not before:
            digit = next((n for n in range(worded, len(text)) if text[n].isdigit()), 0)
            first, before = self._feed.token_at(span.start + digit), 0
        digits = sum(map(str.isdigit, text[worded:]))
        self._counted = first, before + digits
        if before < MIN_COUNTED_FIGURES <= before + digits:
            self._on_slip(NumberingSlip("counting", len(self._numbering.units), 0, None, first))

    def _on_sentence(self, span: TextSpan) -> None:
        if self._pattern is not None:
            self._count_figures(span)
        prose = strip_heading(span.text)
        self._numbering.add_body(len(prose))
        if self._numbering.units:
            unit = len(self._numbering.units)
            overrun = self._paragraphs.add(prose, span.first, span.line, unit)
            if overrun is not None:
                self._on_length_anomaly(overrun)
        heading = span.start == self._heading_at
        if self._numbering.units and not heading and prose.strip():
            self._labels.add_line(prose, span.first)
        if heading and not SENTENCE_END.search(prose):
            return  # a title
        # Where the text ends in mid-sentence, the length says nothing.
        if not span.closed or len(prose) < 2 or _NOT_PROSE.match(prose if heading else span.text):
            return
        shrunk = self._sentences.add(len(prose), span.first, len(self._numbering.units))
        if shrunk is not None:
            self._on_length_anomaly(shrunk)

    def _on_slip(self, slip: NumberingSlip) -> None:
        recent = self._slips_near(slip.index, SLIP_WINDOW)
        detail = {"event": slip.kind, "number": slip.number, "before": slip.before}
        start = slip.first if slip.kind in _CERTAIN_SLIPS else self._failure_start(slip)
        at = self._report(start, 0.5, detail, describe_slip(slip))
        self._slips.append((slip, at))
        near = [a for what, (a, unit) in self._shrinking.items() if slip.index - unit <= _slip_reach(what)]
        if slip.kind in _CERTAIN_SLIPS:
            self._confirm(at)
        elif recent or near or self._near_entropy_shift(self._symptoms[at]):
            self._confirm(*recent, *near, at)

    def _slips_near(self, unit: int, reach: int) -> list[int]:
        return [at for slip, at in self._slips if unit - slip.index <= reach]

    def _failure_start(self, slip: NumberingSlip) -> int:
        """Where the failure that a slip shows began: at its heading, once odd sentences are detected by
        themselves; before there are lengths to compare with, conservatively at the sentence before it."""
        read = self._sentences_read
        if self._sentences.ready or not read:
            return slip.first
        return min(slip.first, self._feed.sentences[read - 1].first)

    def _on_length_anomaly(self, shrunk: LengthAnomaly) -> None:
        here = len(self._numbering.units)
        known = self._shrinking.get(shrunk.what)
        if known is not None and here - known[1] <= SLIP_WINDOW and self._symptoms[known[0]].end is None:
            at = known[0]
        else:
            detail = {"event": shrunk.what, "early": shrunk.before, "now": shrunk.after}
            if shrunk.what == "paragraph":
                detail["different"] = shrunk.count
            at = self._report(shrunk.first, 0.4, detail, describe_length_anomaly(shrunk))
        self._shrinking[shrunk.what] = (at, here)
        if self._pattern is None:
            return
        near = self._slips_near(here, _slip_reach(shrunk.what)) + self._is_endless_paragraph(at)
        if near or shrunk.certain or self._near_entropy_shift(self._symptoms[at]):
            self._confirm(*near, at)

    def _is_endless_paragraph(self, at: int) -> list[int]:
        """The odd sentences of an endless paragraph, or the paragraph of odd sentences, beside `at`."""
        both = [self._shrinking[what] for what in ("sentences", "paragraph") if what in self._shrinking]
        if len(both) < 2 or at not in (a for a, _ in both) or abs(both[0][1] - both[1][1]) > 1:
            return []
        if not self._sentences.regular:
            return []
        onsets = [self._symptoms[a].onset for a, _ in both]
        if max(onsets) - min(onsets) > EVENT_WINDOW_TOKENS:
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
                    onset=self._date_onset(symptom),
                    confirmed=True,
                    score=1.0,
                    alarm=self._feed.tokens,
                    end=None,
                )

    def _date_onset(self, symptom: Symptom) -> int:
        """The onset. That of odd sentences is dated back to the first sentence after a rise of entropy
        shortly before: certainty is lost first, and lengths show it sentences later. A rise that took long to
        be detected is small, and its date is rough."""
        shifted, onset = self._shifted_at, symptom.onset
        if shifted is None or not self._dated_by_heading or symptom.detail.get("event") != "sentences":
            return onset
        if not 0 < onset - shifted <= EVENT_WINDOW_TOKENS:
            return onset
        sentences = self._feed.sentences
        at = bisect_left(sentences, shifted, key=lambda span: span.first)
        return min(onset, sentences[at].first) if at < len(sentences) else onset

    def _close_outlived_warnings(self) -> None:
        """Close warnings followed by three units in good order."""
        here = len(self._numbering.units) - 1
        last = [s.index for s, _ in self._slips[-1:]] + [unit for _, unit in self._shrinking.values()]
        if not last or here - max(last) <= SLIP_WINDOW or self._labels.unanswered:
            return
        end = self._numbering.units[-1].first - 1
        for i, symptom in enumerate(self._symptoms):
            if symptom.end is None:
                self._symptoms[i] = replace(symptom, end=end)
        self._slips.clear()
        self._shrinking.clear()


def describe_slip(slip: NumberingSlip) -> str:
    return _SLIP_TEMPLATES[slip.kind].format(number=slip.number, before=slip.before)


def describe_length_anomaly(shrunk: LengthAnomaly) -> str:
    if shrunk.what == "paragraph":
        return (
            f"a paragraph goes on to {shrunk.after:.0f} characters, in {shrunk.of} sentences, and does "
            f"not end; the median before it is {shrunk.before:.0f}"
        )
    return (
        f"{shrunk.count} of {shrunk.of} {shrunk.what} have lost the lengths of the beginning: "
        f"median {shrunk.after:.0f} characters against {shrunk.before:.0f}"
    )
