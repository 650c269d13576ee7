"""Logs that cut each text at a length (``text[:1000]``): what failed behind it is not in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from stresstest.records.record import Record, utf8_size

_LEAST_TEXTS, _LEAST_SIZE = 5, 200
"""Different texts of one length, which is the greatest, and the size of each, that are no chance."""
_LITTLE_SHORTER = 0.9
_LONGEST_CHARACTER = 4
"""Bytes: a text that is cut in the midst of a character loses the rest of it."""
_MIDWAY = re.compile(r"[\w\s,;:(\-–—]\Z|(?:\.\.\.|…|truncated|TRUNCATED)[\])>.]{0,4}\Z")
"""How a text ends that was cut in the midst of a sentence, maybe with a mark of that."""
_TAIL = 16
_END = 64
"""Characters in which texts must differ: answers of one shape have one length, and one end."""


def with_cuts(records: Sequence[Record]) -> Sequence[Record]:
    """The records, with a hole at the end of those that the log has cut: five or more different texts that
    share the greatest length, in characters or in bytes, and end in the midst of a sentence. They are more
    than those that are a little shorter: where a server caps answers, some are the longest by chance."""
    for measure, tolerance in ((len, 0), (utf8_size, _LONGEST_CHARACTER - 1)):
        sizes = [measure(record.text) for record in records]
        longest = max(sizes, default=0)
        cut = {n for n, size in enumerate(sizes) if size >= longest - tolerance and _may_be_cut(records[n])}
        different = len({records[n].text[-_END:] for n in cut})
        little_shorter = sum(_LITTLE_SHORTER * longest <= size < longest - tolerance for size in sizes)
        if longest >= _LEAST_SIZE and different >= max(_LEAST_TEXTS, little_shorter):
            return [_with_hole(each) if n in cut else each for n, each in enumerate(records)]
    return records


def _may_be_cut(record: Record) -> bool:
    kept = record.has_text and record.hole is None and record.tokens is None
    return kept and _MIDWAY.search(record.text[-_TAIL:]) is not None


def _with_hole(record: Record) -> Record:
    return replace(record, has_text=False, hole=len(record.reasoning) + len(record.text))
