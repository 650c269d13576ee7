"""The simulated model's tokenizer: a fixed table of pieces, greedy longest match, bytes as a last resort.

Like a byte-fallback BPE vocabulary it is lossless for any text, gives common short words one token and
cuts long ones into a stem and an ending. The table is made from the words of the grammars, so that what
the simulator writes has the token density of a real model: 1.5 to 1.7 tokens a word in the Romance
languages and German, 1.3 in English.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from stresstest.simulation.engine.grammar import grammar_files, simulator_table

_SPECIALS = ("<|bos|>", "<|eos|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
BOS, EOS, SYSTEM, USER, ASSISTANT, END = range(256, 256 + len(_SPECIALS))
"""Control tokens. `encode` never makes them, not even of a text that looks like one."""

_SLOT = re.compile(r"\{\w*\}")
_WORD = re.compile(r"[^\W\d_]+['’]?")
_CHUNK = re.compile(r" ?[^\W\d_]{1,48}['’]?|\n{1,2}| {2,8}|.", re.DOTALL)
"""Where no piece crosses: a word with the blank before it, a sign, a digit, line breaks."""

_LATIN = "abcdefghijklmnopqrstuvwxyzàèéìòùâêîôûçëïüœñáíóúãõäöß"
_SIGNS = "0123456789.,;:!?'\"()[]{}<>«»“”‘’„…–—-_/\\*#%&+=@|$€°§~^`"
_CYRILLIC = "абвгдежзийклмнопрстуфхцчшщъыьэюя"
_CHINESE = (
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道"
    "行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意"
    "无力它与长把机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什"
)
_PIECE_LETTERS, _COMMON_USES = 5, 12
"""Letters up to which a word is one piece, and uses from which on a longer one is, by default."""
_ENDING = 4


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield _SLOT.sub(" ", value)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _split_stem(word: str, whole: int) -> list[str]:
    """A word as a stem and endings of at most four letters, as a BPE table would have it."""
    if len(word) <= whole:
        return [word]
    end = len(word) - (_ENDING if len(word) > whole + 2 else 3)
    return [*_split_stem(word[:end], whole + 1), word[end:]]


def _grammar_pieces() -> Iterator[str]:
    """Pieces from every grammar, in an order that depends on the files alone."""
    substrings: Counter[str] = Counter()
    for _, content in sorted(grammar_files().items()):
        simulated = simulator_table(content)
        grammar = {key: value for key, value in content.items() if key != "simulator"}
        words = Counter[str]()
        for text in _texts(grammar):
            words.update(_WORD.findall(text))
        whole = simulated.get("piece_letters", _PIECE_LETTERS)
        common_uses = simulated.get("common_word_uses", _COMMON_USES)
        for word in sorted(words):
            common = words[word] >= common_uses
            first, *rest = [word] if common else _split_stem(word, whole)
            yield from (" " + first, " " + first[:1].upper() + first[1:])
            if len(first) <= 3 or common:
                yield from (first, first[:1].upper() + first[1:])
            yield from rest
            for size in (2, 3):
                substrings.update(word[i : i + size].lower() for i in range(len(word) - size + 1))
    for piece, count in sorted(substrings.items()):
        if count >= 24:
            yield piece
            if len(piece) == 2:
                yield " " + piece


def _table() -> tuple[bytes, ...]:
    simple = [" ", "\n", "\n\n", *(" " * n for n in range(2, 9)), *_SIGNS]
    simple += [ch for letter in _LATIN + _CYRILLIC for ch in (letter, letter.upper()) if len(ch) == 1]
    simple += [" " + ch for ch in _LATIN + _CYRILLIC if len(ch) == 1]
    pieces = dict.fromkeys([*simple, *_CHINESE, *_grammar_pieces()])
    known = {bytes([n]) for n in range(256)}
    raw = [bytes([n]) for n in range(256)] + [name.encode() for name in _SPECIALS]
    return (*raw, *(data for piece in pieces if (data := piece.encode()) not in known))


_PIECES = _table()
VOCABULARY_SIZE = len(_PIECES)
"""Number of token ids: 0 <= id < SIZE."""

_IDS = {
    data.decode("utf-8", "surrogateescape"): i
    for i, data in enumerate(_PIECES)
    if i < 128 or i >= 256 + len(_SPECIALS)
}
_LONGEST = max(map(len, _IDS))


@lru_cache(maxsize=1 << 16)
def chunk_ids(chunk: str) -> tuple[int, ...]:
    """Token ids of one chunk (at most 50 characters): greedy longest match, then bytes."""
    ids: list[int] = []
    at, size = 0, len(chunk)
    while at < size:
        for end in range(min(size, at + _LONGEST), at, -1):
            found = _IDS.get(chunk[at:end])
            if found is not None:
                ids.append(found)
                at = end
                break
        else:
            ids.extend(chunk[at].encode("utf-8", "replace"))
            at += 1
    return tuple(ids)


def chunks(text: str) -> list[str]:
    """The text cut where no token crosses; joined they are the text."""
    return _CHUNK.findall(text)


def encode(text: str) -> list[int]:
    """Token ids of any text. A lone surrogate, which is no character, becomes "?"."""
    ids: list[int] = []
    for chunk in _CHUNK.findall(text):
        ids += chunk_ids(chunk)
    return ids


def decode(ids: Sequence[int]) -> str:
    """The text of token ids; invalid UTF-8 becomes replacement characters. IndexError for an unknown id."""
    return b"".join([_PIECES[i] for i in ids]).decode("utf-8", "replace")


def token_bytes(token_id: int) -> bytes:
    """The bytes of one token. IndexError for an unknown id."""
    if token_id < 0:
        raise IndexError(token_id)
    return _PIECES[token_id]


_ROLES = {"system": SYSTEM, "developer": SYSTEM, "assistant": ASSISTANT}


def encode_chat(messages: Sequence[tuple[str, str]]) -> list[int]:
    """Prompt ids of (role, content) pairs, ending where the assistant's answer begins."""
    ids = [BOS]
    for role, content in messages:
        ids += [_ROLES.get(role, USER), *encode(content), END]
    return [*ids, ASSISTANT]
