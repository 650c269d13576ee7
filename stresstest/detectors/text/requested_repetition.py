"""Requested repetition: what a prompt asks to be written again and again, and how often.

Text that merely stands in a prompt (an instruction, a topic, a document given as context) is what
models fall into loops on; it proves nothing. Requested is only what is shown there as something to
repeat: in quotes or a code block, as a blank form, after "50 times:", or several times in a row. It
counts as a whole: a sentence out of a quoted passage was not asked for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import count, groupby, islice
from typing import NamedTuple

from stresstest.detectors.languages.catalog import Catalog, alternatives, per_catalog
from stresstest.detectors.text.scripts import weighted_length

UNCOUNTED_LIMIT = 400
"""Repeated tokens (words, of a flood) that a request without a readable count allows for."""

COUNT_TOLERANCE = 3
"""So many times the count that was asked for, models being bad at counting."""

_COUNT_DISTANCE = 160
"""Characters before and after the shown text, in its sentence, in which its count may stand. A limit of lines
or rows in another sentence is none."""

_SENTENCE_END = re.compile(r"[.!?。！？]+(?=\s|\Z|[^\W\d_])|\n\s*\n")

_MAX_TILES = 4
"""So many shown texts in turn may make one period: "yes" and "no" alternately."""

_MOST_TRIED = 20_000
"""Times that a text is tried at a place. A period of four out of twenty phrases takes a few hundred."""

_MOST_KEPT = 256
"""Periods whose answers are kept: a loop is asked for at each of its copies."""

_MAX_SHOWN = 2_000
"""Shown texts of a prompt that are read: each costs some 30 µs."""

_LONGEST_EXAMPLE = 48
"""Letters of what is shown as an example by standing twice in a row: some eight words."""
_LONGEST = 1000
_GAP, _WORD = re.compile(r"[\W_]+"), re.compile(r"[^\W_]+")
_GAP_OR_FIGURE = re.compile(r"[\W\d_]+")
_SIGN_QUOTES = "[\"'`“”«»‘’„]"
_QUOTED = re.compile(
    "|".join(
        rf"{opening}((?:{inside}){{1,{_LONGEST}}}?){closing}"
        for opening, inside, closing in (
            (r"```(?:\w*\n)?", r"[^`]", r"```"),
            (r"`", r"[^`]", r"`"),
            (r"“", r"[^“”]", r"”"),
            (r"[„“]", r"[^„“]", r"“"),
            (r"«", r"[^«»]", r"»"),
            (r"»", r"[^«»]", r"«"),
            (r"[「『]", r"[^「」『』]", r"[」』]"),
            (r"(?<!\w)\"", r"[^\"]", r"\"(?!\w)"),
            (r"(?<!\w)‘", r"[^‘’]|(?<=\w)’(?=\w)", r"’(?!\w)"),
            (r"(?<!\w)'(?!\s)", r"[^']|(?<=\w)'(?=\w)", r"(?<!\s)'(?!\w)"),
        )
    )
)
_OPENING = re.compile(r"[`“„«»「『\"‘']")
"""A sign with which one of them begins."""
_FIGURE = re.compile(r"\d")
_GAPS = ("___", "....", "……")
_FORM = re.compile(r"(?:^[^\n]*(?:_{3}|\.{4}|…{2})[^\n]*$\n?)+", re.MULTILINE)
_LINE, _LINE_TEXT = re.compile(r"[^\n]*\n|[^\n]+"), re.compile(r"[^\n]+")
_ITEM_NUMBER = re.compile(
    r"(?:(?:^|(?<=[\[(#]))(?:[^\w\n]|[^\W\d_]){0,24}?|\"\w{1,20}\"\s?:\s?\"?)(\d{1,6})(?!\w)", re.MULTILINE
)
"""A number at the beginning of a line, perhaps after a word or two, in brackets, or as a value of JSON."""
_BEFORE_ITEM = re.compile(r"[\n\[(#\"]")
_BULLET = re.compile(r"[ \t]*(?:[-*•–]\s|\{\s*\")")
_LEAST_ITEMS = 5


@per_catalog
def _counted(known: Catalog) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A count of repetitions ("50 times", "20 lines", "3×"), and one that announces the text to repeat."""
    units = alternatives(known.words(lambda language: language.repetition_units), start="")
    times = rf"(?<![\d.,])(\d{{1,6}}|\d{{1,3}}(?:[.,]\d{{3}})+)\s?-?(?:{units}|x\b|×)"
    announced = rf"{times}[^\n.!?:：]{{0,80}}[:：]\s*(\S[^\n]{{0,{_LONGEST}}})"
    return re.compile(times), re.compile(announced)


