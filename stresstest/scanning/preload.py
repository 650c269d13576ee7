"""Imported once by every worker of `scan`, or by the process that they are forked from: models and tables
that all of them need are loaded before the first answer, and shared where that is possible."""

from __future__ import annotations

import gc

from stresstest.detectors.identification.inference import infer_language
from stresstest.detectors.identification.votes import warm_up
from stresstest.detectors.text.features import extract_features
from stresstest.scanning import pool

warm_up("en")
extract_features(["tables"])
infer_language("The sentence by which this module is loaded, and all that it needs.")
gc.collect()
pool.release_memory()
gc.freeze()  # a collection in a forked worker would write into pages that all share
