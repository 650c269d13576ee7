"""Gibberish: the letters no longer make words, or the words no longer sentences, of any language.

Four sums run over the words (Page's CUSUM: evidence adds up, never falls below zero, and an alarm is
raised at a bound; the onset is the word at which the sum last left zero):
- letters: trigrams that no word of the language has (letter salad, shuffled letters, cut codes);
- grammar: word after word without one of the function words that prose is made of (word fragments,
  invented words, words of many languages);
- scripts: words that jump between writing systems, or mix them inside (tokens drawn at random);
- broken characters: U+FFFD and the marks of a wrong decoding.
A sum that reaches its bound is a suspicion: the stretch is then read again as each language that it
might be in, and only what is in none is gibberish. Code, URLs, formulas and long keys are left out;
figures, signs and line breaks, of which lists and tables are made, weigh against.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple

from stresstest.detectors.base import PanelSpec
from stresstest.detectors.langid import normalised
from stresstest.detectors.readable import readable
from stresstest.detectors.scripts import SCRIPTS_OF
from stresstest.detectors.segment import TextFeed
from stresstest.detectors.word_evidence import UNIT, Evidence, lexicon
from stresstest.model import Symptom, SymptomKind, Token

PIECE = 100
"""Characters after which an unfinished sentence is judged without waiting for its end."""
_MARGIN = 40
"""More than the feed needs to decide that a sentence has ended."""
BOUNDS = {"letters": 8.0, "grammar": 8.0, "scripts": 6.0, "broken": 4.0}
RECOVERY = 12.0
"""Evidence of health after which a stretch of gibberish has ended."""
SAMPLE = 60
"""Words of a suspect stretch that are read again."""
OPEN_SHARE = 0.5
"""Of its bound: a sum so high is an open candidate."""
ALSO = 0.3
"""Of its bound: a sum so high when another one raises the alarm tells where it began."""
REPEATED = 60
"""A word that was there so many units ago says nothing new: repetition is another symptom."""

_JUMP, _RETURN, _AGAIN, _STAY, _PAUSE = 1.8, 0.6, -0.1, -0.2, -1.6
"""Evidence of a word in another strange script than the last, in that one again, in it still, in a usual
script, and of a sign: what is drawn at random has no commas between."""

_FENCE = re.compile(r"\s*(?:>\s*)?(```|~~~)")
_OUT = re.compile(
    r"``.*?``|`[^`]*`|\$\$.*?\$\$|\$[^$\s][^$]*\$|\\\w+(?:\{[^{}]*\})*|(?:https?|ftp)://\S+|www\.\S+"
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|</?[a-zA-Z][^<>]{0,200}>|(?:[\w.-]*/){2,}[\w.-]*|[A-Za-z0-9+/=_-]{24,}"
    r"|\w+(?:[_.:=(){}\[\]<>&|]+\w+)+\S*",
    re.DOTALL,
)
_MARKED = re.compile(r"[`$\\@<_={}]|/\w|\w[.:(\[&|]\w|[A-Za-z0-9+=-]{24}")
_BROKEN = re.compile("\ufffd+|Ã[\u0080-\u00bf]|â€[\u0080-\u2122]?|Ð[\u0080-\u00bf]|[\u0080-\u009f]")


class _Place(NamedTuple):
    """A unit of a piece that was read: where the piece begins, what it says, and the unit's number."""

    start: int
    text: str
    unit: int

    def offset(self) -> int:
        """The character of the answer at which the unit stands."""
        return self._span()[0]

    def end(self) -> int:
        """The character after it."""
        return self._span()[1]

    def _span(self) -> tuple[int, int]:
        for number, match in enumerate(UNIT.finditer(self.text)):
            if number == self.unit:
                return self.start + match.start(), self.start + match.end()
        return self.start, self.start


_NOWHERE = _Place(0, "", 0)


@dataclass(slots=True)
class _Sum:
    """One CUSUM. place: the unit at which it last left zero."""

    bound: float
    value: float = 0.0
    place: _Place = _NOWHERE