@per_catalog
def _counted_beside(known: Catalog) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A count in words right before and right after the text ("forty times")."""
    units = alternatives(known.words(lambda language: language.repetition_units))
    return re.compile(rf"\w\s+{units}\W*\Z"), re.compile(rf"\W*[^\W\d_]+\s+{units}")


class _RequestedText(NamedTuple):
    """A text shown for repetition: as a cycle, the words in it, how often it was asked for (0: unknown),
    whether it may be quoted for another reason: it is shown once, and nothing in its sentence counts it."""

    cycle: str
    words: str
    copies: int
    quoted_once: bool


class RequestedRepetition:
    """What the prompt asks to be repeated. The prompt is read at the first question about it."""

    def __init__(self, prompt: str, units: int | None = None) -> None:
        self._given = prompt
        self._units = units or 0
        self._asked: dict[str, int | None] = {}

    def requested_copies(self, period: str) -> int | None:
        """Up to how many copies of the period are as requested: None if none are, 0 for no count.

        The period may be read from any point on; case, white space and punctuation do not matter.
        """
        if not self._given:
            return None
        cycle = _cycle(period)
        if cycle not in self._asked:
            if len(self._asked) >= _MOST_KEPT:
                self._asked.clear()
            self._asked[cycle] = self._copies_of(cycle)
        return self._asked[cycle]

    def _copies_of(self, cycle: str) -> int | None:
        shown = _find_tiling(cycle, self._requested_texts)
        if shown is not None:
            return COUNT_TOLERANCE * max(text.copies for text in shown)
        return self._in_a_row(cycle)

    def may_be_quoted(self, period: str) -> bool:
        """Whether the period is requested at most because the prompt quotes it, once and without a count:
        that may be what is to be answered in some case ("if you do not know, say …")."""
        cycle = _cycle(period)
        if not self._given or self._in_a_row(cycle) is not None:
            return False
        shown = _find_tiling(cycle, self._requested_texts)
        return shown is not None and all(text.quoted_once for text in shown)

    def requested_words(self, few: Collection[str]) -> int | None:
        """The same for a flood of words (or pieces of words) without a period: how many in all. Lone letters
        of what was requested are no words of a flood."""
        if not self._given:
            return None
        pieces = {_words(word) for word in few} - {""}
        if not pieces:
            return None
        alternatives = sorted(map(re.escape, pieces), key=len, reverse=True)
        made_of = re.compile(rf"\b[a-zß-öø-ÿ]\b|{'|'.join(alternatives)}| ")
        shown = {text.words: text.copies for text in self._requested_texts if not made_of.sub("", text.words)}
        missing = {piece for piece in pieces if not any(piece in text for text in shown)}
        if not all(self._in_a_row(f"{piece} ") is not None for piece in missing):
            return None
        return COUNT_TOLERANCE * max(shown.values(), default=0) * sum(len(text.split()) for text in shown)

    def shows_sign(self, sign: str) -> bool:
        """Whether a sign is shown as one to be written: quoted, or five of it in a row ("Important!!!" shows
        none)."""
        one = re.escape(sign)
        return re.search(f"{_SIGN_QUOTES}{one}+{_SIGN_QUOTES}|{one}{{5}}", self._given) is not None

    @cached_property
    def items(self) -> range:
        """The numbers of the longest list that the prompt has; from 1 on, where it has bullets."""
        return max(_numbered_items(self._given), _bulleted_items(self._given), key=len)

    @cached_property
    def _prompt(self) -> str:
        return self._given.casefold()

    @cached_property
    def _requested_texts(self) -> tuple[_RequestedText, ...]:
        prompt = self._prompt
        found: dict[str, _RequestedText] = {}
        for first, last in islice(_shown_spans(prompt), _MAX_SHOWN):
            before = _SENTENCE_END.split(prompt[max(0, first - _COUNT_DISTANCE) : first])[-1]
            after = _SENTENCE_END.split(prompt[last : last + _COUNT_DISTANCE], 1)[0]
            times = max(_counts((before, after)), default=self._units)
            once = not times and not _is_counted(before, after)
            text = prompt[first:last]
            words = _words(text)
            for repeatable in (f"{text} ", words or text):  # word after word, or closed up as in Chinese
                cycle = _cycle(repeatable)
                if cycle:
                    shown = max(1, len(_folded(repeatable)) // len(cycle))
                    known = found.get(cycle)
                    asked = max(times * shown, known.copies if known else 0)
                    alone = once and shown == 1 and (known is None or known.quoted_once)
                    found[cycle] = _RequestedText(cycle, words, asked, alone)
        return tuple(found.values())

    @cached_property
    def _prompt_words(self) -> tuple[str, str]:
        """The prompt's words, and the same without figures, which may number the lines of a template."""
        return f" {_words(self._prompt)} ", f" {_GAP_OR_FIGURE.sub(' ', self._prompt).strip()} "

    def _in_a_row(self, cycle: str) -> int | None:
        """0 if the cycle stands twice in a row in the prompt; a lone word three times ("had had"). A whole
        sentence that does so is no example: histories, logs and the results of tools have loops in them."""
        if not any(ch.isalnum() for ch in cycle) or weighted_length(cycle) > _LONGEST_EXAMPLE:
            return None
        length = (2 if " " in cycle.strip() else 3) * len(cycle)
        return 0 if any(_continues_in(cycle, text, length) for text in self._prompt_words) else None


