"""Every command block of the README, run from top to bottom as a reader would, against the simulator."""

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

from stresstest.cli.demo import simulator

pytestmark = pytest.mark.simulated

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```[a-z]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXPECTED = re.compile(r"exits? (\d+)")
ADDRESS = re.compile(r"http://gpu-box:8000/v1")
SCENARIO = "masked-chain"


@dataclass(frozen=True)
class Line:
    """One command of a block. code: the exit code that its comment announces."""

    text: str
    code: int

    @property
    def program(self) -> str:
        return shlex.split(self.text, comments=True)[0]


def readme() -> list[Line]:
    """The command lines of all blocks; other blocks (a config file's text) begin with no program."""
    found = []
    for block in BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8")):
        for text in block.replace("\\\n", " ").splitlines():
            if re.match(r"(stresstest|make|pip|uv) ", text):
                announced = EXPECTED.search(text)
                found.append(Line(text, int(announced[1]) if announced else 0))
    return found


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str], str]]:
    """A folder with what the README's reader owns, an environment, and the simulated server's address."""
    folder = tmp_path_factory.mktemp("reader")
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
    with simulator(SCENARIO) as base_url:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("STRESSTEST_")}
        extra = {"STRESSTEST_STORE": str(folder / "store.sqlite3"), "STRESSTEST_BASE_URL": base_url}
        yield folder, kept | extra, base_url


def records(model: str) -> list[dict[str, object]]:
    """Sixty recorded answers with times, a twentieth of them looping to the cap."""
    found: list[dict[str, object]] = []
    for i in range(60):
        tale = " ".join(
            f"In year {y} the {y % 7}th caravan left town {y * i % 97} with salt." for y in range(40)
        )
        loops = i % 20 == 7
        text = tale + " And then the river rose again." * 200 if loops else tale
        found.append(
            {
                "id": f"{model}{i}",
                "model": model,
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


def test_every_command_of_the_readme_does_what_it_says(
    reader: tuple[Path, dict[str, str], str],
) -> None:
    """A reader who types the README's blocks in order gets no error that the README does not announce."""
    folder, environment, base_url = reader
    lines = readme()
    assert len([line for line in lines if line.program == "stresstest"]) >= 10
    for line in lines:
        if line.program != "stresstest":
            continue
        words = shlex.split(ADDRESS.sub(base_url, line.text), comments=True)
        words = [str(found) for word in words for found in expanded(word, folder)]
        done = subprocess.run(
            [sys.executable, "-m", "stresstest", *words[1:]],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == line.code, f"{line.text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def expanded(word: str, folder: Path) -> list[str]:
    """A shell's work: the files that a pattern means."""
    if "*" not in word:
        return [word]
    return sorted(str(path.relative_to(folder)) for path in folder.glob(word)) or [word]


def test_every_make_target_of_the_readme_exists() -> None:
    """`make X` in a block is a target of the Makefile; CI runs these themselves."""
    targets = set(
        re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    asked = {shlex.split(line.text, comments=True)[1] for line in readme() if line.program == "make"}
    assert asked
    assert asked <= targets
