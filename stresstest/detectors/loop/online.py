"""Exact loops: the end of the output repeats itself, at any period, detected while it is written.

An index of the last six tokens proposes a candidate period; each candidate then extends by one comparison a
token or is dropped. This is the online form of searching maximal repetitions (runs): Kolpakov and Kucherov,
"Finding maximal repetitions in a word in linear time", 1999. The nearest earlier occurrence is at the
primitive period, so twelve separators are one period of one token and never "a 4-gram three times".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.loop.rows import second_row
from stresstest.detectors.text.requested_repetition import UNCOUNTED_LIMIT, requested_repetition
from stresstest.model import Symptom, SymptomKind, Token
from stresstest.model.tokens import IMPOSSIBLE_TEXTS
from stresstest.model.words import REPETITION_REASON

GRAM_SIZE = 6
"""Tokens that must match before a period is proposed: shorter ones propose at every stock phrase."""

MIN_REPEATED = 48
"""Least repeated tokens (beyond the first copy) of a loop, so that short periods need many copies: a single
word occurs 49 times before it is a loop."""

LONG_REPEATED = 200
THIRD_COPY_EXTRA = 64
"""A long period need not complete a third copy: 200 repeated tokens suffice once it has begun. Refrains recur
after other text, so their copies are not adjacent, and a passage that merely occurs twice (a slip, a text
restated) is never begun a third time."""

SEPARATOR_REPEATED = 256
"""Repeated tokens for a run without a letter (rulers, dots, blank cells, zeros) or of one character."""

WORD_SHARE = 0.25
NOTATION_REPEATED = 192
"""The bounds above are for periods of which so many tokens are words. With fewer, more tokens must repeat in
proportion, up to so many: an address pattern's four numbers, a table's empty rows and a tune that has one
line four times repeat as they should."""

_WORD = re.compile(r"[^\W\d_]{3}|[^\W\d_][a-z]|[^\W\d_\x00-\x7f]")
"""In a token: three letters, two that are no capitals, or one of another script, where it may be a word."""

_ONE_WORD = re.compile(r"(?:[ \t,;|]*\d[\d.,]*){1,2}[ \t,;|]*|[ \t,;|]*[^\W\d_][ \t,;|]*")
"""A number, which may begin within its digits in a period's text, or one letter."""

_LONGEST_WORD = 64

_CLOSING_TAGS = re.compile(r"(?:</[\w:.-]+\s*>\s*)+")
"""The end of nested elements: e-mails close a dozen tables and rows in a row."""

_RULING = re.compile(r"[-=_─━|:+ \t]*[-=_─━][-=_─━|:+ \t]*")
"""Of a line between the rows of a table or below a heading."""

CODE_REPEATED, CODE_TABLE_REPEATED = 192, 1024
"""Repeated tokens of a loop in a module, and of one without a letter, unless the cap cuts it: the lines of a
test and the zeros of a table are written again and again, but not until the cap."""

SAME_CHARACTER_LIMIT = 1024
"""Or so many of one sign, digit or blank: a token may hold dozens of them. A ruling always needs so many: in
a padded table it is as wide as the longest cell."""

CUT_COPIES = 3
"""Copies after the first one, of a loop that a cap has cut before its bound: sections that are worded alike
and refrains occur twice at the end of a text, and not four times."""

CUT_WORD_REPEATED, CUT_WORD_COPIES = 64, 12
"""Repeated tokens, and copies, of one number or letter at the end of an output that a cap has cut: of 195,000
public answers seven end in 64 or more, and each of these is the same to its last token."""

_SENTENCE_WORDS, _SENTENCE_CJK, _CJK = 3, 6, "\u3040"

MAX_SECTIONS = 2
"""Changes between reasoning and answer at which a run ends: into reasoning, and from it into the answer."""

OPEN_REPEATED = 12
"""From here on a run may yet become a loop, and the output counts as observed only up to it."""

RESUME_GAP = 16
"""A loop that resumes its own period within one period and this many tokens never ended."""

