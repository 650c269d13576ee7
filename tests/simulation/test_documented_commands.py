"""The commands of the README and the tutorial, run in order as a reader would, against the simulator."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stresstest.features.demo.command import SIMULATED_MODEL, simulator
from tests.support.stories import story

pytestmark = pytest.mark.simulated

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```[a-z]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXPECTED = re.compile(r"exits? (\d+)")
ADDRESS = re.compile(r"http://(gpu-box|staging):8000/v1")
MODEL = re.compile(r"\bmistral-7b\b")
"""The model that the README's reader serves; here the simulator does, under `SIMULATED_MODEL`."""
LIMIT_OF = re.compile(r"recommend --format vllm --like (\S+)")
"""The run that a page calls ID, as the command before it printed it."""
SCENARIOS = {"README.md": "loop-at-900", "docs/tutorial.md": "qwen2.5-7b-awq-it"}
"""What the reader of each page has a server for."""


@dataclass(frozen=True)
class Line:
    """One command of a block. code: the exit code that its comment announces."""

    text: str
    code: int

    @property
    def program(self) -> str:
        return shlex.split(self.text, comments=True)[0]


def lines_of(page: str) -> list[Line]:
    """The command lines of all blocks; other blocks (a config file's text) begin with no program."""
    found = []
    for block in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
        for text in block.replace("\\\n", " ").splitlines():
            if re.match(r"(stresstest|make|pip|uv) ", text):
                announced = EXPECTED.search(text)
                found.append(Line(text, int(announced[1]) if announced else 0))
    return found


Reader = tuple[str, Path, dict[str, str], str]
"""Page, folder, environment, and the simulated server's address."""


@pytest.fixture(params=["README.md", pytest.param("docs/tutorial.md", marks=pytest.mark.long)])
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reader]:
    """Who reads a page: with a folder that holds what its commands read, and a server."""
    page, folder = request.param, tmp_path
    (folder / "outputs").mkdir()
    for name in ("a", "b"):
        with gzip.open(folder / "outputs" / f"{name}.jsonl.gz", "wt") as out:
            for line in records(name):
                out.write(json.dumps(line) + "\n")
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in records("a")))
    (folder / "production.jsonl").write_text(
        "".join(
            json.dumps({"id": f"p{i}", "prompt": f"Write a long story, number {i}."}) + "\n"
            for i in range(60)
        )
    )
    (folder / "vllm.log").write_text("INFO 11-21 10:00:00 [api_server.py:1] vLLM API server version 0.32.0\n")
    with simulator(SCENARIOS[page], SIMULATED_MODEL) as base_url:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("STRESSTEST_")}
        extra = {"STRESSTEST_STORE": str(folder / "store.sqlite3"), "STRESSTEST_BASE_URL": base_url}
        yield page, folder, kept | extra, base_url


def records(model: str) -> list[dict[str, object]]:
    """Sixty recorded answers with times, a twentieth of them looping to the cap."""
    found: list[dict[str, object]] = []
    for i in range(60):
        tale = story(12, seed=i)
        loops = i % 20 == 7
        text = tale + " And then the river rose again." * 200 if loops else tale
        found.append(
            {
                "id": f"{model}{i}",
                "model": model,
                "prompt": f"Tell the chronicle of the caravans, part {i % 15}.",
                "response": text,
                "finish_reason": "length" if loops else "stop",
                "max_tokens": 2048,
                "completion_tokens": 2048 if loops else 480,
                "prompt_tokens": 40,
                "start": 100.0 + i,
                "end": 100.0 + i + (60.0 if loops else 9.0),
            }
        )
    return found


def test_every_command_of_a_page_does_what_it_says(reader: Reader) -> None:
    """A reader who types a page's blocks in order gets no error that the page does not announce."""
    page, folder, environment, base_url = reader
    lines = [line for line in lines_of(page) if line.program == "stresstest"]
    assert len(lines) >= 5
    known = ""
    for line in lines:
        if line.text.startswith("stresstest sim "):
            assert SCENARIOS[page] in line.text, "the reader's server is another one"
            continue
        if line.text.startswith("stresstest demo"):
            continue  # CI's `make demo` is the same command
        text = MODEL.sub(SIMULATED_MODEL, ADDRESS.sub(base_url, line.text))
        words = shlex.split(text, comments=True)
        words = [known if word == "ID" else word for word in words]
        words = [str(found) for word in words for found in expanded(word, folder)]
        done = subprocess.run(
            [sys.executable, "-m", "stresstest", *words[1:]],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == line.code, f"{line.text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        known = next(iter(LIMIT_OF.findall(done.stdout)), known)


def expanded(word: str, folder: Path) -> list[str]:
    """A shell's work: the files that a pattern means."""
    if "*" not in word:
        return [word]
    return sorted(str(path.relative_to(folder)) for path in folder.glob(word)) or [word]


def test_every_make_target_of_the_contributors_page_exists() -> None:
    """`make X` in a block is a target of the Makefile; CI runs these themselves."""
    targets = set(
        re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    asked = {
        shlex.split(line.text, comments=True)[1]
        for line in lines_of("CONTRIBUTING.md")
        if line.program == "make"
    }
    assert asked
    assert asked <= targets
