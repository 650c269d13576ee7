"""The Python of the documentation and of the notebook, run in order against a scripted server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.fake_campaign import Behaviour, campaign_server
from tests.support.paths import ROOT
from tests.support.scanned_files import corpus, write

pytestmark = pytest.mark.simulated

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Who reads along: a folder with a log, a store of their own, and a server."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "log.jsonl", corpus(48))
    with campaign_server(Behaviour(onset=150)) as (fake, _):
        monkeypatch.setenv("STRESSTEST_STORE", str(tmp_path / "store.sqlite3"))
        monkeypatch.setenv("STRESSTEST_BASE_URL", fake.url)
        yield


def test_the_examples_of_the_page_do_what_they_say() -> None:
    """Each block runs, and its assertions hold; one that needs a library runs where it is installed."""
    blocks = BLOCK.findall((ROOT / "docs" / "python-api.md").read_text("utf-8"))
    assert len(blocks) >= 9
    execute(blocks)


def test_the_notebook_runs_from_its_first_cell_to_its_last() -> None:
    """Cells share one namespace, as in a kernel; none of them needs the kernel itself."""
    notebook = json.loads((ROOT / "examples" / "python_api.ipynb").read_text("utf-8"))
    assert notebook["nbformat"] == 4
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 5
    execute(cells)


def execute(parts: list[str]) -> None:
    namespace: dict[str, object] = {}
    for part in parts:
        needed = re.match(r"# needs (\w+)\n", part)
        if needed is None or find_spec(needed[1]):
            exec(compile(part, part.splitlines()[0], "exec"), namespace)