_BITS = 20
_MASK = (1 << (_BITS * GRAM_SIZE)) - 1
_NEVER = 1 << 60


@dataclass(slots=True, eq=False)
class _CandidateRun:
    """A maximal run with one period: s[i] == s[i - period] for every i from `start` on (0-based).

    need: repeated tokens at which it is checked (again); `_NEVER` once it is confirmed.
    """

    period: int
    start: int
    need: int
    loop: _ConfirmedLoop | None = None


@dataclass(slots=True, eq=False)
class _ConfirmedLoop:
    """A run that passed the bound. last: its last repeated token (0-based). onset: once it was asked for."""

    period: int
    start: int
    alarm: int
    need: int
    last: int
    text: str
    active: bool = True
    onset: int | None = None


@lru_cache(1 << 14)
def min_repeated_tokens(period: int) -> int:
    """Repeated tokens after which a run of this period is degenerate: three copies and 48 repeated tokens;
    from 200 repeated tokens on, two copies and the beginning of a third."""
    return min(max(2 * period, MIN_REPEATED), max(period + THIRD_COPY_EXTRA, LONG_REPEATED))


def is_separator(text: str) -> bool:
    """Whether a period's text is typography rather than language: no letter, or one character only."""
    return len(set(text) - set(" \t\n")) <= 1 or not any(ch.isalpha() for ch in text)