class GibberishDetector:
    """Online detector of `gibberish`. The feed takes each token before the detector does."""

    def __init__(self, spec: PanelSpec, feed: TextFeed) -> None:
        self._feed = feed
        self._language = normalised(spec.language) if spec.language else None
        self._own = frozenset({"LATIN", "", *SCRIPTS_OF.get(self._language or "", ())})
        self._lexicon = lexicon(self._language)
        self._letters, self._grammar = _Sum(BOUNDS["letters"]), _Sum(BOUNDS["grammar"])
        self._scripts, self._broken = _Sum(BOUNDS["scripts"]), _Sum(BOUNDS["broken"])
        self._read = 0
        self._done = 0
        self._line = 0
        self._fenced = False
        self._new: set[str] = set()
        self._old: set[str] = set()
        self._strange = ""
        self._away = False
        self._health = 0.0
        self._sick = _NOWHERE
        self._symptoms: list[Symptom] = []
        self._standing = False
        self._finished = False

    @property
    def open_from(self) -> int | None:
        """First token of a suspect stretch that is not settled, else of the text not yet judged."""
        if self._finished:
            return None
        sums = (self._letters, self._grammar, self._scripts, self._broken)
        starts = [s.place.offset() for s in sums if s.value >= OPEN_SHARE * s.bound]
        if starts and not self._standing:
            return self._feed.token_at(min(starts))
        if self._done > self._feed.pending_at and self._feed.pending.strip():
            return self._feed.token_at(self._done)
        return self._feed.pending_from

    def update(self, token: Token) -> None:
        """Judge what this token completed."""
        del token
        feed = self._feed
        if self._read < len(feed.sentences):
            self._take_sentences()
        if feed.chars - self._done >= PIECE + _MARGIN:
            self._take_pending()

    def finish(self, finish_reason: str | None) -> None:
        """Judge what is left."""
        if self._finished:
            return
        self._feed.close()
        self._take_sentences()
        self._finished = finish_reason is not None and finish_reason not in ("length", "abort", "error")

    def symptoms(self) -> list[Symptom]:
        """Stretches of gibberish, in order of onset."""
        return list(self._symptoms)

    def _take_sentences(self) -> None:
        sentences = self._feed.sentences
        for span in sentences[self._read :] if self._read else sentences:
            self._begin(span.line, span.start)
            if self._done <= span.start and _FENCE.match(span.text):
                self._fenced = not (self._fenced or span.text.rstrip("`~ ").find("```") > 0)
            else:
                rest = span.text[max(self._done - span.start, 0) :].lstrip()
                self._take(rest, span.end - len(rest), final=True)
            self._done = max(self._done, span.end)
        self._read = len(sentences)

    def _take_pending(self) -> None:
        start = max(self._done, self._feed.pending_at)
        text = self._feed.pending[start - self._feed.pending_at :]
        bare = text.strip()
        if len(bare) >= PIECE + _MARGIN:
            start += len(text) - len(text.lstrip())
            self._begin(self._feed.pending_line, start)
            self._take(bare, start, final=False)

    def _begin(self, line: int, start: int) -> None:
        """A line break before the text at `start`, if it begins another line."""
        if line != self._line:
            self._line = line
            self._judge("\n", start)

    def _take(self, text: str, start: int, *, final: bool) -> None:
        """Judge `text` in pieces that end where the text alone says; without `final`, whole pieces only."""
        at = 0
        while at < len(text):
            end = _piece_end(text, at)
            if not final and end + _MARGIN > len(text):
                break
            self._judge(text[at:end], start + at)
            at = end
            self._done = start + at

    def _judge(self, text: str, start: int) -> None:
        """Add up the evidence of one piece. The hot loop: a fraction of a microsecond a unit."""
        if self._fenced:
            return
        if not text.isascii() and (broken := list(_BROKEN.finditer(text))):
            self._count_broken(start, text, broken)
        if _MARKED.search(text):
            text = _OUT.sub(lambda match: " " * len(match.group()), text)
        known, weigh, own = self._lexicon.known, self._lexicon.weigh, self._own
        letters, grammar = self._letters, self._grammar
        for number, unit in enumerate(UNIT.findall(text)):
            evidence = known.get(unit) or weigh(unit)
            by_letters, by_grammar, script, mixed = evidence
            if by_letters > 0.0 or by_grammar > 0.0:
                if unit in self._new or unit in self._old:
                    continue
                self._new.add(unit)
            if self._standing:
                self._follow(evidence, _Place(start, text, number))
                continue
            if by_letters > 0.0 or by_grammar > 0.0 or letters.value > 0.0 or grammar.value > 0.0:
                self._add("letters", letters, by_letters, start, text, number)
                self._add("grammar", grammar, by_grammar, start, text, number)
            if mixed or script not in own or self._scripts.value > 0.0:
                self._add("scripts", self._scripts, self._jump(script, mixed), start, text, number)
        if len(self._new) >= REPEATED:
            self._old, self._new = self._new, set()

    def _add(self, name: str, to: _Sum, evidence: float, start: int, text: str, unit: int) -> None:
        """Add a unit's evidence to a sum; places are only made where they are needed."""
        value = to.value
        if value <= 0.0:
            if evidence <= 0.0:
                return
            to.place = _Place(start, text, unit)
        value += evidence
        to.value = max(0.0, value)
        if value >= to.bound:
            self._suspect(name, to, _Place(start, text, unit))

    def _count_broken(self, start: int, text: str, broken: list[re.Match[str]]) -> None:
        for match in broken:
            if not self._standing:
                self._add("broken", self._broken, 1.0, start + match.start(), "", 0)
        self._add("broken", self._broken, -0.002 * len(text), start, "", 0)

    def _jump(self, script: str, mixed: bool) -> float:
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

    def _suspect(self, name: str, found: _Sum, place: _Place) -> None:
        """A bound was reached: gibberish, unless a second reading finds a language."""
        if self._standing:
            return
        found.value = 0.0
        at = found.place.offset()
        words = [unit for unit in UNIT.findall(self._feed.text[at : place.end()]) if unit[0].isalpha()]
        if name in ("letters", "grammar") and readable(words[-SAMPLE:], self._language):
            return
        sums = (self._letters, self._grammar, self._scripts, self._broken)
        first = self._feed.token_at(min([at, *(s.place.offset() for s in sums if s.value >= ALSO * s.bound)]))
        for each in sums:
            each.value = 0.0
        self._standing, self._health, self._sick = True, 0.0, place
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

    def _follow(self, evidence: Evidence, place: _Place) -> None:
        """Whether sense has returned."""
        letters, grammar, _, mixed = evidence
        worse = letters + grammar if letters > 0.0 and grammar > 0.0 else max(letters, grammar)
        self._health = max(0.0, self._health - (_JUMP if mixed else worse))
        if self._health == 0.0:
            self._sick = place
        if self._health >= RECOVERY:
            end = self._feed.token_at(self._sick.offset())
            self._symptoms[-1] = replace(self._symptoms[-1], end=end)
            self._standing = False


_WHY = {
    "letters": "letters that make no words",
    "grammar": "words that make no sentence in any language",
    "scripts": "words that jump between scripts",
    "broken": "broken characters",
}


def _piece_end(text: str, at: int) -> int:
    """The first blank `PIECE` characters on, or the end; a text without blanks is cut at twice as many."""
    blank = text.find(" ", at + PIECE)
    hard = at + 2 * PIECE
    return min(blank if blank >= 0 else len(text), hard, len(text))
