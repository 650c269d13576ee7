"""Gibberish: the letters no longer make words, or the words no longer sentences, of any language.

Six sums run over the words (Page's CUSUM: evidence adds up, never falls below zero, and an alarm is
raised at a bound; the onset is the word at which the sum last left zero):
- letters: trigrams that no word of the language has (letter salad, shuffled letters, cut codes);
- grammar: word after word without one of the function words that prose is made of (word fragments,
  invented words, words of many languages);
- forms: words that the language does not have, though they are spelled like its own, among its function words
  (invented and fused words; where its word forms are known);
- scripts: words that jump between writing systems, or mix them inside (tokens drawn at random);
- broken characters: U+FFFD and the marks of a wrong decoding;
- novelty: words that were not there before, one after the other (tokens drawn at random; see `NoveltySum`).
A sum that reaches its bound is a suspicion: the stretch is then read again as each language that it
might be in, and only what is in none is gibberish. Code, URLs, formulas and long keys are left out;
figures, signs and line breaks, of which lists and tables are made, weigh against.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.gibberish.novelty import NOVELTY_LIMIT, NoveltySum, is_list
from stresstest.detectors.gibberish.second_reading import is_enumeration, is_readable, recurs
from stresstest.detectors.gibberish.word_evidence import (
    UNIT_PATTERN,
    WordEvidence,
    word_parts,
    word_scorer,
)
from stresstest.detectors.identification.foreign import detect_foreign_text
from stresstest.detectors.identification.votes import screening_identifier
from stresstest.detectors.languages.catalog import normalize_language, scripts_of
from stresstest.detectors.languages.function_words import languages_of
from stresstest.detectors.text.fences import FenceTracker
from stresstest.detectors.text.scripts import is_latin
from stresstest.detectors.text.segments import TextSegmenter
from stresstest.model import Symptom, SymptomKind, Token

PIECE_CHARS = 100
"""Characters after which an unfinished sentence is judged without waiting for its end."""
_MARGIN = 40
"""More than the feed needs to decide that a sentence has ended."""
CUSUM_LIMITS = {
    "letters": 8.0,
    "grammar": 8.0,
    "forms": 10.0,
    "scripts": 6.0,
    "broken": 4.0,
    "novelty": NOVELTY_LIMIT,
}
GRAMMAR_LIMIT_WITH_FORMS = 10.0
"""The bound of `grammar` where the language's word forms are known: invented words are told by these, and
real ones may be short of function words for a sentence or two."""
GRAMMAR_LIMIT_OF_ANY = 20.0
"""The bound of `grammar` where Latin words may be of any language, also of one that nothing here knows: some
60 words, so that those that come again tell prose from invented words (`recurs`)."""
CODE_LIMITS = {"grammar": 40.0, "scripts": 12.0, "broken": 8.0, "novelty": NOVELTY_LIMIT}
"""Bounds in a block of code, where letters and forms say nothing. Of 46,000 files of code none reaches more
than 5.4 of scripts and 4.2 of broken characters (tables of languages and of tokens), and of 12,000 none more
than 35 of grammar (key words without signs and line breaks); 900 random tokens reach 17 to 138 of scripts."""
RECOVERY_EVIDENCE = 12.0
"""Evidence of health after which a stretch of gibberish has ended."""
RECHECK_WORDS = 60
"""Words of a suspect stretch that are read again."""
OPEN_SHARE = 0.5
"""Of its bound: a sum so high is an open candidate."""
ONSET_SHARE = 0.3
"""Of its bound: a sum so high when another one raises the alarm tells where it began."""
REPEAT_WINDOW = 60
"""A word that was there so many units ago says nothing new: repetition is another symptom."""

_JUMP, _RETURN, _AGAIN, _STAY, _PAUSE = 1.8, 0.6, -0.1, -0.2, -1.6
"""Evidence of a word in another strange script than the last, in that one again, in it still, in a usual
script, and of a sign: what is drawn at random has no commas between."""

LITERAL_CHARACTERS = 2_000
"""A string or a comment in a module may be anything: placeholder text, test data, a cipher. One of so many
characters does not end any more."""
_LITERAL = re.compile(
    r"\"{3}.*?(?:\"{3}|\Z)|'{3}.*?(?:'{3}|\Z)|/\*.*?(?:\*/|\Z)|(?:\#|//)[^\n]*"
    r'|"(?:\\.|[^"\\\n])*["\n]?' + r"|'(?:\\.|[^'\\\n])*['\n]?",
    re.DOTALL,
)

_EXCLUDED = re.compile(
    r"``.*?``|`[^`]*`|\$\$.*?\$\$|\$[^$\s][^$]*\$|\\\w+(?:\{[^{}]*\})*|(?:https?|ftp)://\S+|www\.\S+"
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?<!\w)[#@]\w+|</?[a-zA-Z][^<>]{0,200}>|(?:[\w.-]*/){2,}[\w.-]*|[A-Za-z0-9+/=_-]{24,}"
    r"|\w+(?:[_.:=(){}\[\]<>&|]+\w+)+\S*",
    re.DOTALL,
)
_MARKED = re.compile(r"[`$\\@#<_={}]|/\w|\w[.:(\[&|]\w|[A-Za-z0-9+=-]{24}")
MOJIBAKE = re.compile("\ufffd+|Ã[\u0080-\u00bf]|â€[\u0080-\u2122]?|Ð[\u0080-\u00bf]|[\u0080-\u009f]")

UNUSED = re.compile(
    r"<\|?(?:reserved_special_token|unused|extra_id|special|dummy|placeholder)_?\d{1,4}\|?>"
    r"|\[(?:PAD|unused|control)_?\d{1,6}\]|<0x[0-9A-F]{2}>",
    re.IGNORECASE,
)
"""Tokens that a vocabulary holds in reserve, and bytes of characters that were not put together, as text."""
_UNUSED_WEIGHT = 0.3
_QUOTES = ('"', "'", "`")
MIN_INVENTED_GRAMMAR = 0.15
"""Least share of function words around invented ones; without any it is a list, or `grammar` tells."""


class _UnitPosition(NamedTuple):
    """A unit of a piece that was read: where the piece begins, what it says, and the unit's number."""

    start: int
    text: str
    unit: int

    def span(self) -> tuple[int, int]:
        """The characters [first, end) of the answer at which the unit stands."""
        for number, match in enumerate(UNIT_PATTERN.finditer(self.text)):
            if number == self.unit:
                return self.start + match.start(), self.start + match.end()
        return self.start, self.start


