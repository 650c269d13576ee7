"""Detectors asked on their own, without the panel: the second step of every screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from stresstest.detectors.base import Detector, PanelSpec, Reader
from stresstest.detectors.segment import TextFeed
from stresstest.model import Token

Makers = Callable[[PanelSpec, TextFeed], Iterable[Detector]]
"""Makes the detectors that listen to one text."""

_AT_ONCE = 4_000
"""Characters at least that the detectors are given at a time."""


def listened(
    text: str, spec: PanelSpec, makers: Makers, finish_reason: str | None = None, *, in_lines: bool = False
) -> bool:
    """Whether one of the detectors says anything of the text, given some lines at a time.

    Where sentences are cut depends on the text alone, so lines do as well as tokens and cost less.
    in_lines: whether a detector asks for lines or their beginnings.
    """
    feed = TextFeed(in_lines=in_lines)
    detectors = tuple(makers(spec, feed))
    at = 0
    while at < len(text):
        end = text.find("\n", at + _AT_ONCE) + 1 or len(text)
        token, at = Token(text[at:end]), end
        feed.update(token)
        for detector in detectors:
            detector.update(token)
    feed.close()
    for detector in detectors:
        detector.finish(finish_reason)
    return any(detector.symptoms() for detector in detectors)


def asked(readers: Sequence[Reader], texts: Sequence[str], finish_reason: str | None) -> int | None:
    """After the last token: 0 for any symptom, else the oldest open candidate's first token, or None."""
    for reader in readers:
        reader.read(texts)
        reader.finish(finish_reason)
    if any(reader.symptoms() for reader in readers):
        return 0
    return min((at for reader in readers if (at := reader.open_from) is not None), default=None)
