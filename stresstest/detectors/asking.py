"""Detectors asked on their own, without the panel: the second step of every screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from stresstest.detectors.base import Detector, PanelSpec, Reader
from stresstest.detectors.segment import TextFeed
from stresstest.model import Token

Makers = Callable[[PanelSpec, TextFeed], Iterable[Detector]]
"""Makes the detectors that listen to one text."""


def listened(text: str, spec: PanelSpec, makers: Makers, finish_reason: str | None = None) -> bool:
    """Whether one of the detectors says anything of the text, given line by line.

    Where sentences are cut depends on the text alone, so lines do as well as tokens and cost less.
    """
    feed = TextFeed()
    detectors = tuple(makers(spec, feed))
    for line in text.splitlines(keepends=True):
        token = Token(line)
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
