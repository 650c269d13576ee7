"""Failures of known kinds, planted into healthy text at a known place. See :mod:`benchmarks.planted`.

A plant takes a host, a place in it and a random source; what it writes replaces the rest of the host, or is
followed by it where the failure passes. Words are the `split_pieces` of the suite.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from stresstest.detectors.text.tokens import split_pieces

DENSE = frozenset({"zh", "ja"})
"""Languages without blanks between words."""

PIECES = dict.fromkeys((*DENSE, "ko", "hi"), 2)
"""Pieces that make a word, where they are single characters."""

LABELS = ("Paragraph {}. ", "{}. ", "Day {}: ", "## {}\n", "({}) ", "Chapter {}\n\n", "§ {} ", "Item {} - ")
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Planted:
    """A text with a failure. first: the character at which it begins; end: the one after it."""

    text: str
    language: str
    first: int
    end: int
    finish_reason: str


@dataclass(frozen=True)
class Host:
    """A healthy text and the language it is in."""

    text: str
    language: str

    @cached_property
    def pieces(self) -> list[str]:
        """Its words, as they stand."""
        return split_pieces(self.text)


class Speech:
    """What the healthy texts of one language are made of: for gibberish that resembles it."""

    def __init__(self, language: str, texts: Sequence[str]) -> None:
        self.language = language
        counts = Counter(word for text in texts for word in _WORD.findall(text))
        self.words: list[str] = sorted(counts)
        self.weights = [counts[word] for word in self.words]
        self.letters = sorted(letter for letter, n in _letters(counts).items() if n >= 20)
        self._known = {word.casefold() for word in self.words}
        self._next: dict[str, Counter[str]] = defaultdict(Counter)
        for word, count in counts.items():
            chain = f"  {word.casefold()}\n"
            for i in range(2, len(chain)):
                self._next[chain[i - 2 : i]][chain[i]] += count

    def invented(self, rng: random.Random) -> str:
        """A word that is none, of trigrams as the language has them."""
        while True:
            word = "  "
            while word[-1] != "\n" and len(word) < 24:
                following = self._next[word[-2:]]
                word += rng.choices(list(following), list(following.values()))[0]
            word = word.strip()
            if len(word) > 1 and word not in self._known:
                return word

    def another(self, rng: random.Random) -> str:
        """A word as often as it is used; two characters where there are no blanks."""
        return rng.choices(self.words, self.weights)[0][: 2 if self.language in DENSE else None]

    def fragment(self, rng: random.Random) -> str:
        """A piece of a word, as a tokenizer cuts it."""
        word = rng.choice(self.words)
        at = rng.randrange(max(1, len(word) - 2))
        return word[at : at + rng.randint(2, 5)]


def _letters(counts: Mapping[str, int]) -> Counter[str]:
    letters: Counter[str] = Counter()
    for word, count in counts.items():
        for letter in word.casefold():
            letters[letter] += count
    return letters


@dataclass(frozen=True)
class Source:
    """What a plant draws from: speech by language."""

    speech: Mapping[str, Speech]


Plant = Callable[[Host, int, random.Random, Source], Planted | None]
"""(host, index of the piece before which the failure begins) → the text, None where it cannot stand."""


def _placed(host: Host, at: int, failure: str, *, lead: str = "", back: bool = False) -> Planted:
    """The host up to the piece at `at`, `lead` (legitimate), the failure; and the rest if it comes back."""
    before = "".join(host.pieces[:at]) + lead
    end = len(before) + len(failure)
    after = "\n\n" + "".join(host.pieces[at:]).lstrip() if back else ""
    return Planted(before + failure + after, host.language, len(before), end, "stop" if back else "length")


def _unit(host: Host, at: int, size: int) -> list[str] | None:
    """The last `size` pieces before `at`, if they say something."""
    unit = host.pieces[at - size : at]
    spoken = sum(piece.strip()[:1].isalpha() for piece in unit)
    return unit if len(unit) == size and spoken >= max(1, size // 2) else None


def loop(period: int, repeated: int, *, back: bool = False) -> Plant:
    """The last `period` pieces again and again, for so many pieces."""

    def plant(host: Host, at: int, rng: random.Random, source: Source) -> Planted | None:
        del rng, source
        unit = _unit(host, at, period)
        if unit is None or host.pieces[at - 1 - period] == unit[-1]:
            return None
        if host.language not in PIECES and (unit[-1][-1:] + unit[0][:1]).isalnum():
            return None  # the copies would grow together into other words
        return _placed(host, at, "".join((unit * (repeated // period + 1))[:repeated]), back=back)

    return plant


def counting(size: int, copies: int, *, back: bool = False) -> Plant:
    """One passage under a heading that counts."""

    def plant(host: Host, at: int, rng: random.Random, source: Source) -> Planted | None:
        del source
        unit = _passage(host, at, size)
        if unit is None:
            return None
        label, first = rng.choice(LABELS), rng.randint(1, 60)
        written = [f"{label.format(first + n)}{''.join(unit).strip()}\n\n" for n in range(copies)]
        lead = f"\n\n{written[0]}"
        return _placed(host, at - size, "".join(written[1:]), lead=lead, back=back)

    return plant


def edited(size: int, words: int, share: float, *, onward: bool = False, one: bool = False) -> Plant:
    """A passage again and again for so many pieces, each copy with a share of its words changed, left out or
    doubled by another; of the passage, or (`onward`) of the copy before. one: a single word changed."""

    def plant(host: Host, at: int, rng: random.Random, source: Source) -> Planted | None:
        unit = _passage(host, at, size * PIECES.get(host.language, 1))
        if unit is None:
            return None
        speech = source.speech[host.language]
        copies, last = [], unit
        for _ in range(max(3, words // size)):
            base = last if onward else unit
            last = _changed(base, speech, rng) if one else _edited(base, share, speech, rng)
            copies.append("".join(last))
        return _placed(host, at, "".join(copies))

    return plant


def _words(unit: list[str]) -> list[str]:
    """Whole words with their blanks, and signs; where there are no blanks, two characters count as one."""
    text = "".join(unit)
    return re.findall(r"[\u3040-\u30ff\u3400-\u9fff]{1,2}|\s*[^\s.,;:!?।。،、！？]+|\s*[^\w\s]|\s+", text)


def _edited(unit: list[str], share: float, speech: Speech, rng: random.Random) -> list[str]:
    out: list[str] = []
    for word in _words(unit):
        kind = rng.randrange(4) if word.strip()[:1].isalpha() and rng.random() < share else -1
        new = _blank(word) + speech.another(rng)
        out += {0: [new], 1: [new], 2: [], 3: [word, new]}.get(kind, [word])
    return out


def _changed(unit: list[str], speech: Speech, rng: random.Random) -> list[str]:
    words = _words(unit)
    spoken = [i for i, word in enumerate(words) if word.strip()[:1].isalpha()]
    at = rng.choice(spoken or range(len(words)))
    return [*words[:at], _blank(words[at]) + speech.another(rng), *words[at + 1 :]]


def _blank(word: str) -> str:
    return word[: len(word) - len(word.lstrip())]


def _passage(host: Host, at: int, size: int) -> list[str] | None:
    """The last `size` pieces before `at`, if they are no list of figures."""
    unit = _unit(host, at, size)
    if unit is None or sum(any(ch.isdigit() for ch in piece) for piece in unit) > size // 10:
        return None
    return unit


def alternating(words: int) -> Plant:
    """Two sentences with a slot each in turn, the slots filled anew."""

    def plant(host: Host, at: int, rng: random.Random, source: Source) -> Planted | None:
        sentences = _sentences(host, at, 2)
        if sentences is None:
            return None
        speech = source.speech[host.language]
        slots = [rng.randrange(2, len(each) - 2) for each in sentences]
        written: list[str] = []
        copies = 0
        while len(written) < words or copies < 4:
            for each, slot in zip(sentences, slots, strict=True):
                piece = each[slot]
                filled = _blank(piece) + speech.another(rng)
                written += [*each[:slot], filled, *each[slot + 1 :]]
            copies += 1
        return _placed(host, at, "".join(written))

    return plant


def circling(sentences: int, words: int) -> Plant:
    """The last few sentences again in ever new order."""
    return _known_again(
        sentences,
        words,
        lambda known, rng: [piece for each in rng.sample(known, len(known)) for piece in each],
    )


def drawn(sentences: int, words: int) -> Plant:
    """The beginnings of the last few sentences, as short sentences of their own, drawn at random."""
    return _known_again(sentences, words, lambda known, rng: [*rng.choice(known)[:_SHORT], "."])


def _known_again(
    sentences: int, words: int, turn: Callable[[list[list[str]], random.Random], list[str]]
) -> Plant:
    """What `turn` makes of the last few sentences, again and again."""

    def plant(host: Host, at: int, rng: random.Random, source: Source) -> Planted | None:
        del source
        known = _sentences(host, at, sentences)
        if known is None:
            return None
        written: list[str] = []
        while len(written) < words:
            written += turn(known, rng)
        return _placed(host, at, "".join(written))

    return plant


_SHORT = 8
"""Pieces of a short sentence."""


def _sentences(host: Host, at: int, count: int) -> list[list[str]] | None:
    """The last so many sentences before `at`, of 6 to 40 pieces each and without figures."""
    found: list[list[str]] = []
    end = at
    while end and not _ends(host.pieces[end - 1]):
        end -= 1
    for _ in range(count):
        first = end - 1
        while first > 0 and not _ends(host.pieces[first - 1]):
            first -= 1
        each = [piece for piece in host.pieces[first:end] if piece != "\n"]
        if first <= 0 or not 6 <= len(each) <= 40 or any(p.strip().isdigit() for p in each):
            return None
        found.insert(0, each if each[0][:1].isspace() else [" " + each[0], *each[1:]])
        end = first
    return found


def _ends(piece: str) -> bool:
    return piece.strip() in {".", "!", "?", "。", "।", "！", "？"}


def flood(few: int, words: int) -> Plant:
    """One word, or a few in random order, for so many words."""

    def plant(host: Host, at: int, rng: random.Random, source: Source) -> Planted | None:
        del source
        known = [p.strip() for p in host.pieces[at - 100 : at] if len(p.strip()) > 1 and p.strip().isalpha()]
        chosen = sorted(set(known))
        if len(chosen) < few:
            return None
        of = rng.sample(chosen, few)
        return _placed(host, at, "".join(f" {rng.choice(of)}" for _ in range(words)))

    return plant


Writer = Callable[[str, random.Random, Source], str | None]
"""(language) → one word of gibberish with the blank before it; None where the kind is none there."""


def gibberish(word: Writer, words: int, *, punctuated: bool = True, back: bool = False) -> Plant:
    """So many words, with the commas and full stops of a text where `punctuated`."""

    def plant(host: Host, at: int, rng: random.Random, source: Source) -> Planted | None:
        written: list[str] = []
        for number in range(words):
            text = word(host.language, rng, source)
            if text is None:
                return None
            drawn = rng.random() if punctuated and number else 1.0
            if drawn < 0.12:
                written[-1] += "," if drawn < 0.06 else "."
                text = text if drawn < 0.06 else " " + text.strip().capitalize()
            written.append(text)
        return _placed(host, at, "".join(written), back=back)

    return plant


def letters(language: str, rng: random.Random, source: Source) -> str | None:
    """Random letters of the language, as long as words."""
    known = source.speech[language].letters
    return None if language in DENSE else " " + "".join(rng.choices(known, k=rng.randint(3, 9)))


def invented(language: str, rng: random.Random, source: Source) -> str | None:
    """Words that are none, of the language's own trigrams."""
    return None if language in {*DENSE, "ko"} else " " + source.speech[language].invented(rng)


