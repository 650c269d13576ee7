"""Tokens and text to symptoms: online detectors, and the panel that settles them into one verdict."""

from stresstest.detectors.base import PanelSpec
from stresstest.detectors.langid import can_judge, warm_up
from stresstest.detectors.panel import Panel, judge_text, judge_tokens

__all__ = ["Panel", "PanelSpec", "can_judge", "judge_text", "judge_tokens", "warm_up"]
