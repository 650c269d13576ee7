"""Files that a user names, and that do not end, or do not begin."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stresstest.config.foreign_files import MAX_FILE, read_file
from stresstest.config.settings import resolve
from stresstest.errors import UsageError
from stresstest.simulation.engine.scenario.file import load_scenario
from stresstest.tasks import load_task
from stresstest.tasks.prompts_file import load_prompts
from tests.support.commands import called

TASK = 'name = "mine"\n[languages.en]\ninstruction = "Write {units} parts about {topic}."\n'


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe.toml"
    os.mkfifo(path)
    return path


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are of POSIX")
def test_a_named_pipe_is_refused(pipe: Path) -> None:
    """Opening one without a writer waits for ever, before Ctrl-C is heard."""
    for read in (load_task, load_scenario, load_prompts, lambda path: resolve({}, config_file=Path(path))):
        with pytest.raises(UsageError, match="named pipe"):
            read(str(pipe))


def test_a_file_without_an_end_is_refused() -> None:
    """/dev/zero, or a log of gigabytes by mistake: all of it went into memory."""
    for what, most in (("task file", MAX_FILE), ("prompts file", 1 << 20)):
        with pytest.raises(UsageError, match=f"^{what} /dev/zero is larger than {most >> 20} MiB$"):
            read_file("/dev/zero", what, most)
    with pytest.raises(UsageError, match="larger than 2 MiB"):
        resolve({}, config_file=Path("/dev/zero"))


def test_a_process_substitution_is_read() -> None:
    """`--task <(generate)` is a pipe too, and has its writer."""
    reading, writing = os.pipe()
    os.write(writing, b"text")
    os.close(writing)
    try:
        assert read_file(f"/dev/fd/{reading}", "task file") == b"text"
    finally:
        os.close(reading)


@pytest.mark.parametrize(
    ("topics", "sentence"),
    [
        (f'topics = ["{"{a}" * 4000}"]\nslots.a = ["{"x" * 50_000}"]', "expands to 200,012,000 characters"),
        (f'topics = ["{"{a}" * 40}"]\nslots.a = {["x" * 1000 + str(n) for n in range(1000)]}', "characters"),
    ],
)
def test_slots_are_limited_in_characters(tmp_path: Path, topics: str, sentence: str) -> None:
    """Few topics may still be gigabytes: a slot is put in as often as it is named."""
    path = tmp_path / "mine.toml"
    path.write_text(f"{TASK}{topics}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=sentence):
        load_task(str(path))


def test_an_instruction_is_limited_with_its_topic(tmp_path: Path) -> None:
    """The topic is put in as often as the instruction names it, once for every prompt."""
    path = tmp_path / "mine.toml"
    long = TASK.replace("{topic}", "{topic}" * 1000)
    path.write_text(f'{long}topics = ["{"x" * 5000}"]\n', encoding="utf-8")
    with pytest.raises(UsageError, match="prompts of more than 4,194,304 characters"):
        load_task(str(path))


def test_a_command_says_so(tmp_path: Path) -> None:
    """The sentence reaches the user, with the exit code of a usage error."""
    result = called("sim", "--scenario", "/dev/zero", tmp_path=tmp_path)
    assert result.returncode == 2
    assert "larger than 2 MiB" in " ".join(result.stderr.split())
