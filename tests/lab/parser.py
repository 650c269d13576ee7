"""The oracle: where a lab model's text stops being what its grammar can say.

Independent of the project's detectors (nothing of `stresstest` is imported). Every sentence is
parsed against the grammar; it is *bad* if it fails to parse, parses in another language, stands in
a wrongly numbered unit, or repeats an earlier run. The *true onset* is the first bad sentence of
the first stretch in which 3 of 5 consecutive sentences are bad.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate

from tests.lab.grammar import LANGUAGES, TASKS, Part, load

WINDOW, ENOUGH = 5, 3
LONGEST_SENTENCE = 240
"""No sentence of the grammar is longer; a longer one counts once for every `RUN_ON` characters."""
RUN_ON = 120

_LABELS = {(lang, task): load(lang).labels[task] for lang in LANGUAGES for task in TASKS}
_LABEL = re.compile(f"({'|'.join(sorted(_LABELS.values(), key=len, reverse=True))}) (\\d+)\\.(?= |$)")
_LINE = re.compile(r"[^\n]+")
_SENTENCE = re.compile(r"[^\s.][^.]*\.?|\.")


@dataclass(frozen=True)
class Sentence:
    """One sentence and the verdict on it."""

    start: int
    """First character, in the whole text; the label's if the sentence is its unit's first."""
    end: int
    text: str
    unit: int | None
    """The number its unit carries."""
    language: str | None
    """The language it parses in, `None` if in none."""
    reason: str | None
    """Why it is bad: malformed, language, numbering, repeat, truncation; `None` if it is good."""
    whole: bool = True
    """False for a last sentence that the text's end cut."""


@dataclass(frozen=True)
class Onset:
    """Where a text begins to be degenerate."""

    char: int
    sentence: int
    unit: int | None
    reason: str


@dataclass(frozen=True)
class Report:
    """All sentences of a text and the onset."""

    sentences: tuple[Sentence, ...]
    onset: Onset | None

    def before_onset(self) -> tuple[Sentence, ...]:
        """The sentences in front of the onset, or all of them."""
        return self.sentences[: self.onset.sentence] if self.onset else self.sentences

    def reasons(self) -> Counter[str]:
        """Bad sentences by reason."""
        return Counter(s.reason for s in self.sentences if s.reason)

    def explain(self, text: str, context: int = 2) -> str:
        """The sentences around the onset, each with its verdict: for people."""
        at = self.onset.sentence if self.onset else len(self.sentences)
        rows = self.sentences[max(0, at - context) : at + WINDOW]
        return "\n".join(f"{(s.reason or 'ok'):10} {text[s.start : s.end]!r}" for s in rows)


def _pattern(language: str, parts: tuple[Part, ...]) -> str:
    slots = load(language).slots
    out = []
    for is_slot, value in parts:
        if is_slot:
            out.append("(?:" + "|".join(_pattern(language, entry) for entry in slots[value]) + ")")
        else:
            out.append(re.escape(value))
    return "".join(out)


@lru_cache
def _templates(language: str, task: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(_pattern(language, parts)) for parts in load(language).templates[task])


@lru_cache(maxsize=65536)
def parses(sentence: str, language: str, task: str) -> bool:
    """Whether the grammar can say exactly this sentence, capital letter and full stop included."""
    if not sentence[:1].isupper():
        return False
    lowered = sentence[0].lower() + sentence[1:]
    return any(t.fullmatch(sentence) or t.fullmatch(lowered) for t in _templates(language, task))


def _language_of(sentence: str, language: str, task: str) -> str | None:
    if parses(sentence, language, task):
        return language
    others = (lang for lang in LANGUAGES if lang != language)
    return next((lang for lang in others for t in TASKS if parses(sentence, lang, t)), None)


