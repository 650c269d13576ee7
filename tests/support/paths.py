"""Where the project's files are, seen from any test."""

from __future__ import annotations

from pathlib import Path

import stresstest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
PACKAGE = Path(stresstest.__file__).resolve().parent
"""The package under test; a clone of the project may have the same name."""
