"""The detector suite: all detectors over one generation, online."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from stresstest.detectors.dating import OnsetDating
from stresstest.detectors.entry import Cadence, Detector, DetectorEntry, DetectorSpec, SuiteContext
from stresstest.detectors.registry import entries
from stresstest.detectors.text.segments import TextSegmenter
from stresstest.detectors.text.thinking import ThinkingMarker, recorded_tokens
from stresstest.detectors.verdict import Observed, conclude
from stresstest.model import GenerationVerdict, Token

_CHOSEN = ("stop", "closed")
MAX_HELD_TOKENS = 32
"""Tokens that are held back at most until a result is requested."""


class DetectorSuite:
    """All registered detectors over one generation. `update` once a token, then `finish` once.

    The verdict's onset is that of the earliest confirmed symptom. It never changes through what
    merely continues; it moves back when later text proves an earlier symptom.
    """

    def __init__(self, spec: DetectorSpec, *, thinks: bool = True) -> None:
        """thinks: reasoning is told apart from the answer, as the server or tags in the text mark it."""
        self._feed = TextSegmenter()
        self._context = SuiteContext(spec, self._feed)
        self._dating = OnsetDating(spec.language, self._feed)
        made = [(entry, *found) for entry in entries() if (found := self._form(entry, self._context))]
        self._detectors: tuple[Detector, ...] = tuple(detector for _, detector, _ in made)
        by_cadence = {cadence: [d for _, d, own in made if own is cadence] for cadence in Cadence}
        self._on_tokens = tuple(detector.update for detector in by_cadence[Cadence.TOKENS])
        self._on_text = tuple(detector.update for detector in by_cadence[Cadence.TEXT])
        self._on_spans = tuple(detector.update for detector in by_cadence[Cadence.SPANS])
        # Only these can confirm something between two spans.
        every_token = (Cadence.TOKENS, Cadence.TEXT)
        self._quick = tuple(d for entry, d, own in made if own in every_token)
        self._held: list[Token] = []
        self._thinking = ThinkingMarker()
        self._thinks = thinks
        self._spans = self._spans_looked = 0
        self._tokens = 0
        self._checked_until = 0
        self._alarm: int | None = None
        self._announced = False
        self._finished = False

    def _form(self, entry: DetectorEntry, context: SuiteContext) -> tuple[Detector, Cadence] | None:
        """The form in which a detector takes part, and when it is updated; None: not at all."""
        return entry.online(context), entry.cadence

    def update(self, token: Token) -> None:
        """Take the next output token. Reasoning is watched for loops, flooding and gibberish only, also where
        the server leaves it in the text, between `<think>` and `</think>` or the like."""
        self._tokens += 1
        self._held.append(token if self._thinks or not token.reasoning else replace(token, reasoning=False))
        if len(self._held) >= MAX_HELD_TOKENS:
            self._flush_held()

    def _flush_held(self) -> None:
        """Pass on the tokens that are held back: all of them to one detector after the other, which costs
        half as much as token by token to all detectors. Detectors that read the shared text receive them one
        by one, in step with it."""
        held, self._held = self._held, []
        if self._thinks and not self._thinking.done:
            held = self._thinking.mark(held)
        self._take(held)

    def _take(self, held: list[Token]) -> None:
        if not held:
            return
        self._dating.add(held)
        for update in self._on_tokens:
            for token in held:
                update(token)
        feed, context, on_text = self._feed, self._context, self._on_text
        sentences, heads = feed.sentences, feed.line_heads
        for token in held:
            feed.update(token)
            for update in on_text:
                update(token)
            spans = len(sentences) + len(heads)
            if spans != self._spans:
                self._spans = spans
                for update in self._on_spans:
                    update(token)
            if context.rise is not None and not self._announced:
                self._announced = True
                for corroborate in context.on_rise:
                    corroborate(context.rise)

    @property
    def alarm(self) -> int | None:
        """The token at which a degeneration became certain, or None. Never changes once set."""
        if self._alarm is None and self._checked_until != self._tokens:
            self._checked_until = self._tokens
            self._flush_held()
            for detector in self._quick:
                if detector.symptoms():
                    self._check_detector(detector)
            if self._spans != self._spans_looked or self._finished:
                self._spans_looked = self._spans
                for detector in self._detectors:
                    self._check_detector(detector)
        return self._alarm

    def _check_detector(self, detector: Detector) -> None:
        for symptom in detector.symptoms():
            if symptom.confirmed and (self._alarm is None or symptom.alarm < self._alarm):
                self._alarm = symptom.alarm

    def finish(self, finish_reason: str | None) -> GenerationVerdict:
        """The output has ended ("stop", "length", None when lost or unknown). Later calls only return the
        verdict again."""
        if not self._finished:
            self._finished = True
            self._checked_until = -1
            self._flush_held()
            self._take(self._thinking.release())
            self._feed.close()
            for detector in self._detectors:
                detector.finish(finish_reason)
        return self.verdict()

    def verdict(self) -> GenerationVerdict:
        """What is known so far; after `finish`, of the whole output."""
        self._flush_held()
        return conclude(
            [symptom for detector in self._detectors for symptom in detector.symptoms()],
            Observed(
                tokens=self._tokens,
                open_from=tuple(detector.open_from for detector in self._detectors),
                numbered=self._context.spec.counts_units,
                units=self._context.units(),
                headings=self._context.headings(),
                sentence_from=self._sentence_from,
                sense_lost=self._dating.sense_lost,
                unit_head=self._context.unit_head,
                reasoning=self._thinking.end,
            ),
        )

    def _sentence_from(self, position: int) -> int:
        """First token of the first sentence that begins at `position` or later."""
        sentences = self._feed.sentences
        at = bisect_left(sentences, position, key=lambda span: span.first)
        return sentences[at].first if at < len(sentences) else self._tokens


def detect_tokens(
    tokens: Sequence[Token], spec: DetectorSpec, finish_reason: str | None = None
) -> GenerationVerdict:
    """The suite's verdict over a stored generation; the same as online, with `detect_answerless`."""
    suite = DetectorSuite(spec)
    for token in tokens:
        suite.update(token)
    return detect_answerless(tokens, suite.finish(finish_reason), spec, finish_reason)


def detect_answerless(
    tokens: Sequence[Token], verdict: GenerationVerdict, spec: DetectorSpec, finish_reason: str | None
) -> GenerationVerdict:
    """The verdict over a generation that has ended by itself with nothing but reasoning: it is judged as the
    answer that it is in the place of (a parser may have taken it for reasoning). verdict: the suite's,
    which stands for any other generation."""
    if not verdict.reasoning or any(token.text.strip() for token in tokens[verdict.reasoning :]):
        return verdict
    verdict = replace(verdict, reasoning=verdict.tokens)
    if verdict.degenerate or finish_reason not in _CHOSEN:
        return verdict
    suite = DetectorSuite(spec, thinks=False)
    for token in tokens:
        suite.update(token)
    return replace(suite.finish(finish_reason), reasoning=verdict.reasoning)


def detect_text(text: str, spec: DetectorSpec, finish_reason: str | None = None) -> GenerationVerdict:
    """The suite's verdict over plain text. Positions count the tokens of `text_tokens`."""
    return detect_tokens(recorded_tokens(text), spec, finish_reason)
