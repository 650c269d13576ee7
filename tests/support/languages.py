"""Languages of a test's own beside the shipped ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from stresstest.detectors.languages import catalog
from stresstest.detectors.languages.catalog import SHIPPED, Catalog, load_catalog


@contextmanager
def further_languages(folders: Sequence[Path]) -> Iterator[Catalog]:
    """Within the block this process also knows the languages of these folders."""
    known = load_catalog((SHIPPED, *folders))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "load_catalog", lambda: known)
        yield known
