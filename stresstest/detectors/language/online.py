"""Language drift: the answer continues in another language than the one requested.

Sentences are stripped of what may be foreign (`text/prose.py`), cut where they are long, joined to passages
where they are short, and judged one by one (`identification/foreign.py`). Titles and names, terms, labels
(`terms`), parallel texts (`bilingual`) and sentences of the prompt are no evidence. `drift` turns the foreign
passages into symptoms.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import replace

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.gibberish.second_reading import is_spelled_like
from stresstest.detectors.identification.foreign import detect_foreign_text, prefilter_language
from stresstest.detectors.identification.votes import screening_identifier
from stresstest.detectors.language.bilingual import LOOKBACK_SENTENCES, alternating_lines, is_bilingual
from stresstest.detectors.language.drift import DriftTracker, ForeignPassage
from stresstest.detectors.language.elements import ElementTracker
from stresstest.detectors.language.mixture import MixedPassages
from stresstest.detectors.language.tables import TableColumns
from stresstest.detectors.language.terms import are_labels, is_uninformative
from stresstest.detectors.languages.catalog import normalize_language
from stresstest.detectors.languages.function_words import (
    covered_languages,
    extract_words,
    quick_language_check,
)
from stresstest.detectors.text.code_lines import (
    begins_a_document,
    is_mostly_code,
    opens_a_page,
    without_tags,
)
from stresstest.detectors.text.prose import ProseFilter
from stresstest.detectors.text.scripts import (
    count_letters,
    in_script,
    is_all_latin,
    is_latin,
    is_mostly_latin,
    own_letters,
    weighted_length,
)
from stresstest.detectors.text.segments import LONG_SENTENCE, TextSegmenter, TextSpan, split_span
from stresstest.model import Symptom, Token

QUICK_CHECK_CHARS = 200
"""Characters of a sentence that the quick check reads."""
MIN_PASSAGE_CHARS = 60
"""Characters needed to judge a language; shorter sentences are joined with their neighbours."""
SENTENCE, SENTENCE_WORDS = 30, 5
"""A single sentence of at least this length in characters and words is judged without its neighbours."""
MAX_PASSAGE_CHARS = 2 * LONG_SENTENCE
"""A longer sentence is a text without full stops."""
CODE_LINES = 12
"""Lines up to a passage that tell whether it is code."""
EXERCISE_PASSAGES = 8
"""Passages in a row that an exercise with lettered items explains, or a quotation in an element of XML:
contracts letter their points, too."""
MIN_TAIL_CHARS = 30
"""At the end of an answer, less than this is not judged."""
MAX_READ_AGAIN = 100_000
"""Characters of an answer that are read a second time when it ends: all at once, so that whoever judges many
answers waits for it. What language an answer is in shows long before."""

_DATA = ('"', '{"', '["', "[{")
_ASKS = re.compile(r"[?？]|__|\.\.\.|…")
"""A question, or a gap to fill in."""
_OPTION = re.compile(r"\W*[a-zA-Z][.)]\s")
_LEVELS = tuple(re.compile(level) for level in (r"[IVX]+\.\s", r"[A-Z]\.\s", r"\d+\.\s", r"[-*•]\s"))
_ITEM = re.compile(r"\s*(?:[-*+•–·]|\(?\d{1,3}[.):]|[a-zA-Z][.)])\s")


class LanguageDetector:
    """Online detector of `language_drift`; silent when the expected language is unknown."""

    def __init__(self, spec: DetectorSpec, feed: TextSegmenter) -> None:
        self._feed = feed
        self._wanted = normalize_language(spec.language) if spec.language else None
        self._prompt = _normalize_for_match(spec.requests)
        self._named = spec.named
        self._prose = ProseFilter(xml=True)
        self._tables = TableColumns(self._wanted) if self._wanted is not None else None
        self._drift = DriftTracker(self._wanted, feed, self._alternating_lines)
        # Who writes in another script, or quotes it, may get answers with sentences of both.
        mixes = self._wanted is not None and is_latin(self._wanted) and is_all_latin(spec.requests)
        self._mixed = MixedPassages(self._wanted or "") if mixes else None
        self._has_quick_check = self._wanted in covered_languages() and is_latin(self._wanted)
        self._read = 0
        self._at = 0
        self._parts: list[str] = []
        self._held: list[TextSpan] = []
        self._chars = 0
        self._items = 0
        self._options = 0
        self._block: int | None = 0
        self._title: tuple[int, str | None] | None = None
        self._outline = False
        self._in_page = False
        self._elements = ElementTracker()
        self._element: str | None = None
        self._held_element: str | None = None
        self._excused = 0
        self._fenced: set[int] = set()
        self._finished = False

    @property
    def open_from(self) -> int | None:
        """First token of a foreign passage that is not settled, else of the text not yet judged."""
        if self._wanted is None or self._finished:
            return None
        if (warned := self._drift.warning_start) is not None:
            return warned
        if self._title is not None:
            return self._title[0]
        return self._held[0].first if self._held else self._feed.pending_token

    def update(self, token: Token) -> None:
        del token
        self._read_to(len(self._feed.sentences))

    def _read_to(self, end: int) -> None:
        """Read the sentences before this one that are not read yet."""
        if self._read < end and self._wanted is not None:
            sentences = self._feed.sentences
            while self._read < end:
                self._process_sentence(sentences[self._read], self._wanted)
                self._read += 1

    def finish(self, finish_reason: str | None) -> None:
        """Judge what is left, including an unfinished last sentence if the model chose to end."""
        if self._wanted is None or self._finished:
            return
        self._feed.close()
        self.update(Token(""))
        # A short tail can only continue a drift, or be the whole answer, unless its letters are others.
        if self._chars >= MIN_TAIL_CHARS and (
            self._drift.native_run == 0 or not in_script("".join(self._parts), self._wanted)
        ):
            self._check_passage(self._wanted)
        if not self._drift.has_evidence:
            self._check_whole_answer(self._wanted)
        self._at = len(self._feed.sentences) - 1
        self._drift.finish(self._at)
        if finish_reason is not None and finish_reason not in ("length", "abort", "error"):
            self._held = []
            self._finished = True

    def symptoms(self) -> list[Symptom]:
        return list(self._drift.symptoms)

    def _process_sentence(self, sentence: TextSpan, wanted: str) -> None:
        text = sentence.text
        self._in_page = self._in_page or opens_a_page(text)
        in_xml = self._in_xml or begins_a_document(text)
        if in_xml:
            self._elements.read(text)
        self._element = self._elements.element if in_xml else None
        long = self._has_quick_check and not self._held and MIN_PASSAGE_CHARS <= len(text) <= LONG_SENTENCE
        passes = long and is_mostly_latin(text) and self._prose.is_all_prose(text, sentence.line)
        if passes and quick_language_check(text[:QUICK_CHECK_CHARS], wanted):
            self._at = self._read
            self._held_element = self._element
            if self._mixed is not None:
                self._mixed.end()
            self._on_native(len(text), sure=True)
            return
        said = self._prose(text, sentence.line)
        if self._prose.in_code:
            self._fenced.add(sentence.line)
        if self._tables is not None and not self._prose.in_code:
            cells = self._tables(text, sentence.line)
            said = said if cells is None else cells
        for span, prose in split_span(sentence, said, self._feed):
            self._process_piece(span, _collapse_whitespace(prose), wanted)

    def _process_piece(self, span: TextSpan, prose: str, wanted: str) -> None:
        lettered = count_letters(prose)
        if lettered * 2 < len(prose) or not lettered:
            if not self._held:
                return
            prose = ""
        held = "".join(self._parts)
        if held and prose and in_script(held, wanted) != in_script(prose, wanted):
            if self._chars >= SENTENCE:
                self._check_passage(wanted)
            elif weighted_length(prose) >= SENTENCE:
                self._clear_held()  # a heading or a greeting would pass for half of what follows
        if prose:
            self._parts.append(prose)
        if not self._held:
            self._held_element = self._element
        self._held.append(span)
        self._at = self._read
        self._chars += weighted_length(prose)
        item = _ITEM.match(span.text) is not None
        self._items += item
        self._options += _OPTION.match(span.text) is not None
        alone = not item and self._chars >= SENTENCE and prose.count(" ") >= SENTENCE_WORDS - 1
        if self._chars >= MIN_PASSAGE_CHARS or alone:
            self._check_passage(wanted)

    def _check_whole_answer(self, wanted: str) -> None:
        """Judge an answer without any evidence so far: one that is a single quotation by its content, and one
        without a letter of the requested script in any case. Read are its first `MAX_READ_AGAIN`
        characters, to the end of a sentence."""
        filtered = ProseFilter(quotations=False)
        end = bisect_left(self._feed.sentences, MAX_READ_AGAIN, key=lambda span: span.start)
        sentences = self._feed.sentences[:end]
        parts = [_collapse_whitespace(filtered(span.text, span.line)) for span in sentences]
        text = " ".join(filter(None, parts))
        if weighted_length(text) < MIN_TAIL_CHARS or are_labels(list(filter(None, parts))):
            return
        written = self._feed.text_between(0, MAX_READ_AGAIN)
        lines = self._said(written.split("\n"))
        if not written.lstrip().startswith(("{", "[", "`")) and is_mostly_code(lines):
            return
        own, _ = own_letters(text, wanted)
        if (
            not (own or self._is_data)
            and sum(word.islower() for word in extract_words(text)) >= SENTENCE_WORDS
        ):
            first, last = sentences[0].first, sentences[-1].last
            language, score = screening_identifier("en").classify(text)
            if self._named.welcomes(language):
                return
            self._drift.add_foreign(
                ForeignPassage(first, last, 0, False, language, score, weighted_length(text), text[:80]),
                whole=True,
            )
            return
        # The headings of an outline are its own words, and no titles of works.
        levels = {level for span in sentences for level in _LEVELS if level.match(span.text)}
        self._outline = len(levels) >= 2
        self._prose, self._block = ProseFilter(quotations=False), None
        self._clear_held()
        self._elements.restart()
        self._read = 0
        self._read_to(end)
        if self._chars >= MIN_TAIL_CHARS:
            self._check_passage(wanted)
        self._read = len(self._feed.sentences)

    def _clear_held(self) -> None:
        self._parts, self._held, self._chars, self._items, self._options = [], [], 0, 0, 0

    def _check_passage(self, wanted: str) -> None:
        parts = self._parts
        text = " ".join(parts)
        first, last, chars = self._held[0].first, self._held[-1].last, self._chars
        begun = self._held[0].line
        items, options = self._items, self._options
        self._clear_held()
        drift = self._drift
        mixed = None if self._mixed is None else self._mixed.add(text, first, last, self._at)
        if prefilter_language(text, wanted):
            if mixed is None or not self._takes_mixture(mixed, begun, wanted):
                self._on_native(chars, sure=True)
            return
        opinion = detect_foreign_text(text, wanted, sure=not drift.is_drifting)
        if not opinion.foreign or self._named.welcomes(opinion.language):
            if mixed is None or not self._takes_mixture(mixed, begun, wanted):
                self._on_native(chars)
            return
        if not opinion.script and not is_spelled_like(text, opinion.language):
            return  # letters that make no words are gibberish, not another language
        if not drift.is_drifting:
            # The answers of a language exercise are in that language, and so is an example of data.
            exercise = options > 0 and drift.native_chars > 0 and self._excused < EXERCISE_PASSAGES
            example = self._prose.block not in (0, self._block) and self._block is not None
            nothing = not self._outline and is_uninformative(parts, opinion.language, items=items)
            if (
                exercise
                or example
                or nothing
                or self._is_data
                or self._is_code(begun)
                or self._is_quoted_from_prompt(parts, wanted)
            ):
                self._title = self._title or (first, opinion.language)
                if exercise or self._is_data:
                    self._excused = 0 if exercise and _ASKS.search(text) else self._excused + 1
                return
            # An answer may open with its first pair: one is then enough.
            if is_bilingual(self._parallel(self._at), wanted, pairs=2 if drift.has_evidence else 1):
                self._title = self._title or (first, opinion.language)
                drift.clear_as_translation()
                return
        foreign = round(chars * opinion.share)
        title, self._title = self._title, None
        onset = title[0] if title is not None and title[1] == opinion.language else first
        if self._mixed is not None and self._mixed.first is not None:
            onset = min(onset, self._mixed.first)
        language, score = opinion.language, opinion.score
        endless = len(self._feed.sentences[self._at].text) > MAX_PASSAGE_CHARS
        passage = ForeignPassage(onset, last, self._at, endless, language, score, foreign, text[:80])
        drift.add_foreign(passage, whole=opinion.share == 1.0)
        drift.native_chars += chars - foreign

    def _takes_mixture(self, mixed: ForeignPassage, begun: int, wanted: str) -> bool:
        """Whether a passage that seems to be in the language goes on in a row of mixed ones, as a drift."""
        if self._named.welcomes(mixed.language) or self._is_data or self._is_code(begun):
            return False
        if not self._drift.is_drifting and is_bilingual(self._parallel(self._at), wanted, pairs=1):
            return False
        self._drift.add_foreign(mixed, whole=False)
        return True

    def _on_native(self, chars: int, *, sure: bool = False) -> None:
        """sure: by its function words or its script, and not because it is surely in no other language."""
        self._title = None
        self._excused = 0
        if sure and self._held_element is not None:
            self._elements.add_own(self._prose.block, self._held_element)
        if sure or not self._prose.in_xml:
            self._block = self._prose.block
        self._drift.add_native(chars, self._at)

    def _is_quoted_from_prompt(self, parts: list[str], wanted: str) -> bool:
        """Whether the foreign sentences are the prompt's: a text to translate, a repeated instruction."""
        if not self._prompt:
            return False
        own = [part for part in parts if _normalize_for_match(part) not in self._prompt]
        text = " ".join(own)
        return len(own) < len(parts) and (
            len(text) < MIN_TAIL_CHARS or not detect_foreign_text(text, wanted).foreign
        )

    def _is_code(self, begun: int) -> bool:
        """Whether the passage from this line on is code outside fences, alone or with the lines before it."""
        lines: dict[int, str] = {}
        for span in self._sentences_to(self._at):
            if span.line in self._fenced:
                continue  # what an explanation stands between
            lines[span.line] = f"{lines.get(span.line, '')} {span.text}".lstrip()
        own = [text for line, text in lines.items() if line >= begun]
        if any(text.startswith(_DATA) for text in own):
            return False  # what the strings of a record say is judged
        said = self._said
        return is_mostly_code(said(own)) or is_mostly_code(said(list(lines.values()))[-CODE_LINES:])

    def _said(self, lines: list[str]) -> list[str]:
        """Lines of an answer that is marked up as what they say. A page is code, and so is an example."""
        bare = [line.lstrip("> ") for line in lines]
        first = self._feed.sentences[0].text
        marked_up = first.startswith("<") or "<br" in first or self._prose.in_xml
        return without_tags(bare) if marked_up and not self._in_page else list(filter(None, bare))

    @property
    def _in_xml(self) -> bool:
        return self._prose.in_xml or self._elements.inside

    @property
    def _is_data(self) -> bool:
        """Whether the passage is in XML without text in the requested language so far, or at the beginning of
        an element of a kind that had none: its words may be data, or foreign on purpose."""
        element, block = self._held_element, self._prose.block
        if element is None:
            return False
        if not self._elements.holds_own(block):
            return True
        return not self._elements.holds_own(block, element) and self._excused < EXERCISE_PASSAGES

    def _alternating_lines(self, sentence: int) -> int:
        return alternating_lines(self._parallel(sentence), self._wanted) if self._wanted else 0

    def _parallel(self, sentence: int) -> list[TextSpan]:
        """The last sentences, without the tags of XML, which may hold a text beside its translation."""
        spans = self._sentences_to(sentence)
        if self._held_element is None:
            return spans
        said = ((span, without_tags([span.text])) for span in spans)
        return [replace(span, text=bare[0]) for span, bare in said if bare]

    def _sentences_to(self, sentence: int) -> list[TextSpan]:
        return self._feed.sentences[max(sentence + 1 - LOOKBACK_SENTENCES, 0) : sentence + 1]


def _collapse_whitespace(text: str) -> str:
    return " ".join(text.split()) if "  " in text else text.strip()


def _normalize_for_match(text: str) -> str:
    return " ".join(text.casefold().split())