def jabber(language: str, rng: random.Random, source: Source) -> str | None:
    """The same among real function words: every third word is one of the language's commonest."""
    if language in {*DENSE, "ko"}:
        return None
    speech = source.speech[language]
    return (
        " " + rng.choices(speech.words, speech.weights)[0].lower()
        if rng.random() < 1 / 3
        else invented(language, rng, source)
    )


def fragments(language: str, rng: random.Random, source: Source) -> str | None:
    """Pieces of words, glued and apart."""
    blank = " " if rng.random() < 0.5 else ""
    return None if language in {*DENSE, "ko"} else blank + source.speech[language].fragment(rng)


def scripts(language: str, rng: random.Random, source: Source) -> str | None:
    """Words of all languages."""
    del language
    speech = source.speech[rng.choice(sorted(source.speech))]
    return " " + rng.choice(speech.words)[:12]


def mojibake(language: str, rng: random.Random, source: Source) -> str | None:
    """UTF-8 read as Latin-1."""
    speech = source.speech[language]
    word = rng.choices(speech.words, speech.weights)[0]
    return None if language in {"en", "id"} else " " + word.encode().decode("latin-1")


def salad(language: str, rng: random.Random, source: Source) -> str | None:
    """Real words, drawn from the vocabulary."""
    return None if language in DENSE else " " + rng.choice(source.speech[language].words)


def frequent(language: str, rng: random.Random, source: Source) -> str | None:
    """Real words, drawn as often as they are used."""
    speech = source.speech[language]
    return None if language in DENSE else " " + rng.choices(speech.words, speech.weights)[0]


def dead(language: str, rng: random.Random, source: Source) -> str | None:
    """Three letters only, in words."""
    known = source.speech[language].letters[:3]
    return None if language in DENSE else " " + "".join(rng.choices(known, k=rng.randint(2, 10)))


def noise(language: str, rng: random.Random, source: Source) -> str | None:
    """Signs, figures and letters at random."""
    del language, source
    signs = "!\"#$%&'()*+,-./:;<=>?@[]^_{|}~§°0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return " " + "".join(rng.choices(signs, k=rng.randint(2, 9)))


def replaced(language: str, rng: random.Random, source: Source) -> str | None:
    """Words with replacement characters in them."""
    speech = source.speech[language]
    word = rng.choices(speech.words, speech.weights)[0]
    at = rng.randrange(len(word) + 1)
    return f" {word[:at]}\ufffd{word[at:]}"
