"""Prompt echo: the answer says what the prompt says, and hardly anything else.

The answer's words are followed through the prompt: three in a row that stand there open an echo, which goes
on while the words that follow are the prompt's next ones; a few others in between are forgiven. It is
complete once it holds most of the prompt: of its words, of what stands before its first colon, quotation or
line break, and of its last line. That tells an instruction given back from a text given back as the
instruction asks, when it is to be corrected, rewritten or quoted.

A complete echo is proof when it comes again at once, or when the answer ends with hardly a word after it. An
answer that repeats its question and then answers is healthy. Without a prompt, or with one of a few words,
the detector is silent.

Words are followed only near places where a few words of the prompt stand as they stand there. These are
looked for in blocks of tokens, so that most answers cost no more than that.
"""

from __future__ import annotations

import re
from collections import deque
from itertools import islice

from stresstest.detectors.entry import NATURAL_FINISH_REASONS, DetectorSpec, ScreenBatch, Suspicion
from stresstest.detectors.text.tokens import WORD, WordAssembler, normalize_word
from stresstest.model import Symptom, SymptomKind, Token

MIN_PROMPT_WORDS, MAX_PROMPT_WORDS = 12, 2000
"""Words of a prompt that can be echoed. A shorter one may be restated in passing; a longer one is mostly a
document."""
MAX_PROMPT_CHARS = 20_000
GRAM_WORDS = 3
"""Words in a row that open an echo."""
MAX_GAP_WORDS = 12
"""Words that are not the prompt's next ones after which the echo has ended."""
NEARBY_SHARE = 0.25
"""Share of the prompt within which an echo may go back; further back another one begins."""
ECHOED_SHARE = 0.6
"""Share of the prompt's words that a complete echo has."""
MIN_EDGE_SHARE = 0.5
"""Share of the words before the prompt's first colon, quotation or line break, and of its last line, that a
complete echo has."""
MAX_EDITED_SHARE, MAX_ANSWER_SHARE = 0.2, 0.05
"""Words of its own that an echo may have in between, and must stay below behind it, as shares of the echoed
ones: a question of twenty words that one more word answers is answered."""
MAX_COPIES, MIN_COPIED_WORDS = 2, 30
"""Complete echoes, one after the other, that no answer follows, and the words that they need: an answer to a
question of twelve words may say it twice ("No, it is not true that … The idea that …")."""
OPEN_WORDS = 10
"""Echoed words from which on an echo may become one."""
_BREAK = re.compile(r"\n|<br\b")
_EDGE = re.compile(rf"[:\"“„«]|{_BREAK.pattern}")
_PROBES, _PROBE_WORDS = 8, 4
"""Phrases of the prompt that are looked for, evenly spaced, and the words of each."""
_BLOCK = 128
"""Tokens in which they are looked for at once."""
_REACH = 4
"""Tokens before such a place, for each word of the prompt, in which an echo may have begun."""


class _Prompt:
    """The words of a prompt, where three of them stand in a row, and its two edges, as sets of places."""

    def __init__(self, text: str) -> None:
        found = list(WORD.finditer(text))
        self.words = [normalize_word(match.group()).text for match in found]
        self._places: dict[tuple[str, ...], list[int]] = {}
        for place in range(len(self.words) - GRAM_WORDS + 1):
            self._places.setdefault(tuple(self.words[place : place + GRAM_WORDS]), []).append(place)
        edge = _EDGE.search(text, len(text) - len(text.lstrip()))
        head = len(text) if edge is None else edge.start()
        last = max((match.end() for match in _BREAK.finditer(text.rstrip())), default=0)
        self._edges = (
            {n for n, match in enumerate(found) if match.start() < head},
            {n for n, match in enumerate(found) if match.start() >= last},
        )

    def place_of(self, gram: tuple[str, ...], after: int) -> int | None:
        """The next place of three words in a row, else their first; None if they do not stand there."""
        places = self._places.get(gram)
        return None if places is None else next((place for place in places if place >= after), places[0])

    def is_echoed(self, places: set[int]) -> bool:
        """Whether these places are most of the prompt and of its edges."""
        return len(places) >= ECHOED_SHARE * len(self.words) and all(
            len(places & edge) >= MIN_EDGE_SHARE * len(edge) for edge in self._edges
        )


