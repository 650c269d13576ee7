"""No line of a log is a command to the CI server that reads it, whatever a field holds."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.model.texts.ci_commands import LOG_COMMAND
from stresstest.options.streams import LogStream
from stresstest.render.json_text import dumps
from stresstest.render.text import sanitize
from tests.support.commands import clean_environment
from tests.support.stories import story

PIECES = st.lists(
    st.sampled_from(
        [
            "::error::x",
            "::",
            ":",
            "##[error]",
            "##vso[task.x]",
            "##",
            "#",
            "vso",
            "[",
            " ",
            "\t",
            "\n",
            "\r",
            "x",
            "\u2003",
        ]
    ),
    max_size=12,
)


def logged(pieces: list[str]) -> str:
    raw = io.BytesIO()
    stream = LogStream(raw, encoding="utf-8", newline="")
    for piece in pieces:
        assert stream.write(piece) == len(piece)
    stream.flush()
    return raw.getvalue().decode()


@given(PIECES)
def test_no_line_begins_with_a_command(pieces: list[str]) -> None:
    """However the text is cut into writes; blanks are inserted, control characters dropped."""
    text = logged(pieces)
    for line in text.replace("\r", "\n").split("\n"):
        assert not line.strip().startswith("::")
        assert not LOG_COMMAND.search(line)
    assert text.replace(" ", "") == sanitize("".join(pieces)).replace(" ", "")


@given(st.lists(st.text(max_size=20).filter(lambda t: ":" not in t and "#" not in t), max_size=6))
def test_other_text_is_written_as_it_is(pieces: list[str]) -> None:
    """Only commands are changed, and control characters dropped."""
    assert logged(pieces) == "".join(sanitize(piece) for piece in pieces)


def test_colours_that_a_pipeline_asks_for_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """FORCE_COLOR, which many CI servers set, makes rich write control characters of its own."""
    assert logged(["\x1b[31mred\x1b[0m"]) == "red"
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert logged(["\x1b[31mred\x1b[0m"]) == "\x1b[31mred\x1b[0m"


def test_our_own_commands_are_written() -> None:
    """`check --github` annotates: its lines are escaped, and are commands on purpose."""
    raw = io.BytesIO()
    stream = LogStream(raw, encoding="utf-8", newline="")
    stream.write_command("::error title=x::y")
    stream.flush()
    assert raw.getvalue() == b"::error title=x::y\n"


@given(st.text(max_size=60))
def test_json_keeps_its_data_and_steers_nothing(text: str) -> None:
    """What a terminal or a CI server would obey is escaped, and reads back as it was."""
    encodable = text.encode("utf-8", "replace").decode()
    key = f"{encodable}\x9b31m##[error]##vso[task.x]\u202e"
    document = dumps({"key": key})
    assert json.loads(document) == {"key": key}
    assert not LOG_COMMAND.search(document)
    assert not {unicodedata.category(c) for c in document if c != "\n"} & {"Cc", "Cf", "Zl", "Zp"}


@pytest.mark.slow
def test_a_group_is_no_command_of_the_pipeline(tmp_path: Path) -> None:
    """The key of a group comes from a log: it began a line of the table."""
    rows = [
        {"id": str(n), "response": story(4, seed=n), "model": "::error::owned ##[error]x"} for n in range(4)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = subprocess.run(
        [sys.executable, "-m", "stresstest", "scan", "a.jsonl", "--group-by", "model", "--show", "3"],
        env=clean_environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "error" in done.stdout
    for line in (done.stdout + done.stderr).splitlines():
        assert not line.strip().startswith("::")
        assert "##[" not in line
