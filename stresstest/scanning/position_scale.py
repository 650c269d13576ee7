"""From the suite's positions to the scales that people use: characters, words, the model's tokens.

The record's own tokens are exact; a tokenizer's are exact for its model; `completion_tokens` spread over
the text by its bytes is an estimate (byte-level vocabularies are near it), where the text can have so many,
and no later than the healthy answers of the log have it: a flood of signs has more tokens a byte than what
was written before it. An empty answer has none, whatever was counted; else only words are known.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

from stresstest.config.foreign_files import read_file
from stresstest.detectors.text.features import piece_count
from stresstest.detectors.verdict import PositionMap
from stresstest.errors import UsageError
from stresstest.model import GenerationVerdict
from stresstest.model.scanned import Extent
from stresstest.model.tokens import MIN_UNSEEN_TOKENS
from stresstest.records import Record
from stresstest.records.record import utf8_size
from stresstest.scanning.densities import Neighbours, bytes_a_token
from stresstest.scanning.running_counts import are_running_sums

_NUMBER = re.compile(r"(\d+(?:[.,]\d+)?)\s*([kKmM]?)(?![a-zA-Z0-9])")
_LONGEST_VALUE = 200
"""Characters of a value in which its number is looked for: the time is their square."""

_PIECE = re.compile(r"[A-Z]?[a-z]{1,3}|[^a-z ]| (?= )")
_PIECES_A_TOKEN = 0.8
"""Measured with the poorest tokenizer at hand (SmolLM2's, English, 49,000 tokens): 1,878 long outputs have
at most 0.92 tokens a piece, 7,106 short ones in 15 languages 1.18 (0.81 beyond the 64), random base64 1.19.
English prose that lost half of its text has 1.45 to 1.48. A smaller loss is not seen."""
_MAX_TOKENIZER = 256 * 1024 * 1024
"""Bytes of a tokenizer.json; large vocabularies have 35 MB."""
_MOST_GROWTH = 1_000.0
"""Of a text by replacements; a few that put one sign for what a pattern matches make it 8 or 16."""
_LONGEST_ANSWER = 200_000
"""Tokens beyond which a count that its text cannot hold is another number in the wrong column."""
_PLAUSIBLE_BYTES = 4
ESTIMATE = "estimate"
"""The source of positions that a count is spread over."""
SUMS = "sums"
"""The source of counts that are no answer's."""
_OTHER_TOKENIZER = 0.25


def needs_text_positions(record: Record, verdict: GenerationVerdict, tokenizer: str | None) -> bool:
    """Whether positions have to be found in the text: an onset, or an open end on a scale of its own."""
    if verdict.degenerate:
        return True
    other = tokenizer is not None or record.completion_tokens is not None
    return other and verdict.observed < verdict.tokens


def counts_are_sums(records: Sequence[Record], verdicts: Sequence[GenerationVerdict]) -> bool:
    """Whether the counts of the healthy answers in one script are sums of running counts. Answers whose text
    is not whole do not tell."""
    found: dict[int, list[tuple[int, int]]] = {}
    for record, verdict in zip(records, verdicts, strict=True):
        text, count = record.reasoning + record.text, record.completion_tokens
        whole = record.has_text and record.hole is None and record.tokens is None
        if count and text and whole and not verdict.degenerate:
            size = utf8_size(text)
            found.setdefault(round(size / len(text)), []).append((count, size))
    return any(are_running_sums(*zip(*each, strict=True)) for each in found.values())


@dataclass(frozen=True, slots=True)
class PositionScale:
    """Of one record. ends: characters up to and with each position of the suite. skip: of the reasoning.

    known: the answer's tokens in all, where that is all there is. offsets: characters at which a tokenizer's
    tokens begin. source "empty": nobody counted, and there is nothing to count. is_overcounted: the text
    is too short for its tokens: the log cut it, or left reasoning or special tokens out. neighbours: of the
    log's healthy answers.
    """

    text: str
    ends: Sequence[int]
    skip: int
    source: str | None
    known: int | None = None
    offsets: Sequence[int] | None = None
    worded: bool = True
    is_overcounted: bool = False
    neighbours: Neighbours = field(default_factory=Neighbours)

    @classmethod
    def of(
        cls,
        record: Record,
        ends: Sequence[int],
        tokenizer: str | None,
        neighbours: Neighbours | None = None,
    ) -> PositionScale:
        """The best scale that this record has."""
        text = record.reasoning + record.text
        skip = len(record.reasoning)
        counted = record.completion_tokens or 0
        if record.tokens is not None:
            text = "".join(token.text for token in record.tokens)
            skip = sum(len(token.text) for token in record.tokens if token.reasoning)
            over = _exceeds(counted, len(record.tokens))
            return cls(text, ends, skip, "record", worded=False, is_overcounted=over)
        if tokenizer is not None and text:
            offsets = token_ids(tokenizer, text)[1]
            over = is_implausible(counted, text) or _exceeds(counted, len(offsets))
            return cls(text, ends, skip, "tokenizer", offsets=offsets, is_overcounted=over)
        if record.completion_tokens is not None and (record.completion_tokens or not text):
            known = record.completion_tokens
            over = is_implausible(known, text) or (bool(text) and not record.has_text)
            if over and known > _LONGEST_ANSWER:
                known = _fewest_tokens(text)
            like = neighbours or Neighbours()
            return cls(text, ends, skip, ESTIMATE, known=known, is_overcounted=over, neighbours=like)
        if not text:
            return cls(text, ends, skip, "empty", known=0)
        return cls(text, ends, skip, None)

    def char_offset(self, position: int | None) -> int | None:
        """0-based character of the answer at which a position begins; None inside the reasoning."""
        if position is None:
            return None
        at = self._start(position) - self.skip
        return at if at >= 0 else None

    def word_extent(self, verdict: GenerationVerdict) -> Extent:
        if self.worded:
            return Extent(verdict.tokens, verdict.observed, verdict.onset)
        return _extent(
            verdict,
            PositionMap(
                piece_count(self.text),
                first=lambda position: piece_count(self.text[: self._start(position)]) + 1,
                last=lambda position: piece_count(self.text[: self._end(position)]),
            ),
        )

    def token_extent(self, verdict: GenerationVerdict) -> Extent | None:
        """None where only words are known. Estimates are rounded down: never later than they may be."""
        if self.source == "record":
            return Extent(verdict.tokens, verdict.observed, verdict.onset)
        if self.source is None:
            return None
        length = len(self.offsets) if self.offsets is not None else self.known or 0
        return _extent(
            verdict,
            PositionMap(
                length,
                first=lambda position: min(self._tokens_before(self._start(position)) + 1, max(length, 1)),
                last=lambda position: min(self._tokens_before(self._end(position)), length),
            ),
        )

    def _tokens_before(self, char: int) -> int:
        if self.offsets is not None:
            return bisect_left(self.offsets, char)
        size = utf8_size(self.text)
        spread = _fewest_tokens(self.text) if self.is_overcounted else self.known or 0
        if char >= len(self.text):
            return spread if self.text else 0
        before = self.text[:char]
        told = utf8_size(before)
        return min(spread * told // max(size, 1), int(told * self.neighbours.density(before)))

    def _start(self, position: int) -> int:
        """Characters before a 1-based position, blanks before its word left out."""
        start = self.ends[position - 2] if position >= 2 else 0
        piece = self.text[start : self.ends[position - 1]] if self.ends else ""
        return start + (len(piece) - len(piece.lstrip(" \t")) if piece.strip() else 0)

    def _end(self, position: int) -> int:
        """Characters up to a position; all of them where no positions were asked for."""
        if not self.ends:
            return len(self.text)
        return self.ends[position - 1] if position >= 1 else 0


def _fewest_tokens(text: str) -> int:
    size = utf8_size(text)
    return size // bytes_a_token(round(size / len(text))) if text else 0


def _exceeds(counted: int, tokens: int) -> bool:
    """Whether more tokens were counted than the text has, by more than another version of its tokenizer and
    special tokens explain."""
    return counted - tokens >= max(MIN_UNSEEN_TOKENS, _OTHER_TOKENIZER * tokens)


def is_implausible(count: int, text: str) -> bool:
    """Whether a text is too short for its count: no tokenizer makes as many tokens of its words and signs.

    Pieces are three small letters, another sign, or a byte of one beyond ASCII.
    """
    size = utf8_size(text)
    if count <= size // _PLAUSIBLE_BYTES + MIN_UNSEEN_TOKENS:
        return False
    pieces = sum(1 for _ in _PIECE.finditer(text)) + size - len(text)
    return count > pieces / _PIECES_A_TOKEN + MIN_UNSEEN_TOKENS


def _extent(verdict: GenerationVerdict, scale: PositionMap) -> Extent:
    """How far the answer goes and where it fails, on another scale."""
    if verdict.onset is None:
        return Extent(scale.length, scale.last(verdict.observed))
    onset = scale.first(verdict.onset)
    return Extent(max(scale.length, onset), onset - 1, onset)


def require_tokenizer(path: str) -> None:
    """Raises UsageError when --tokenizer cannot be used: no library, no such file, no tokenizer in it."""
    if importlib.util.find_spec("tokenizers") is None:
        raise UsageError(
            "--tokenizer needs the library tokenizers, which is not installed.",
            hint="Install it with: pip install tokenizers",
        )
    _tokenizer(path)


def tokenizer_digest(path: str) -> str:
    """A hash of a tokenizer's file. Raises UsageError where it cannot be read."""
    return _digest(path, _file_state(path))


def _tokenizer(path: str) -> Any:
    return _load_tokenizer(path, _file_state(path))


def _file_state(path: str) -> tuple[int, ...]:
    """What tells whether a file is still the one that was read."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


@lru_cache(maxsize=2)
def _digest(path: str, _state: tuple[int, ...]) -> str:
    return hashlib.blake2b(read_file(path, "--tokenizer:", _MAX_TOKENIZER), digest_size=16).hexdigest()


@lru_cache(maxsize=2)
def _load_tokenizer(path: str, _state: tuple[int, ...]) -> Any:
    from tokenizers import Tokenizer

    content = read_file(path, "--tokenizer:", _MAX_TOKENIZER)
    try:
        found = Tokenizer.from_str(content.decode("utf-8"))
    except Exception as error:  # noqa: BLE001  the library raises bare Exception
        raise UsageError(f"--tokenizer {path} is not a tokenizer.json: {str(error)[:120]}.") from None
    if found.normalizer is not None:
        growth = _growth(json.loads(found.normalizer.__getstate__()))
        if growth > _MOST_GROWTH:
            raise UsageError(
                f"--tokenizer {path} may make a text {growth:,.0f} times as long before it counts its "
                f"tokens: no model's does."
            )
    found.no_padding()  # transformers saves both as they were last used in training
    found.no_truncation()
    return found


def _growth(rule: Mapping[str, Any]) -> float:
    """How many times as long a normalizer's replacements may make a text, at most."""
    steps = rule.get("normalizers")
    if isinstance(steps, list):
        return prod(map(_growth, steps))
    pattern, content = rule.get("pattern"), rule.get("content")
    if not isinstance(pattern, dict) or not isinstance(content, str):
        return 1.0
    replaced = pattern.get("String")
    return max(1.0, len(content) / len(replaced)) if replaced else 1.0 + len(content)


def token_ids(path: str, text: str) -> tuple[list[int], list[int]]:
    """(ids, first character of each) of a text by a tokenizer that `require_tokenizer` has checked.

    Raises UsageError where the tokenizer fails on it.
    """
    try:
        encoded = _tokenizer(path).encode(text, add_special_tokens=False)
    except BaseException as error:  # the library raises bare Exception, and Rust's panic is none
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        raise UsageError(f"--tokenizer {path} fails on a text: {str(error)[:120]}.") from None
    return list(encoded.ids), [start for start, _ in encoded.offsets]


def length_class(record: Record, key: str | None) -> float | None:
    """The requested length that a record's key tells: 4000, "4k", "story_16k"; None where it tells none."""
    if key is None:
        return None
    value = getattr(record, key, None) if key in ("task", "max_tokens", "model") else None
    value = record.extra.get(key) if value is None else value
    found = _NUMBER.findall(str(value)[-_LONGEST_VALUE:]) if value is not None else []
    if not found:
        return None
    digits, factor = found[-1]
    return float(digits.replace(",", ".")) * {"k": 1e3, "m": 1e6}.get(factor.lower(), 1.0)
