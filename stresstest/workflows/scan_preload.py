"""Imported once by every worker of `scan`, or by the process that they are forked from: models and tables
that all of them need are loaded before the first answer, and shared where that is possible."""

from __future__ import annotations

import gc

from stresstest.detectors import warm_up
from stresstest.detectors.features import features
from stresstest.detectors.infer import infer_language
from stresstest.workflows import scan_judge, scan_pool

__all__ = ["scan_judge"]

warm_up("en")
features(["tables"])
infer_language("The sentence by which this module is loaded, and all that it needs.")
gc.collect()
scan_pool.trim()
gc.freeze()  # a collection in a forked worker would write into pages that all share
