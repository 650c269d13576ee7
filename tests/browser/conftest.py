"""One browser for all tests here, and the pages that they look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stresstest.model import RunStatus
from stresstest.report.dossier import Dossier
from stresstest.report.html import compared_html, index_html, run_html
from stresstest.store import StoredThreshold
from tests.reported import campaign, dossier, healthy, looping, lost, result

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

BUILD = Path(__file__).resolve().parents[2] / "build" / "browser"
"""Pages and pictures are kept here for people to look at."""


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
    for name, text in _texts().items():
        found[name] = BUILD / f"{name}.html"
        found[name].write_text(text, encoding="utf-8")
    return found


def _texts() -> dict[str, str]:
    whole = dossier()
    good = result(tuple(healthy(i, 400) for i in range(30)), run_id="20261122-080000-good", simulated=True)
    bare = result(run_id="20261123-080000-bare")
    silent = tuple(
        replace(g, tokens=tuple(replace(t, entropy=None) for t in g.tokens)) for g in bare.generations
    )
    unknown = replace(bare.run.profile, max_model_len=None, top_logprobs=0)
    bare = replace(bare, generations=silent, server=None, samples=(), run=replace(bare.run, profile=unknown))
    stopped = result((*campaign(6), lost(40, 120)), status=RunStatus.INTERRUPTED)
    one = looping(0, 6_500, 8_000, period=400)
    many = tuple(replace(looping(i, 300 + 3 * i, 480 + 4 * i), prompt_id=f"p{i}") for i in range(299))
    large = replace(result(), generations=(*many, one))
    return {
        "run": run_html(whole),
        "healthy": run_html(Dossier(good)),
        "bare": run_html(Dossier(bare)),
        "interrupted": run_html(Dossier(stopped)),
        "empty": run_html(Dossier(result((), status=RunStatus.RUNNING))),
        "large": run_html(Dossier(large)),
        "compared": compared_html([whole, Dossier(good), Dossier(bare)]),
        "index": index_html(thresholds(), "stresstest.sqlite3"),
    }


def thresholds(model: str = "Qwen/Qwen2.5-7B-Instruct-AWQ") -> list[StoredThreshold]:
    """Forty days of one task, a model swap among them, and another language."""
    other = "mistral/24B"
    measured = [
        (model, "it", 473),
        (model, "it", 512),
        (other, "it", 2_400),
        (other, "it", None),
        (model, "fr", 610),
    ]
    return [_stored(number, *what) for number, what in enumerate(measured)]


def _stored(number: int, model: str, language: str, tokens: int | None) -> StoredThreshold:
    base = result()
    settings = base.run.settings
    return StoredThreshold(
        run_id=f"run-{number}",
        subject=replace(settings.subject, model=model, language=language),
        decoding=settings.decoding,
        rigor="quick",
        margin=0.1,
        threshold=replace(base.threshold, tokens=tokens, certified=tokens is not None),
        safe_max_tokens=None if tokens is None else int(tokens * 0.9),
        verdict=base.verdict,
        created=base.run.created + 864_000 * number,
        saved=base.run.created,
        tool_version="0.1.0",
        server_version="0.32.0",
        base_url=settings.base_url,
        simulated=number == 2,
        distinct_prompts=38,
        latest=number in (1, 3, 4),
    )