def _split(text: str, language: str, task: str, first: int | None) -> list[Sentence]:
    """Sentences with everything but repeats judged. A unit is a line."""
    sentences: list[Sentence] = []
    expected = first
    numbered: bool | None = None
    for line in _LINE.finditer(text):
        label = _LABEL.match(line[0])
        if numbered is None:
            numbered = label is not None
        number = int(label[2]) if label else None
        wrong = _unit_fault(label, _LABELS[language, task], expected, numbered)
        if number is not None:
            expected = number + 1
        body_at = label.end() if label else 0
        pieces = [(m.start(), m.end()) for m in _SENTENCE.finditer(line[0], body_at)]
        if not pieces:  # a label alone
            pieces = [(body_at, body_at)]
        for index, (start, end) in enumerate(pieces):
            body = line[0][start:end]
            spoken = _language_of(body, language, task)
            fault = "malformed" if spoken is None else "language" if spoken != language else None
            begins = line.start() + (0 if index == 0 else start)
            sentences.append(Sentence(begins, line.start() + end, body, number, spoken, fault or wrong))
            sentences += _run_on(sentences[-1])
    return sentences


def _unit_fault(label: re.Match[str] | None, word: str, expected: int | None, numbered: bool) -> str | None:
    """What is wrong with a unit's label, or with its being there."""
    if label is None:
        return "numbering" if numbered else None
    if label[1] != word:
        return "language"
    if not numbered or (expected is not None and int(label[2]) != expected):
        return "numbering"
    return None


def _run_on(sentence: Sentence) -> list[Sentence]:
    """The further pieces that an endless sentence counts as."""
    if len(sentence.text) <= LONGEST_SENTENCE:
        return []
    body_at = sentence.end - len(sentence.text)
    pieces = []
    for at in range(body_at + RUN_ON, sentence.end - RUN_ON // 2, RUN_ON):
        piece = sentence.text[at - body_at :][:RUN_ON]
        pieces.append(replace(sentence, start=at, end=at + len(piece), text=piece))
    return pieces


def _mark_repeats(sentences: list[Sentence]) -> list[Sentence]:
    """Mark runs of two or more sentences that occurred before, and sentences said twice running."""
    texts = [s.text for s in sentences]
    seen: set[tuple[str, str]] = set()
    repeated: set[int] = set()
    for i, text in enumerate(texts[1:], 1):
        if text == texts[i - 1]:
            repeated.add(i)
        pair = (texts[i - 1], text)
        if pair in seen:
            repeated |= {i - 1, i}
        seen.add(pair)
    return [
        replace(s, reason="repeat") if i in repeated and s.reason is None else s
        for i, s in enumerate(sentences)
    ]


def parse(text: str, language: str, task: str, *, ended: bool = False, first: int | None = 1) -> Report:
    """Judge a text.

    `ended`: the model stopped by itself, so a cut last sentence is its fault (truncation);
    otherwise the token cap cut it and it is not judged. `first`: the number the first unit must
    carry, `None` for a text that begins in the middle.
    """
    sentences = _split(text, language, task, first)
    cut = bool(sentences) and not (sentences[-1].text and text.rstrip().endswith("."))
    if cut and not ended and len(sentences[-1].text) <= LONGEST_SENTENCE:
        sentences[-1] = replace(sentences[-1], reason=None, whole=False)
    elif cut and ended:
        sentences[-1] = replace(sentences[-1], reason="truncation", whole=False)
    sentences = _mark_repeats(sentences)
    return Report(tuple(sentences), _onset(sentences))


def _onset(sentences: list[Sentence]) -> Onset | None:
    bad = [s.reason is not None for s in sentences]
    for i, s in enumerate(sentences):
        truncated = s.reason == "truncation"
        if s.reason and (truncated or sum(bad[i : i + WINDOW]) >= ENOUGH):
            return Onset(s.start, i, s.unit, s.reason)
    return None


def true_onset(
    text: str, language: str, task: str, *, ended: bool = False, first: int | None = 1
) -> Onset | None:
    """The onset of degeneration by the grammar, or `None` if the text is healthy."""
    return parse(text, language, task, ended=ended, first=first).onset


def token_index_of_char(tokens: Sequence[str], char: int) -> int:
    """1-based index of the token that holds character `char` of the tokens' concatenation.

    Empty tokens hold nothing. Raises IndexError past the end.
    """
    ends = list(accumulate(len(t) for t in tokens))
    if not 0 <= char < (ends[-1] if ends else 0):
        raise IndexError(f"character {char} of {ends[-1] if ends else 0}")
    return bisect_right(ends, char) + 1
