"""The panel's verdict on a text that somebody recorded: by the fast path where that is certain."""

from __future__ import annotations

from stresstest.detectors.base import PanelSpec
from stresstest.detectors.features import piece_count
from stresstest.detectors.fold import judged_folded
from stresstest.detectors.panel import judge_text
from stresstest.detectors.screen import healthy
from stresstest.model import Verdict


def judge_recorded(text: str, spec: PanelSpec, finish_reason: str | None = None) -> Verdict:
    """:func:`judge_text` for whole corpora: the same symptoms, many times faster.

    A text without a symptom may count as observed a few words further than the panel's own answer, which
    waits for the end of its last passage; and it has no warnings.
    """

    def panel(text: str) -> Verdict:
        return judge_text(text, spec, finish_reason)

    # What a prompt asked to be repeated has bounds of its own.
    found = None if spec.prompt_text else judged_folded(text, panel, piece_count)
    if found is None:
        found = healthy(text, spec, finish_reason)
    return panel(text) if found is None else found