class PromptEchoDetector:
    """Online detector of `prompt_echo`; its alarms come at the ends of blocks."""

    def __init__(self, spec: DetectorSpec) -> None:
        self._probes = _probes(spec.prompt_text)
        self._prompt = _Prompt(spec.prompt_text) if self._probes else None
        self._reader = WordAssembler()
        self._texts: list[str] = []
        self._read = 0
        self._recent: deque[tuple[str, int]] = deque(maxlen=GRAM_WORDS)
        self._first = self._copies = self._said = self._own = 0
        self._next = self._gap = 0
        self._echoed: set[int] = set()
        self._symptoms: list[Symptom] = []

    @property
    def open_from(self) -> int | None:
        """First token of an echo that may yet be one."""
        opened = self._said >= OPEN_WORDS and not self._symptoms
        return self._first if opened else None

    def update(self, token: Token) -> None:
        texts = self._texts
        texts.append("" if token.reasoning else token.text)
        if not len(texts) % _BLOCK and self._prompt is not None and not self._symptoms:
            self._take_block(self._prompt)

    def finish(self, finish_reason: str | None) -> None:
        """An answer that ended by itself after an echo said nothing else."""
        if self._prompt is None or self._symptoms:
            return
        self._take_block(self._prompt)
        self._reader.update("\n", len(self._texts), self._take_word)  # the last word is whole
        if finish_reason in NATURAL_FINISH_REASONS:
            if self._copies and self._is_hardly_edited and self._gap < MAX_ANSWER_SHARE * self._said:
                self._report()
            else:
                self._forget()

    def symptoms(self) -> list[Symptom]:
        return list(self._symptoms)

    def _take_block(self, prompt: _Prompt) -> None:
        """Read the texts since the last block, and those before where an echo may have begun."""
        if not self._first:
            seen = "".join(self._texts[max(self._read - _BLOCK, 0) :])
            if not any(probe in seen for probe in self._probes):
                self._read = len(self._texts)
                return
            self._read = max(self._read - _REACH * len(prompt.words), 0)
            self._reader.discard_pending()
            self._recent.clear()
        for position in range(self._read, len(self._texts)):
            self._reader.update(self._texts[position], position + 1, self._take_word)
        self._read = len(self._texts)

    def _take_word(self, word: str, position: int) -> None:
        prompt = self._prompt
        if prompt is None or self._symptoms:
            return
        text = normalize_word(word).text
        self._recent.append((text, position))
        following = self._next
        if self._first and following < len(prompt.words) and prompt.words[following] == text:
            self._on_echo(prompt, range(following, following + 1))
            return
        # Inserted words have moved the next place ahead, and phrases recur nearby.
        near = following - self._gap - int(NEARBY_SHARE * len(prompt.words))
        place = prompt.place_of(tuple(each for each, _ in self._recent), near)
        if place is not None:
            self._first = self._first or self._recent[0][1]
            if place < near:
                self._end_copy()
            self._own = max(self._own - GRAM_WORDS + 1, 0)  # the first two words of the three
            self._on_echo(prompt, range(place, place + GRAM_WORDS))
        elif self._first:
            self._on_own_word()

    def _on_echo(self, prompt: _Prompt, places: range) -> None:
        self._said += len(places)
        self._next, self._gap = places.stop, 0
        known = prompt.is_echoed(self._echoed)
        self._echoed.update(places)
        if not known and prompt.is_echoed(self._echoed):
            self._copies += 1
            if self._copies >= MAX_COPIES and self._said >= MIN_COPIED_WORDS and self._is_hardly_edited:
                self._report()

    @property
    def _is_hardly_edited(self) -> bool:
        """Whether the words in between are few: a title and a docstring that restate the task have more."""
        return self._own - self._gap <= MAX_EDITED_SHARE * self._said

    def _on_own_word(self) -> None:
        self._own += 1
        self._gap += 1
        self._next += 1  # a word was exchanged
        if self._gap >= MAX_GAP_WORDS:
            self._end_copy()
        if self._own > max(self._said, MAX_GAP_WORDS):
            self._forget()  # an answer followed

    def _end_copy(self) -> None:
        self._next = 0
        self._echoed.clear()

    def _forget(self) -> None:
        self._first = self._copies = self._said = self._own = self._gap = 0
        self._end_copy()

    def _report(self) -> None:
        self._symptoms.append(
            Symptom(
                kind=SymptomKind.PROMPT_ECHO,
                onset=self._first,
                alarm=len(self._texts),
                score=1.0,
                detail={"words": self._said, "own": self._own},
                summary=f"{self._said} words give the prompt back, and {self._own} say anything else",
            )
        )


def suspect_echoes(batch: ScreenBatch) -> list[Suspicion | None]:
    """The texts in which a few words of their prompt stand as they stand there."""
    return [
        Suspicion(text) if any(probe in text for probe in _probes(prompt)) else None
        for text, prompt in zip(batch.texts, batch.prompts, strict=True)
    ]


def _probes(prompt: str) -> list[str]:
    """Phrases of a prompt that can be echoed, as they stand there; none of one that is too short or long."""
    if len(prompt) > MAX_PROMPT_CHARS:
        return []
    words = list(islice(re.finditer(r"\S+", prompt), MAX_PROMPT_WORDS + 1))
    if not MIN_PROMPT_WORDS <= len(words) <= MAX_PROMPT_WORDS:
        return []
    last = len(words) - _PROBE_WORDS
    places = sorted({last * n // (_PROBES - 1) for n in range(_PROBES)})
    return [prompt[words[n].start() : words[n + _PROBE_WORDS - 1].end()] for n in places]
