"""Imported once by the process that `scan`'s workers are forked from: models and tables that all of them
need are loaded once and shared."""

from __future__ import annotations

from stresstest.detectors import warm_up
from stresstest.detectors.features import features
from stresstest.workflows import scan_judge

__all__ = ["scan_judge"]

warm_up("en")
features(["tables"])
