"""What a structure break is, in words for people."""

from __future__ import annotations

from stresstest.detectors.compression import Shrunk
from stresstest.detectors.numbering import Slip

_SLIPS = {
    "stick": "unit number {number} comes twice in a row",
    "back": "unit number {number} follows {before}",
    "repeat": "unit number {number} comes again",
    "skip": "unit number {number} follows {before}",
    "empty": "unit {number} is a heading without a body",
    "renamed": "unit number {number} stands under another word than the units before it",
}


def slip_words(slip: Slip) -> str:
    """A slip of the numbering."""
    return _SLIPS[slip.kind].format(number=slip.number, before=slip.before)


def shrunk_words(shrunk: Shrunk) -> str:
    """Odd lengths."""
    if shrunk.what == "paragraph":
        return (
            f"a paragraph goes on to {shrunk.after:.0f} characters, in {shrunk.of} sentences, and does "
            f"not end; the median before it is {shrunk.before:.0f}"
        )
    return (
        f"{shrunk.count} of {shrunk.of} {shrunk.what} have lost the lengths of the beginning: "
        f"median {shrunk.after:.0f} characters against {shrunk.before:.0f}"
    )
