"""Tokens of one generation, packed small enough to keep every one of them.

Six columns (texts, ids, logprobs, entropies, arrivals, reasoning marks), each compressed on its
own. Numbers are split into byte planes first: the high bytes hardly change, so they vanish.
Texts, ids, arrivals and marks come back exactly. Logprobs and entropies are kept as float32: vLLM's
logprobs are float32 to begin with and come back exactly too; an entropy moves by < 1e-7 relative.
A NaN logprob or entropy comes back as None: neither is a measurement.
"""

from __future__ import annotations

import json
import math
import re
import struct
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from stresstest.errors import StoreError
from stresstest.model import Token, TokenColumns
from stresstest.model.tokens import NO_ID

_HEADER = struct.Struct("<2sBI")  # magic, format, number of tokens
_LENGTH = struct.Struct("<I")
_MAGIC = b"ST"
_FORMAT = 1
_LEVEL = 6
_MOST_TOKENS = 1_300_000
"""The longest horizon is a million, and a stream ends at 1.25 times that. A store may come from elsewhere,
and a block may unpack to a thousand times its size."""
_LARGEST_TEXTS = 32 * 1024 * 1024
"""Bytes of the unpacked texts: some 8 a token in English, 16 in Chinese."""
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_MOST = (1 << 63) - 1
_WRAP = 1 << 64
_LITTLE = sys.byteorder == "little"


def pack_tokens(tokens: Sequence[Token]) -> bytes:
    """Pack tokens for the store; see the module's text for what is exact."""
    columns = (
        # ASCII JSON survives lone surrogates and NUL, which a text column would refuse.
        json.dumps([t.text for t in tokens], separators=(",", ":")).encode("ascii"),
        _shuffle(array("q", (_id(t.id) for t in tokens))),
        _shuffle(_floats(t.logprob for t in tokens)),
        _shuffle(_floats(t.entropy for t in tokens)),
        _shuffle(_deltas([t.arrived for t in tokens])),
        bytes(t.reasoning for t in tokens),
    )
    parts = [_HEADER.pack(_MAGIC, _FORMAT, len(tokens))]
    for column in columns:
        squeezed = zlib.compress(column, _LEVEL)
        parts += (_LENGTH.pack(len(squeezed)), squeezed)
    return b"".join(parts)


def unpack_tokens(blob: bytes) -> TokenColumns:
    """Unpack what `pack_tokens` made. Raises StoreError when it is damaged or of a newer format."""
    try:
        magic, fmt, n = _HEADER.unpack_from(blob)
        if magic != _MAGIC:
            raise ValueError("not a token block")
        if fmt != _FORMAT:
            raise StoreError(f"The stored tokens are of format {fmt}, which this version cannot read.")
        if n > _MOST_TOKENS:
            raise ValueError("there are too many")
        columns = _split(blob, (_LARGEST_TEXTS, 8 * n, 4 * n, 4 * n, 8 * n, n))
        texts = _texts(next(columns), n)
        ids = _unshuffle("q", next(columns))
        logprobs = _unshuffle("f", next(columns))
        entropies = _unshuffle("f", next(columns))
        arrivals = _undelta(_unshuffle("Q", next(columns)))
        (reasoning,) = columns
        if {len(c) for c in (texts, ids, logprobs, entropies, arrivals, reasoning)} != {n}:
            raise ValueError("columns of unequal length")
    except (ValueError, struct.error, zlib.error) as exc:
        raise StoreError(f"The stored tokens of a generation are damaged ({exc}).") from exc
    return TokenColumns(texts, ids, logprobs, entropies, arrivals, reasoning)


def _split(blob: bytes, largest: Sequence[int]) -> Iterator[bytes]:
    """The columns of a block, each decompressed when it is asked for. largest: bytes of each, unpacked."""
    at = _HEADER.size
    for size in largest:
        (length,) = _LENGTH.unpack_from(blob, at)
        at += _LENGTH.size
        yield _decompress(blob[at : at + length], size)
        at += length
    if at != len(blob):
        raise ValueError("trailing bytes")


def _texts(column: bytes, n: int) -> list[str]:
    """The n texts of a column; what else JSON may hold could take twenty times its size as objects."""
    if _STRING.sub(b"", column) != b"[%s]" % (b"," * (n - 1)):
        raise ValueError("a column holds something else than its texts")
    texts: list[str] = json.loads(column)
    return texts


def _decompress(squeezed: bytes, largest: int) -> bytes:
    unpacking = zlib.decompressobj()
    column = unpacking.decompress(squeezed, largest + 1)
    if len(column) > largest or not unpacking.eof:
        raise ValueError("a column is cut, or too large")
    return column


def _id(number: int | None) -> int:
    """An id as 64 bits; what they cannot hold is no id."""
    return NO_ID if number is None or not NO_ID < number <= _MOST else number


def _floats(values: Iterable[float | None]) -> array[float]:
    """Values as float32, None as NaN; what float32 cannot hold becomes an infinity."""
    out = array("f")
    for value in values:
        try:
            out.append(math.nan if value is None else value)
        except OverflowError:
            out.append(math.copysign(math.inf, value or 0.0))
    return out


def _deltas(values: list[float]) -> array[int]:
    """Differences between the bit patterns of successive doubles, modulo 2^64.

    Arrivals grow in small steps, so their patterns do; exact, and as small as rounded microseconds.
    """
    patterns = array("Q", struct.pack(f"={len(values)}d", *values))
    out, last = array("Q"), 0
    for pattern in patterns:
        out.append((pattern - last) % _WRAP)
        last = pattern
    return out


def _undelta(deltas: array[int]) -> array[float]:
    patterns, last = array("Q"), 0
    for delta in deltas:
        last = (last + delta) % _WRAP
        patterns.append(last)
    return array("d", patterns.tobytes())


def _shuffle(values: array[Any]) -> bytes:
    """Bytes of equal significance side by side, least significant first."""
    raw = _little(values).tobytes()
    return b"".join(raw[i :: values.itemsize] for i in range(values.itemsize))


def _unshuffle(typecode: str, planes: bytes) -> array[Any]:
    out: array[Any] = array(typecode)
    size = out.itemsize
    n, rest = divmod(len(planes), size)
    if rest:
        raise ValueError("incomplete numbers")
    raw = bytearray(len(planes))
    for i in range(size):
        raw[i::size] = planes[i * n : (i + 1) * n]
    out.frombytes(bytes(raw))
    return _little(out)


def _little(values: array[Any]) -> array[Any]:
    """The array with its bytes in little-endian order (a copy is made only where that differs)."""
    if _LITTLE:
        return values
    swapped = values[:]
    swapped.byteswap()
    return swapped
