"""Texts with a known truth about their language: answers that switch at a known sentence, and healthy ones
that hold foreign matter. Composed of sentences of real answers; see `planted_language.py`."""

from __future__ import annotations

import json
import random
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.language import digest
from stresstest.detectors.text.scripts import weighted_length
from stresstest.detectors.text.segments import TextSegmenter, TextSpan
from stresstest.model import Token

LEAST, MOST = 25, 500
"""Size of the sentences that texts are made of."""
SHORT, LINE = 3, 90
"""Sentences that an answer must have for one of them to be replaced, by one of at most this size."""
_UNSPACED = ("zh", "ja")
_STOPS = ".!?…؟।۔。！？｡"
_MARKS = frozenset('"«»“”„「」『』`*_#|<>[]{}\\\n')
_REGISTERS = ("narrative", "technical")
GRAMMARS = ("it", "en", "fr", "de", "es", "pt")
"""Languages of the simulator."""

Pool = Mapping[str, Sequence[str]]
"""Language → sentences, those of one answer one after the other."""


@dataclass(frozen=True, slots=True)
class Planted:
    """starts: where each sentence begins (characters). at: the first foreign sentence's index."""

    text: str
    starts: tuple[int, ...]
    at: int


def sentences(texts: Iterable[str]) -> list[str]:
    """Whole sentences of plain prose: no list items, headings, quotations or code."""
    found: list[str] = []
    for text in texts:
        for span in _spans(text):
            one = span.text
            plain = one[0].isalpha() and one[-1] in _STOPS and _MARKS.isdisjoint(one)
            if plain and LEAST <= weighted_length(one) <= MOST:
                found.append(one)
    return found


def right_answers(
    corpus: Iterable[dict[str, Any]], corrected: Mapping[tuple[str, str, str], str], part: int | None = None
) -> dict[str, list[str]]:
    """Language → answers labelled good, and not corrected since. part: one half of them, 0 or 1."""
    texts: dict[str, list[str]] = {}
    for row in corpus:
        known = digest(row["response"])
        wrong = (row["model"], row["language"], known) in corrected
        if row["label"] == "good" and not wrong and part in (None, int(known, 16) % 2):
            texts.setdefault(row["language"], []).append(row["response"])
    return dict(sorted(texts.items()))


def real_sentences(
    corpus: Iterable[dict[str, Any]], corrected: Mapping[tuple[str, str, str], str], part: int | None = None
) -> dict[str, list[str]]:
    """The sentences of `right_answers`."""
    texts = right_answers(corpus, corrected, part)
    return {language: sentences(answered) for language, answered in texts.items()}


def simulated_sentences(number: int, seed: str) -> dict[str, list[str]]:
    """Sentences of the simulator's grammars."""
    from stresstest.simulation.engine.writing.composer import SentenceComposer

    made = {}
    for language in GRAMMARS:
        composer = SentenceComposer(language, random.Random(f"{seed} {language}"))
        made[language] = [composer.sentence(_REGISTERS[i % 2]) for i in range(number)]
    return made


def run(pool: Sequence[str], number: int, rng: random.Random) -> list[str]:
    """`number` sentences that follow one another, from a random place."""
    at = rng.randrange(len(pool))
    return [pool[(at + i) % len(pool)] for i in range(number)]


def joined(parts: Sequence[str], between: Sequence[str]) -> tuple[str, tuple[int, ...]]:
    """The parts with `between[i]` before part i, and where each begins, with its bullet, label or key."""
    text, starts = "", []
    for part, gap in zip(parts, between, strict=True):
        starts.append(len(text) + len(gap) - len(gap.lstrip("}],，\n ")))
        text += gap + part
    return text, tuple(starts)


def _space(language: str) -> str:
    return "" if language in _UNSPACED else " "


def _prose(parts: list[str], tongues: list[str], rng: random.Random) -> tuple[str, tuple[int, ...]]:
    gaps = ["\n\n" if rng.random() < 0.2 else _space(tongue) for tongue in tongues]
    return joined(parts, ["", *gaps[1:]])