def _is_sentence(text: str) -> bool:
    """Whether a period's text is more than a label ("yes", "strongly agree"), in any script."""
    words = max(len(text.split()), len(_WORD.findall(text)) // 3)
    return words >= _SENTENCE_WORDS or sum(letter >= _CJK for letter in text) >= _SENTENCE_CJK


def _closes_elements(text: str) -> bool:
    """Whether a period is closing tags, wherever in them it begins."""
    twice = text + text
    first = twice.find("</")
    return first >= 0 and _CLOSING_TAGS.fullmatch(twice, first, first + len(text)) is not None


def is_one_word(text: str) -> bool:
    """Whether a period is one number or letter, with what separates it from the next on its line."""
    return len(text) <= _LONGEST_WORD and "\n" not in text and _ONE_WORD.fullmatch(text) is not None


def _separator_limit(text: str, period: int) -> int:
    """Repeated tokens that a separator needs, given a period's text."""
    signs = token_key(text)
    if _RULING.fullmatch(text):
        return -(-SAME_CHARACTER_LIMIT * period // len(signs))
    if signs.strip() and (len(set(signs)) > 1 or signs[0].isalpha()):
        return SEPARATOR_REPEATED
    # Combining marks alone, or tokens that carry only a part of a character, leave no sign.
    return min(SEPARATOR_REPEATED, -(-SAME_CHARACTER_LIMIT * period // max(1, len(signs))))


class LoopDetector:
    """Online search for exact loops over token ids (over token text where there are none, or where the
    server names the same id for every text).

    Cost: two dictionary operations a token, and one comparison for each of a few candidates. Memory: two
    integers a token.
    """

    def __init__(self, spec: DetectorSpec) -> None:
        # Numbered units differ in their number: their count is not how often one text was asked for.
        self._requests = requested_repetition(spec.requests, spec.copies)
        self._lenient = spec.wants_code
        self._codes: dict[int | str, int] = {}
        self._texts: list[str] = [""]
        self._seq: list[int] = []
        self._index: dict[int, int] = {}
        self._gram = 0
        self._floor = 0
        self._reasoning = False
        self._sections = 0
        self._active: list[_CandidateRun] = []
        self._dropped: list[_CandidateRun] = []
        self._loops: list[_ConfirmedLoop] = []
        self._by_id = True
        # The tokens until a second id is seen, or enough of them to believe the first.
        self._of_one_id: list[Token] | None = []

    def update(self, token: Token) -> None:
        if self._of_one_id is not None:
            self._check_ids(self._of_one_id, token)
        self._update(token)

    def _check_ids(self, before: list[Token], token: Token) -> None:
        """Read the answer again by its texts where one id is said to have many."""
        if token.id is None or (before and token.id != before[0].id) or len(before) >= MIN_REPEATED - 1:
            self._of_one_id = None
            return
        before.append(token)
        if len({token_key(each.text) for each in before}) < IMPOSSIBLE_TEXTS:
            return
        self._of_one_id = None
        self._by_id = False
        self._codes.clear()
        self._seq.clear()
        self._index.clear()
        self._active.clear()
        del self._texts[1:]
        self._gram = self._floor = 0
        self._reasoning = False
        self._sections = 0
        for each in before[:-1]:
            self._update(each)

    def _update(self, token: Token) -> None:
        if token.reasoning is not self._reasoning:
            self._start_section(token.reasoning)
        key = token.id if self._by_id and token.id is not None else token_key(token.text)
        code = self._codes.get(key)
        if code is None:
            code = self._codes[key] = len(self._texts)
            self._texts.append(token.text)
        elif key is not token.id and token.text[:1] == " " != self._texts[code][:1]:
            self._texts[code] = token.text  # the first word of a text has no blank before it
        n = len(self._seq)
        self._seq.append(code)
        self._gram = gram = ((self._gram << _BITS) | code) & _MASK
        if self._active:
            self._extend_candidates(n, code)
        last = self._index.get(gram)
        self._index[gram] = n
        if last is not None:
            self._open_candidate(n, n - last)

    def finish(self, finish_reason: str | None) -> None:
        """Keep a loop open that broke within the last few tokens of a lost or cut output: fewer than six
        tokens (the last one perhaps incomplete) do not show that the model went on differently. Nor do blanks
        after the loop, however the output ended. What a cap cuts in code is judged like any other text. Where
        the server's own repetition detection ended the output, the words that repeat there are a loop."""
        if finish_reason in ("length", None):
            self._take_up_cut_runs()
        cut = finish_reason == "length" and not self._lenient
        if self._lenient and finish_reason == "length":
            self._lenient = False
            for run in self._active:
                if run.need < _NEVER:
                    self._check_run(run, len(self._seq) - 1)
        if not self.loop_active:
            if cut or finish_reason == REPETITION_REASON:
                self._confirm_open_run(stopped=not cut)
            if (cut or finish_reason is None) and not self.loop_active and not self._lenient:
                self._confirm_quoted_run()
        if self._loops:
            loop = max(self._loops, key=lambda found: found.last)
            after = self._seq[loop.last + 1 :]
            short = finish_reason != "stop" and len(after) < GRAM_SIZE
            loop.active = loop.active or short or not any(self._texts[code].strip() for code in after)

    def _take_up_cut_runs(self) -> None:
        """Hold the runs open that only the last token breaks, where it is the beginning of the one that they
        go on with: the answer was cut within a word."""
        last = len(self._seq) - 1
        for run in self._dropped:
            if run.start > last - GRAM_SIZE:
                continue
            written, expected = (self._texts[self._seq[at]].strip(" \t") for at in (last, last - run.period))
            repeats = all(self._seq[at] == self._seq[at - run.period] for at in range(run.start, last))
            if repeats and expected.startswith(written):
                self._active.append(run)

    def _confirm_open_run(self, *, stopped: bool) -> None:
        """Take the oldest open run for a loop: a run of words that nobody asked for and that the server has
        stopped, or that a cap has cut at two thirds of its proof, in its fourth copy or later; and a number
        or letter that a cap has cut. Of the rest (rulings, tables, what was asked for) nobody knows what it
        would have become."""
        end = len(self._seq)
        for run in sorted(self._active, key=lambda each: (each.start, each.period)):
            repeated, least = end - run.start, max(MIN_REPEATED, self._notation_limit(run))
            text = self._text(run.start - run.period, run.period)
            if stopped:
                enough = repeated >= OPEN_REPEATED and least == MIN_REPEATED
            else:
                enough = 3 * repeated >= 2 * least and repeated >= CUT_COPIES * run.period
            if not stopped and is_one_word(text):
                enough = repeated >= max(CUT_WORD_REPEATED, CUT_WORD_COPIES * run.period)
            elif is_separator(text):
                enough = False
            if enough and self._requests.requested_copies(text) is None:
                self._confirm_at_end(run, text)
                return

    def _confirm_quoted_run(self) -> None:
        """Take a run of a sentence that the prompt quotes, without a count, for a loop where the output did
        not end by itself and an ordinary loop would have been known: the sentence need not have been asked
        for more than once ("if you do not know, answer …")."""
        end = len(self._seq)
        for run in sorted(self._active, key=lambda each: (each.start, each.period)):
            text = self._text(run.start - run.period, run.period)
            least = max(min_repeated_tokens(run.period), self._notation_limit(run))
            sentence = end - run.start >= least and _is_sentence(text) and not is_separator(text)
            if sentence and self._requests.may_be_quoted(text):
                self._confirm_at_end(run, text)
                return

    def _confirm_at_end(self, run: _CandidateRun, text: str) -> None:
        end = len(self._seq)
        run.loop = _ConfirmedLoop(run.period, run.start, end, end - run.start, end - 1, text)
        run.need = _NEVER
        self._loops.append(run.loop)

    @property
    def open_from(self) -> int | None:
        """First token of the second copy of the oldest run that may yet become a loop, or None."""
        end = len(self._seq)
        starts = [
            run.start + 1 for run in self._active if run.need < _NEVER and end - run.start >= OPEN_REPEATED
        ]
        return min(starts, default=None)

    @property
    def loop_active(self) -> bool:
        """Whether a loop reaches the last token."""
        return any(loop.active for loop in self._loops)

    def symptoms(self) -> list[Symptom]:
        if not self._loops:
            return []
        return [self._symptom(loop) for loop in sorted(self._loops, key=lambda loop: loop.start)]

    def _extend_candidates(self, n: int, code: int) -> None:
        """Extend or drop every candidate by the token at n."""
        seq = self._seq
        broken = False
        for run in self._active:
            if seq[n - run.period] != code:
                broken = True
            elif n - run.start >= run.need - 1:
                self._check_run(run, n)
            elif run.loop is not None:
                run.loop.last = n
        if broken:
            self._drop_candidates([run for run in self._active if seq[n - run.period] != code])

    def _drop_candidates(self, broken: list[_CandidateRun]) -> None:
        for run in broken:
            if run.loop is not None:
                run.loop.active = False
        self._active = [run for run in self._active if run not in broken]
        self._dropped = [run for run in broken if run.loop is None]

    def _open_candidate(self, n: int, period: int) -> None:
        """Begin a candidate at n, its start extended left to the maximal run."""
        for run in self._active:
            if run.period == period:
                return
        seq = self._seq
        start = n - GRAM_SIZE + 1
        lowest = self._floor + period
        while start > lowest and seq[start - 1] == seq[start - 1 - period]:
            start -= 1
        run = _CandidateRun(period, start, min_repeated_tokens(period))
        if self._find_resumed_loop(run) is not None:
            run.need = min(run.need, OPEN_REPEATED)
        self._active.append(run)
        if n - start >= run.need - 1:
            self._check_run(run, n)

    def _find_resumed_loop(self, run: _CandidateRun) -> _ConfirmedLoop | None:
        """The loop that this run resumes, if it broke off shortly before with the same period."""
        if not self._loops:
            return None
        loop = self._loops[-1]
        gap = run.start - loop.last
        same = not loop.active and loop.period == run.period and loop.last >= self._floor
        return loop if same and 0 < gap <= run.period + RESUME_GAP else None

    def _check_run(self, run: _CandidateRun, n: int) -> None:
        """A run has reached the length at which it is checked: a loop, or not yet."""
        resumed = self._find_resumed_loop(run)
        if resumed is not None:
            resumed.active, resumed.last = True, n
            run.loop, run.need = resumed, _NEVER
            return
        need = min_repeated_tokens(run.period)
        repeated = n - run.start + 1
        if repeated < need:
            run.need = need
            return
        if self.loop_active:
            # Inside a loop that stands already (a short run within a long period): look again later.
            run.need = repeated + MIN_REPEATED
            return
        text = self._text(run.start - run.period, run.period)
        if is_separator(text):
            need = max(need, _separator_limit(text, run.period))
        else:
            need = max(need, self._notation_limit(run))
        if self._lenient:
            need = max(need, CODE_TABLE_REPEATED if is_separator(text) else CODE_REPEATED)
        if repeated < need:
            run.need = need
            return
        copies = self._requests.requested_copies(text)
        if copies is not None:
            # As requested, so far: it stays an open candidate, and is a loop beyond what was asked for.
            need = max(need, copies * run.period or UNCOUNTED_LIMIT)
            if repeated < need:
                run.need = need
                return
        run.loop = _ConfirmedLoop(run.period, run.start, n + 1, need, n, text)
        run.need = _NEVER
        self._loops.append(run.loop)

    def _notation_limit(self, run: _CandidateRun) -> int:
        """Repeated tokens that a run needs, given how many tokens of its period are words."""
        if _closes_elements(self._text(run.start - run.period, run.period)):
            return NOTATION_REPEATED
        period = self._seq[run.start - run.period : run.start]
        words = sum(_WORD.search(self._texts[code]) is not None for code in period)
        return min(NOTATION_REPEATED, int(MIN_REPEATED * WORD_SHARE * run.period / max(1, words)))

    def _start_section(self, reasoning: bool) -> None:
        """Start answer or reasoning: no run crosses from one into the other, since an answer may quote its
        reasoning. Where they take turns (interleaved thinking), what repeats over several is no quote."""
        self._reasoning = reasoning
        self._sections += 1
        if self._sections > MAX_SECTIONS:
            self._floor = 0
            return
        self._drop_candidates(list(self._active))
        self._index.clear()
        self._gram = 0
        self._floor = len(self._seq)

    def _text(self, start: int, length: int) -> str:
        return "".join(self._texts[code] for code in self._seq[start : start + length])

    def _onset(self, loop: _ConfirmedLoop) -> int:
        if loop.onset is None:
            loop.onset = self._find_onset(loop)
        return loop.onset

    def _find_onset(self, loop: _ConfirmedLoop) -> int:
        """The first token of the second copy; of equal rows, the first of the second row."""
        begins = second_row(loop.text)
        if begins is None:
            return loop.start + 1
        first, read = loop.start - loop.period, 0
        for at in range(first, loop.start):
            read += len(self._texts[self._seq[at]])
            if read > begins:
                return at + 1
        return loop.start + 1

    def _symptom(self, loop: _ConfirmedLoop) -> Symptom:
        repeated = loop.last - loop.start + 1
        exponent = (repeated + loop.period) / loop.period
        shown = " ".join(loop.text.split())
        shown = shown if len(shown) <= 80 else f"{shown[:77]}…"
        return Symptom(
            kind=SymptomKind.LOOP,
            onset=self._onset(loop),
            alarm=loop.alarm,
            start=loop.start - loop.period + 1,
            end=None if loop.active else loop.last + 1,
            score=1.0 - 0.5 * loop.need / max(repeated, loop.need),
            detail={"period": loop.period, "exponent": round(exponent, 2), "repeated": repeated},
            summary=f"{loop.period} tokens {repeat_words(exponent)}: “{shown}”",
        )


def repeat_words(exponent: float) -> str:
    """How often a loop repeats: "repeat 60 times", "repeat 4.5 times"."""
    return f"repeat {exponent:,.1f}".removesuffix(".0") + " times"


def token_key(text: str) -> str:
    """What a token without an id is compared by."""
    return text.strip(" \t") or text
