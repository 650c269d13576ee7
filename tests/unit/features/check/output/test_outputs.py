"""The files of a check say how this one ended, whatever an earlier one wrote into them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from junitparser import Error, JUnitXml

from stresstest.errors import ExitCode, UsageError
from stresstest.features.check.output.outputs import CheckOutputs
from tests.support.checked_runs import sample, stored
from tests.support.commands import command

UNREACHABLE = ("--baseline", "base", "--measure", "--base-url", "http://127.0.0.1:9/v1", "--gpus", "none")


def results(file: Path) -> list[Any]:
    """Of every case, as a JUnit parser sees it; None for one that passed."""
    suites = JUnitXml.fromfile(str(file))
    return [case.result[0] if case.result else None for suite in suites for case in suite]


@pytest.fixture
def passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a check has passed: a store, r.xml and c.md."""
    monkeypatch.chdir(tmp_path)
    stored("s.sqlite3", "base", sample(0))
    stored("s.sqlite3", "next", sample(0), created=2000.0)
    assert checked("--baseline", "base", "--candidate", "next")[0] == ExitCode.DONE
    assert set(results(tmp_path / "r.xml")) == {None}
    return tmp_path


def checked(
    *words: str, files: tuple[str, ...] = ("--junit", "r.xml", "--markdown", "c.md")
) -> tuple[int, str]:
    code, _, err = command("--store", "s.sqlite3", "--display", "none", "check", *files, *words)
    return code, err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "kind", "said"),
    [
        pytest.param(UNREACHABLE, ExitCode.ENDPOINT, "infrastructure", "127.0.0.1:9", id="server down"),
        pytest.param(("--baseline", "absent"), ExitCode.USAGE, "usage", "absent", id="no such run"),
        pytest.param(("--config", "broken.toml"), ExitCode.USAGE, "usage", "broken.toml", id="broken file"),
    ],
)
def test_a_check_without_a_result_leaves_no_pass_of_an_earlier_one(
    passed: Path, words: tuple[str, ...], code: ExitCode, kind: str, said: str
) -> None:
    """A pipeline publishes the files whatever the exit code: the old ones still said "pass"."""
    Path("broken.toml").write_text("[check\n")
    found, err = checked(*words)
    assert (found, said in err) == (code, True)
    [error] = results(passed / "r.xml")
    assert isinstance(error, Error)
    assert (error.type, said in str(error.message)) == (kind, True)
    comment = (passed / "c.md").read_text()
    assert comment.startswith("### stresstest check: no result")
    assert said in comment


def test_a_check_without_a_result_writes_its_files(passed: Path) -> None:
    """Also where there was none: a step that expects the file finds the reason in it."""
    assert checked(*UNREACHABLE, files=("--output-dir", "new"))[0] == ExitCode.ENDPOINT
    [error] = results(passed / "new" / "check.xml")
    assert isinstance(error, Error)


def test_a_check_that_is_killed_leaves_no_pass_either(passed: Path) -> None:
    """After a time limit nothing is written any more: the old result goes when the check begins."""
    with CheckOutputs("r.xml", "c.md").never_stale():
        [error] = results(passed / "r.xml")
        assert isinstance(error, Error)
        assert error.message == "The check did not come to its end."


def test_an_error_is_written_over_no_file_but_that_of_a_check(passed: Path) -> None:
    """What else stands there may be an input: nobody has looked before the options are resolved."""
    Path("r.xml").write_text("prompts")
    assert checked(*UNREACHABLE)[0] == ExitCode.ENDPOINT
    assert (passed / "r.xml").read_text() == "prompts"


def test_two_outputs_do_not_share_a_file(tmp_path: Path) -> None:
    """The second would replace the first in silence; a device takes both."""
    with pytest.raises(UsageError, match="name the same file"):
        CheckOutputs(str(tmp_path / "r.xml"), str(tmp_path / "." / "r.xml"))
    CheckOutputs("/dev/null", "/dev/null")


@pytest.mark.parametrize("option", ["--baseline", "--candidate"])
def test_a_signed_address_stays_out_of_the_files(passed: Path, option: str) -> None:
    """check reads no addresses; what it says of one is published with the pipeline's files."""
    address = "https://ci:hunter2@bucket.example/before.jsonl?X-Amz-Signature=geheim12"
    other = {"--baseline": "--candidate", "--candidate": "--baseline"}[option]
    code, err = checked(option, address, other, "base")
    assert code == ExitCode.USAGE
    assert f"{option} https://bucket.example/before.jsonl: check reads no addresses" in " ".join(err.split())
    for name in ("r.xml", "c.md"):
        written = (passed / name).read_text()
        assert "check reads no addresses" in written
        assert "hunter2" not in written
        assert "geheim12" not in written
