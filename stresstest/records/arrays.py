"""JSON documents of any size, element by element: arrays, and objects printed over several lines."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator

from stresstest.records.record import UnreadableError

_READ = 1 << 20
_BETWEEN = re.compile(r"[\s,]*")


def elements(read: Callable[[int], bytes], most: int) -> Iterator[bytes]:
    """The elements of an array (or several documents one after another), as JSON each.

    read: gives up to so many bytes, b"" at the end. most: bytes an element may have. Holds one element and
    about a megabyte. Raises UnreadableError where the text is damaged: what follows cannot be told apart.
    """
    decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
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
            except (json.JSONDecodeError, RecursionError) as error:
                if ended or len(buffer) - at > most or isinstance(error, RecursionError):
                    raise UnreadableError("the JSON is damaged or ends here; the rest is not read") from None
            else:
                yield buffer[at:end].encode("utf-8", "surrogateescape")
                at, want = end, _READ
                continue
        elif ended:
            if inside:
                raise UnreadableError("the array is not closed: the file was cut")
            return
        more = read(want)
        want = min(2 * want, most)
        ended = not more
        buffer, at = buffer[at:] + decode(more, final=ended), 0


def _after_blanks(buffer: str, at: int) -> int:
    match = _BETWEEN.match(buffer, at)
    return match.end() if match else at