@lru_cache(maxsize=2)
def requested_repetition(prompt: str, units: int | None = None) -> RequestedRepetition:
    """What a prompt asks to be repeated; the same one for its detectors and for further answers to it."""
    return RequestedRepetition(prompt, units)


def _shown_spans(prompt: str) -> Iterator[tuple[int, int]]:
    """Where texts are shown: in quotes, behind a count, in a form and on each of its lines."""
    for match in _matches(_QUOTED, _OPENING, prompt):
        yield match.span(match.lastindex or 0)
    for match in _matches(_counted()[1], _FIGURE, prompt):
        yield match.span(2)
    for form in _FORM.finditer(prompt) if any(gap in prompt for gap in _GAPS) else ():
        yield form.span()
        for line in _LINE_TEXT.finditer(prompt, form.start(), form.end()):
            yield line.span()


def _matches(pattern: re.Pattern[str], sign: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """The same as `pattern.finditer`, ten times as fast, for a pattern that begins with a certain sign."""
    at = 0
    while (begun := sign.search(text, at)) is not None:
        found = pattern.match(text, begun.start())
        if found is not None:
            yield found
        at = begun.end() if found is None else found.end()


def _item_numbers(text: str) -> Iterator[re.Match[str]]:
    """The same for `_ITEM_NUMBER`, which begins on a line, in a bracket or with a quotation mark."""
    at, sign = 0, _ITEM_NUMBER.match(text)
    if sign is not None:
        yield sign
        at = sign.end()
    while (sign := _BEFORE_ITEM.search(text, at)) is not None:
        at = sign.end()
        found = _ITEM_NUMBER.match(text, sign.start() if sign[0] == '"' else at)
        if found is not None:
            yield found
            at = found.end()


def _numbered_items(prompt: str) -> range:
    """The longest run of numbers that go up by one, of those by which a prompt may number items."""
    begun: dict[int, int] = {}  # last number → first one, of each run that may go on
    most = range(0)
    for match in _item_numbers(prompt):
        number = int(match[1])
        first = begun[number] = begun.pop(number - 1, number)
        if number - first + 1 >= max(len(most) + 1, _LEAST_ITEMS):
            most = range(first, number + 1)
    return most


def _bulleted_items(prompt: str) -> range:
    """As many numbers as the longest run of lines with bullets has lines."""
    lines = (match[0] for match in _LINE.finditer(prompt))
    runs = (sum(1 for _ in run) for bullet, run in groupby(lines, _is_bullet) if bullet)
    most = max(runs, default=0)
    return range(1, most + 1) if most >= _LEAST_ITEMS else range(0)


def _is_bullet(line: str) -> bool:
    return _BULLET.match(line) is not None


def _folded(text: str) -> str:
    """The text's words with one blank between them, as a cycle: one blank at most where it closes.
    A text without words is taken sign by sign."""
    if not _words(text):
        return "".join(text.split())
    folded = _GAP.sub(" ", text.casefold())
    return folded[1:] if folded[0] == folded[-1] == " " else folded


def _cycle(text: str) -> str:
    """The text folded, and reduced to what repeats if it is itself a repetition."""
    folded = _folded(text)
    return folded[: (folded + folded).find(folded, 1)] if folded else ""


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def _is_counted(before: str, after: str) -> bool:
    """Whether words of the sentence around a text count it."""
    one, other = _counted_beside()
    return one.search(before) is not None or other.match(after) is not None


def _counts(texts: Iterable[str]) -> list[int]:
    return [
        int(re.sub(r"\D", "", match[1])) for text in texts for match in _matches(_counted()[0], _FIGURE, text)
    ]


def _find_tiling(cycle: str, shown: Iterable[_RequestedText]) -> list[_RequestedText] | None:
    """The shown texts, at most four in turn, that make the cycle, wherever one begins to read it. None, too,
    where they overlap in more ways than can be tried."""
    size, twice = len(cycle), cycle + cycle
    tiles = [text for text in shown if len(text.cycle) <= size and text.cycle in twice]
    tried = count(1)
    for tile in tiles:
        at = twice.find(tile.cycle)
        while 0 <= at < size:
            text, begun = twice[: at + size], at + len(tile.cycle)
            rest = _lay_tiles(tiles, text, begun, _MAX_TILES - 1, tried)
            if rest is not None:
                return [tile, *rest]
            if next(tried) > _MOST_TRIED:
                return None
            at = twice.find(tile.cycle, at + 1)
    return None


def _lay_tiles(
    tiles: Sequence[_RequestedText], text: str, at: int, left: int, tried: Iterator[int]
) -> list[_RequestedText] | None:
    """At most `left` of the tiles that make the text from `at` to its end; None if none do. tried: counts
    the tiles that are tried."""
    if at == len(text):
        return []
    for tile in tiles if left else ():
        if next(tried) > _MOST_TRIED:
            return None
        if text.startswith(tile.cycle, at):
            rest = _lay_tiles(tiles, text, at + len(tile.cycle), left - 1, tried)
            if rest is not None:
                return [tile, *rest]
    return None


def _continues_in(cycle: str, text: str, length: int) -> bool:
    """Whether the cycle, read from whichever point on, goes on in the text for so long in whole words."""
    size = len(cycle)
    at = text.find(cycle)
    while at >= 0:
        first, last = at, at + size
        while first > 0 and text[first - 1] == text[first - 1 + size]:
            first -= 1
        while last < len(text) and text[last] == text[last - size]:
            last += 1
        after = max(at + 1, last - size + 1)
        if " " in cycle:
            while 0 < first < last and text[first - 1] != " ":
                first += 1
            while last > first and text[last - 1] != " ":
                last -= 1
        if last - first >= length:
            return True
        at = text.find(cycle, after)
    return False