_NOWHERE = _UnitPosition(0, "", 0)


@dataclass(slots=True)
class _EvidenceSum:
    """One CUSUM. bound, code_bound: in text and in code. place: the unit at which it last left zero."""

    bound: float
    code_bound: float
    value: float = 0.0
    place: _UnitPosition = _NOWHERE


class GibberishDetector:
    """Online detector of `gibberish`. The feed takes each token before the detector does.

    reasoning: of a chain of thought, whose language and grammar are its own: letters, scripts and broken
    characters alone are judged.
    """

    def __init__(self, spec: DetectorSpec, feed: TextSegmenter, *, reasoning: bool = False) -> None:
        self._feed = feed
        self._language = normalize_language(spec.language) if spec.language else None
        self._own = frozenset({"LATIN", "", *scripts_of(self._language)})
        self._lexicon = word_scorer(self._language)
        self._unknown_words = spec.named.unknown
        self._literals = spec.wants_code
        self._literal_from = 0
        self._sums = tuple(
            _EvidenceSum(bound, CODE_LIMITS.get(name, inf)) for name, bound in CUSUM_LIMITS.items()
        )
        self._letters, self._grammar, self._forms, self._scripts, self._broken, self._novel = self._sums
        self._novelty = NoveltySum(self._lexicon)
        self._any_language = self._language is None or not is_latin(self._language)
        if self._lexicon.knows_forms:
            self._grammar.bound = GRAMMAR_LIMIT_WITH_FORMS
        elif self._any_language:
            self._grammar.bound = GRAMMAR_LIMIT_OF_ANY
        if reasoning:
            self._grammar.bound = self._grammar.code_bound = self._forms.bound = inf
        self._read = 0
        self._done = 0
        self._line = 0
        self._sentence_line = -1
        self._fences = FenceTracker()
        self._new: set[str] = set()
        self._old: set[str] = set()
        self._strange = ""
        self._away = False
        self._health = 0.0
        self._gibberish_start = _NOWHERE
        self._symptoms: list[Symptom] = []
        self._in_gibberish = False
        self._finished = False

    @property
    def open_from(self) -> int | None:
        """First token of a suspect stretch that is not settled, else of the text not yet judged."""
        if self._finished:
            return None
        starts = [s.place.span()[0] for s in self._sums if s.value >= OPEN_SHARE * self._bound(s)]
        if starts and not self._in_gibberish:
            return self._feed.token_at(min(starts))
        if self._done > self._feed.pending_at and self._feed.pending.strip():
            return self._feed.token_at(self._done)
        return self._feed.pending_token

    def update(self, token: Token) -> None:
        del token
        feed = self._feed
        if self._read < len(feed.sentences):
            self._take_sentences()
        if feed.chars - self._done >= PIECE_CHARS + _MARGIN:
            self._take_pending()

    def finish(self, finish_reason: str | None) -> None:
        if self._finished:
            return
        self._feed.close()
        self._take_sentences()
        self._finished = finish_reason is not None and finish_reason not in ("length", "abort", "error")

    def symptoms(self) -> list[Symptom]:
        return list(self._symptoms)

    def _take_sentences(self) -> None:
        sentences = self._feed.sentences
        for span in sentences[self._read :] if self._read else sentences:
            begins, self._sentence_line = span.line != self._sentence_line, span.line
            was_code = self._fences.in_code
            self._begin_line(span.line, span.start)
            if not (begins and self._done <= span.start and self._fences.takes(span.text)):
                rest = span.text[max(self._done - span.start, 0) :].lstrip()
                self._process_text(rest, span.end - len(rest), final=True)
                self._fences.ends_with(span.text)
            if was_code and not self._fences.in_code:
                self._reset_sums()
            self._done = max(self._done, span.end)
        self._read = len(sentences)

    def _take_pending(self) -> None:
        start = max(self._done, self._feed.pending_at)
        text = self._feed.pending[start - self._feed.pending_at :]
        bare = text.strip()
        if len(bare) >= PIECE_CHARS + _MARGIN:
            start += len(text) - len(text.lstrip())
            self._begin_line(self._feed.pending_line, start)
            self._process_text(bare, start, final=False)

    def _begin_line(self, line: int, start: int) -> None:
        if line != self._line:
            self._line = line
            self._score_piece("\n", start)

    def _process_text(self, text: str, start: int, *, final: bool) -> None:
        """Judge `text` in pieces that end where the text alone says; without `final`, whole pieces only."""
        at = 0
        while at < len(text):
            end = _piece_end(text, at)
            if not final and end + _MARGIN > len(text):
                break
            self._score_piece(text[at:end], start + at)
            at = end
            self._done = start + at

    def _score_piece(self, text: str, start: int) -> None:
        """Add up the evidence of one piece. The hot loop: a fraction of a microsecond a unit."""
        in_code = self._fences.in_code
        if "<" in text or "[" in text or not text.isascii():
            self._count_broken(start, text, in_code=in_code)
        units = UNIT_PATTERN.findall(text)
        if not self._in_gibberish:
            self._count_novel(units, text, start)
        if not in_code and _MARKED.search(text):
            text = _EXCLUDED.sub(lambda match: " " * len(match.group()), text)
            units = UNIT_PATTERN.findall(text)
        known, weigh, own = self._lexicon.known, self._lexicon.score, self._own
        letters, grammar, forms = self._letters, self._grammar, self._forms
        for number, unit in enumerate(units):
            evidence = known.get(unit) or weigh(unit)
            by_letters, by_grammar, script, mixed, by_forms = evidence
            if in_code:
                by_letters = by_forms = 0.0
            if by_letters > 0.0 or by_grammar > 0.0:
                if unit in self._new or unit in self._old:
                    if forms.value > 0.0 and by_forms < 0.0:
                        forms.value += by_forms
                    continue
                self._new.add(unit)
            if self._in_gibberish:
                self._track_recovery(evidence, _UnitPosition(start, text, number))
                continue
            if by_letters > 0.0 or by_grammar > 0.0 or letters.value > 0.0 or grammar.value > 0.0:
                self._add_evidence("letters", letters, by_letters, start, text, number)
                self._add_evidence("grammar", grammar, by_grammar, start, text, number)
            if by_forms > 0.0 or forms.value > 0.0:
                self._add_evidence("forms", forms, by_forms, start, text, number)
            if mixed or script not in own or self._scripts.value > 0.0:
                self._add_evidence(
                    "scripts", self._scripts, self._script_change_evidence(script, mixed), start, text, number
                )
        if len(self._new) >= REPEAT_WINDOW:
            self._old, self._new = self._new, set()

    def _count_novel(self, units: list[str], text: str, start: int) -> None:
        to = self._novel
        to.value, left = self._novelty.add(to.value, units)
        if left is not None:
            to.place = _UnitPosition(start, text, left)
        if to.value >= NOVELTY_LIMIT:
            last = _UnitPosition(start, text, len(units) - 1)
            if not is_list(self._feed.text_between(to.place.span()[0], last.span()[1])):
                self._confirm_suspicion("novelty", to, last)
            to.value = 0.0

    def _bound(self, of: _EvidenceSum) -> float:
        return of.code_bound if self._fences.in_code else of.bound

    def _reset_sums(self) -> None:
        for each in self._sums:
            each.value = 0.0

    def _add_evidence(
        self, name: str, to: _EvidenceSum, evidence: float, start: int, text: str, unit: int
    ) -> None:
        """Add a unit's evidence to a sum; places are only made where they are needed."""
        value = to.value
        if value <= 0.0:
            if evidence <= 0.0:
                return
            to.place = _UnitPosition(start, text, unit)
        value += evidence
        to.value = max(0.0, value)
        if value >= to.bound and value >= self._bound(to):  # the bound in code is never the lower one
            self._confirm_suspicion(name, to, _UnitPosition(start, text, unit))

    def _count_broken(self, start: int, text: str, *, in_code: bool) -> None:
        broken = [] if text.isascii() else [(match.start(), 1.0) for match in MOJIBAKE.finditer(text)]
        broken += [
            (match.start(), _UNUSED_WEIGHT)
            for match in UNUSED.finditer(text)
            if not (in_code and text[: match.start()].endswith(_QUOTES))
        ]
        if not broken:
            return
        if self._in_gibberish:
            self._health = 0.0
            return
        for at, weight in sorted(broken):
            self._add_evidence("broken", self._broken, weight, start + at, "", 0)
        self._add_evidence("broken", self._broken, -0.002 * len(text), start, "", 0)

    def _script_change_evidence(self, script: str, mixed: bool) -> float:
        """Evidence of one word's script: a third writing system, another than the last strange one."""
        if mixed:
            return _JUMP
        if not script:
            return _PAUSE
        if script in self._own:
            self._away = False
            return _STAY
        if script == "KANA":
            script = "HAN"
        away, self._away = self._away, True
        if script == self._strange:
            return _AGAIN if away else _RETURN
        self._strange = script
        return _JUMP

    def _confirm_suspicion(self, name: str, found: _EvidenceSum, place: _UnitPosition) -> None:
        """A bound was reached: gibberish, unless a second reading finds a language."""
        if self._in_gibberish:
            return
        found.value = 0.0
        at = found.place.span()[0]
        if self._literals and self._in_literal(at, place.span()[1]):
            return
        said = self._feed.text_between(at, place.span()[1])
        words = [unit for unit in UNIT_PATTERN.findall(said) if unit[0].isalpha()]
        stretch = words[-RECHECK_WORDS:]
        if self._unknown_words and name in ("letters", "grammar", "forms", "novelty"):
            return
        if name in ("letters", "grammar") and is_readable(stretch, self._language):
            return
        if name == "grammar" and self._any_language and recurs(words[-2 * RECHECK_WORDS :]):
            return
        if name == "letters" and self._lexicon.knows_forms and not self._strange_words(stretch):
            return  # "circadian rhythm": real words, unusual as their letters are
        if name == "forms" and (
            not self._is_invented(stretch) or is_enumeration(said, self._strange_words(stretch))
        ):
            return
        starts = [
            each.place.span()[0]
            for each in self._sums
            if each is not self._novel and each.value >= ONSET_SHARE * self._bound(each)
        ]
        first = self._feed.token_at(min([at, *starts]))
        self._reset_sums()
        self._in_gibberish, self._health, self._gibberish_start = True, 0.0, place
        excerpt = " ".join(words[:12])
        self._symptoms.append(
            Symptom(
                kind=SymptomKind.GIBBERISH,
                onset=first,
                alarm=max(self._feed.tokens, first),
                score=1.0,
                detail={"by": name, "excerpt": excerpt},
                summary=f"{_WHY[name]}: “{excerpt}”",
            )
        )

    def _in_literal(self, first: int, end: int) -> bool:
        """Whether most of the characters [first, end) of a module stand in strings or comments."""
        inside, read_from = 0, self._literal_from
        for match in _LITERAL.finditer(self._feed.text_between(read_from, end)):
            begins, ends = read_from + match.start(), read_from + match.end()
            if ends <= first:
                self._literal_from = ends
            elif ends - begins < LITERAL_CHARACTERS:
                inside += ends - max(begins, first)
        return inside > (end - first) / 2

    def _strange_words(self, words: list[str]) -> list[str]:
        """Those that the language does not have."""
        return [word for word in words if self._lexicon.score(word).forms > 0.0]

    def _is_invented(self, words: list[str]) -> bool:
        """Whether words that the language does not have stand in its sentences: not in those of another
        language, and not in a list of terms, which has no function words."""
        language = self._language
        strange = self._strange_words(words)
        if language is None or detect_foreign_text(" ".join(strange), language).foreign:
            return False
        if screening_identifier(language).rank(" ".join(words))[0][0] != language:
            return False
        grammar = sum(language in languages_of(part) for word in words for part in word_parts(word.lower()))
        return grammar >= MIN_INVENTED_GRAMMAR * len(words)

    def _track_recovery(self, evidence: WordEvidence, place: _UnitPosition) -> None:
        letters, grammar, _, mixed, forms = evidence
        worse = letters + grammar if letters > 0.0 and grammar > 0.0 else max(letters, grammar)
        worse = max(worse, forms) if forms > 0.0 else worse
        self._health = max(0.0, self._health - (_JUMP if mixed else worse))
        if self._health == 0.0:
            self._gibberish_start = place
        if self._health >= RECOVERY_EVIDENCE:
            end = self._feed.token_at(self._gibberish_start.span()[0])
            self._symptoms[-1] = replace(self._symptoms[-1], end=end)
            self._in_gibberish = False


_WHY = {
    "letters": "letters that make no words",
    "grammar": "words that make no sentence in any language",
    "forms": "words that no language has",
    "scripts": "words that jump between scripts",
    "broken": "broken characters, or tokens of no text",
    "novelty": "words without end that were not there before",
}


def _piece_end(text: str, at: int) -> int:
    """The first blank after `PIECE_CHARS` characters, or the end; without blanks, cut at twice that."""
    blank = text.find(" ", at + PIECE_CHARS)
    hard = at + 2 * PIECE_CHARS
    return min(blank if blank >= 0 else len(text), hard, len(text))