def _listed(parts: list[str], tongues: list[str], rng: random.Random) -> tuple[str, tuple[int, ...]]:
    del tongues
    numbered = rng.random() < 0.5
    return joined(parts, [f"\n{i}. " if numbered else "\n- " for i in range(1, len(parts) + 1)])


def _dialogue(parts: list[str], tongues: list[str], rng: random.Random) -> tuple[str, tuple[int, ...]]:
    del tongues
    one, other = rng.choice([("Anna: ", "Marco: "), ("– ", "– "), ("— ", "— "), ("A: ", "B: ")])
    return joined(parts, [f"\n{other if i % 2 else one}" for i in range(len(parts))])


def _values(parts: list[str], tongues: list[str], rng: random.Random) -> tuple[str, tuple[int, ...]]:
    del tongues
    key = rng.choice(["text", "description", "review"])
    quoted = [json.dumps(part, ensure_ascii=False)[1:-1] for part in parts]
    gaps = [f'{"[" if not i else "},"}\n {{"id": {i + 1}, "{key}": "' for i in range(len(parts))]
    text, starts = joined([f'{part}"' for part in quoted], gaps)
    return text + "}\n]", starts


def _unstopped(parts: list[str], tongues: list[str], rng: random.Random) -> tuple[str, tuple[int, ...]]:
    del rng
    bare = [part.rstrip(_STOPS) for part in parts]
    gaps = [("，" if tongue in _UNSPACED else " ") for tongue in tongues]
    return joined(bare, ["", *gaps[1:]])


SHAPES: Mapping[str, Callable[[list[str], list[str], random.Random], tuple[str, tuple[int, ...]]]] = {
    "prose": _prose,
    "list": _listed,
    "dialogue": _dialogue,
    "JSON values": _values,
    "no full stops": _unstopped,
}


def planted(pool: Pool, wanted: str, other: str, shape: str, rng: random.Random) -> Planted:
    """An answer in `wanted` that goes on in `other` from a known sentence: to its end, or for three."""
    before = rng.randint(2, 20)
    foreign = rng.randint(3, 12)
    after = rng.randint(3, 10) if rng.random() < 0.5 else 0
    parts = [*run(pool[wanted], before, rng), *run(pool[other], foreign, rng), *run(pool[wanted], after, rng)]
    tongues = [wanted] * before + [other] * foreign + [wanted] * after
    text, starts = SHAPES[shape](parts, tongues, rng)
    return Planted(text, starts, before)


def whole(texts: Pool, wanted: str, other: str, rng: random.Random) -> Planted:
    """Whole answers with all their lists, headings and codes, and then whole ones in `other`; what was cut
    off at the end is left out."""
    before = "\n\n".join(_complete(rng.choice(texts[wanted])) for _ in range(rng.randint(1, 4)))
    after = "\n\n".join(_complete(rng.choice(texts[other])) for _ in range(rng.randint(2, 4)))
    return _cut_at(before + "\n\n" + after, len(before) + 2)


def single(texts: Pool, pool: Pool, wanted: str, other: str, rng: random.Random) -> Planted:
    """A short answer in which one sentence, not the first, stands in `other`."""
    spans: list[TextSpan] = []
    while len(spans) < SHORT:
        text = rng.choice(texts[wanted])
        spans = _spans(text)
    span = rng.choice(spans[1:])
    said = rng.choice([one for one in pool[other] if weighted_length(one) <= LINE])
    return _cut_at(text[: span.start] + said + text[span.end :], span.start)


def _spans(text: str) -> list[TextSpan]:
    feed = TextSegmenter()
    feed.update(Token(text))
    feed.close()
    return feed.sentences


def _cut_at(text: str, at: int) -> Planted:
    """A text whose foreign part begins at a character."""
    starts = tuple(span.start for span in _spans(text))
    return Planted(text, starts, bisect_left(starts, at))


def _complete(text: str) -> str:
    """An answer up to its last whole sentence or line."""
    feed = TextSegmenter()
    feed.update(Token(text))
    ends = [span.end for span in feed.sentences]
    return text[: ends[-1]].strip() if ends else text.strip()
