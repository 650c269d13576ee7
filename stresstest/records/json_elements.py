"""The elements of a JSON array, or several documents one after another, held one at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from stresstest.records.record import UnreadableError

MAX_ITEMS = 1_000_000
"""Lists and objects of one line: 16k tokens with top-20 logprobs have 700,000."""
MAX_OBJECTS = 400_000
"""Objects of one line: those tokens have 340,000, and each takes hundreds of bytes once it is decoded."""
MAX_KEYS = 1_500_000
"""Keys of one line: those tokens have 1,050,000."""
MAX_VALUES = 3_000_000
"""Commas of one line, about its values: those tokens have 2,800,000."""

_READ, _MOST_READ = 1 << 20, 4 << 20
_SPACED_KEY = re.compile(rb'"[ \t\r\n]+:')
_BETWEEN = re.compile(r"[ \t\r\n\f\v,]*")


def json_elements(read: Callable[[int], bytes], most: int) -> Iterator[bytes]:
    """The elements of an array (or several documents one after another), as JSON each.

    read: returns up to that many bytes, b"" at the end. most: maximum bytes of an element. Holds one element
    and about a megabyte. Raises UnreadableError where the text is damaged: the boundaries after it are lost.
    """
    # A byte a character: only boundaries are looked for, and one emoji would make every character four.
    scan = json.JSONDecoder().raw_decode
    buffer, at, ended, inside = "", 0, False, False
    want = _READ
    while True:
        at = _after_blanks(buffer, at)
        if at < len(buffer):
            if buffer[at] == ("]" if inside else "["):
                inside = not inside
                at += 1
                continue
            try:
                _, end = scan(buffer, at)
            except (ValueError, RecursionError) as error:
                # What is no JSONDecodeError does not get better with more text: too deep, too long a number.
                final = ended or len(buffer) - at > most or not isinstance(error, json.JSONDecodeError)
                if final:
                    raise UnreadableError("the JSON is damaged or ends here; the rest is not read") from None
                _refuse_many(buffer[at:].encode("latin-1"))
            else:
                element = buffer[at:end].encode("latin-1")
                _refuse_many(element)
                yield element
                at, want = end, _READ
                continue
        elif ended:
            if inside:
                raise UnreadableError("the array is not closed: the file was cut")
            return
        more = read(want)
        want = min(2 * want, most, _MOST_READ)
        ended = not more
        buffer, at = buffer[at:] + more.decode("latin-1"), 0


def _refuse_many(element: bytes) -> None:
    many = too_many(element)
    if many:
        raise UnreadableError(f"an element of {many}; the rest is not read") from None


def too_many(line: bytes) -> str:
    """What a line has too many of to be decoded; "" where it has not."""
    if line.count(b"[") + line.count(b"{") > MAX_ITEMS:
        return f"more than {MAX_ITEMS:,} lists and objects"
    if line.count(b"{") > MAX_OBJECTS:
        return f"more than {MAX_OBJECTS:,} objects"
    if len(line) > MAX_KEYS and count_keys(line) > MAX_KEYS:
        return f"more than {MAX_KEYS:,} keys"
    return f"more than {MAX_VALUES:,} values" if line.count(b",") > MAX_VALUES else ""


def count_keys(line: bytes) -> int:
    """About how many keys the JSON of a line has; some writers put a blank before the colon."""
    return line.count(b'":') + sum(1 for _ in _SPACED_KEY.finditer(line))


def _after_blanks(buffer: str, at: int) -> int:
    match = _BETWEEN.match(buffer, at)
    return match.end() if match else at
