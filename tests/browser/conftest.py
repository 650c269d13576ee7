"""One browser for all tests here, and the pages that they look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.pages import BUILD, texts

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """Headless Chromium. It fails where there is none: `make browser` installs it."""
    from tests.browser.chromium import chromium, installed

    assert installed(), "chromium and chromium-driver are missing; `make browser` installs Debian's"
    with chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(scope="session")
def pages() -> dict[str, Path]:
    """Every kind of page, ordinary and partial, as files."""
    BUILD.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, text in texts().items():
        found[name] = BUILD / f"{name}.html"
        found[name].write_text(text, encoding="utf-8")
    return found
