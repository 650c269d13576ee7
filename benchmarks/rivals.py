"""What others use to notice repetition, re-stated from their published descriptions.

Each rival takes the words of an output (`text_tokens`) and its text, and answers where it would have
spoken: the number of words it had read, 0 for "not at all". Rules that judge a whole text answer with its
length. None of the rivals says where the degeneration began; for those that stop a generation, the place
where they stop stands in for it.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Rule = Callable[[Sequence[str], str], int]


@dataclass(frozen=True)
class Rival:
    """online: it can be asked while the text is written, and its answer is a place."""

    name: str
    source: str
    rule: Rule
    online: bool = False


def has_repeating_tail(ids: Sequence[int], smallest: int, largest: int, count: int) -> bool:
    """Whether the tail is `count` adjacent copies of a pattern of smallest..largest tokens.

    The semantics of vLLM's `check_sequence_repetition` (vllm/v1/core/sched/utils.py): it tries every
    pattern length from scratch at every token.
    """
    end = len(ids)
    for size in range(smallest, largest + 1):
        if size * count > end:
            return False
        span = size * (count - 1)
        if ids[end - 1] == ids[end - 1 - size] and all(
            ids[i] == ids[i - size] for i in range(end - 1, end - 1 - span, -1)
        ):
            return True
    return False


def vllm(smallest: int, largest: int, count: int) -> Rule:
    """The first token at which `has_repeating_tail` would be true, all tokens at once."""

    def rule(words: Sequence[str], text: str) -> int:
        del text
        codes: dict[str, int] = {}
        ids = np.array([codes.setdefault(word.strip(" \t"), len(codes)) for word in words], dtype=np.int32)
        first = 0
        for size in range(smallest, min(largest, len(ids) // count) + 1):
            span = size * (count - 1)
            broken = np.flatnonzero(ids[size:] != ids[:-size])
            edges = np.concatenate(([-1], broken, [len(ids) - size]))
            long = np.flatnonzero(np.diff(edges) > span)
            if len(long):
                at = int(edges[long[0]]) + 1 + span + size
                first = min(first or at, at)
        return first

    return rule


def ollama(words: Sequence[str], text: str) -> int:
    """More than 30 times the same chunk in a row, white space stripped (ollama, runner)."""
    del text
    same, last = 0, ""
    for n, word in enumerate(words, 1):
        chunk = word.strip()
        same = same + 1 if chunk == last else 0
        last = chunk
        if same > 30:
            return n
    return 0


def olmocr(words: Sequence[str], text: str) -> int:
    """The text ends in more than 30 copies of one to five characters (olmOCR, repeatdetect.py)."""
    tail = re.sub(r"\s+", " ", text[-2000:])
    for size in range(1, 6):
        target, count, at = tail[-size:], 1, len(tail) - 2 * size
        while target and at >= 0 and tail[at : at + size] == target:
            count, at = count + 1, at - size
        if count > 30:
            return len(words)
    return 0


def dharma(words: Sequence[str], text: str) -> int:
    """The last 15 characters stand at least four times in the text (DharmaOCR); without its second
    condition, that the cap was reached, which these outputs do not tell."""
    tail = text[-15:]
    return len(words) if tail and text.count(tail) >= 4 else 0


def whisper(words: Sequence[str], text: str) -> int:
    """zlib compresses the text to less than 1/2.4 (Whisper, compression_ratio_threshold)."""
    raw = text.encode()
    return len(words) if raw and len(raw) / len(zlib.compress(raw)) > 2.4 else 0


def distinct(words: Sequence[str], text: str) -> int:
    """Less than half of the four-grams are distinct (distinct-4 of Li et al. 2016; the bound is ours)."""
    del text
    grams = list(zip(*(words[i:] for i in range(4)), strict=False))
    return len(words) if len(grams) >= 48 and len(set(grams)) < 0.5 * len(grams) else 0


_TOP = {2: 0.20, 3: 0.18, 4: 0.16}
_DUPLICATE = {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}


def gopher(words: Sequence[str], text: str) -> int:
    """The repetition rules of MassiveText (Rae et al. 2021, table A1): shares of duplicate lines and
    paragraphs, of the most frequent 2- to 4-gram and of all duplicate 5- to 10-grams, in characters."""
    size = len(text) or 1
    for separator in ("\n", "\n\n"):
        pieces = [piece.strip() for piece in text.split(separator) if piece.strip()]
        seen = Counter(pieces)
        again = len(pieces) - len(seen)
        characters = sum(len(piece) * (count - 1) for piece, count in seen.items())
        if pieces and (again / len(pieces) > 0.30 or characters / size > 0.20):
            return len(words)
    plain = text.split()
    for n, most in _TOP.items():
        grams = Counter(zip(*(plain[i:] for i in range(n)), strict=False))
        if grams:
            gram, count = max(grams.items(), key=lambda item: item[1])
            if count > 1 and count * sum(map(len, gram)) / size > most:
                return len(words)
    return len(words) if any(_duplicated(plain, n) / size > most for n, most in _DUPLICATE.items()) else 0


def _duplicated(words: Sequence[str], n: int) -> int:
    """Characters in n-grams that stood before, none counted twice."""
    seen: set[tuple[str, ...]] = set()
    total, at = 0, 0
    while at <= len(words) - n:
        gram = tuple(words[at : at + n])
        if gram in seen:
            total += sum(map(len, gram))
            at += n
        else:
            seen.add(gram)
            at += 1
    return total


RIVALS = (
    Rival("vLLM 1..20 ×3", "repetition_detection", vllm(1, 20, 3), online=True),
    Rival("vLLM 4..128 ×4", "repetition_detection", vllm(4, 128, 4), online=True),
    Rival("vLLM 16..2048 ×3", "repetition_detection", vllm(16, 2048, 3), online=True),
    Rival("Ollama", "same chunk more than 30 times", ollama, online=True),
    Rival("olmOCR", "repeatdetect", olmocr),
    Rival("DharmaOCR", "text rule without the cap", dharma),
    Rival("Whisper", "zlib ratio above 2.4", whisper),
    Rival("Gopher", "repetition rules", gopher),
    Rival("distinct-4", "below 0.5", distinct),
)
