"""A unit pattern of a user's own cannot hang a command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.errors import UsageError
from stresstest.tasks import load_task
from stresstest.unit_pattern import UnitPattern
from tests.support.commands import called

EXPLOSIVE = [r"^(\d+)?(a|aa)+$", r"^((?:[a-z]|[a-y])+)+[!?](\d+)"]
HARMLESS = [r"^(\d+)?(a+)+$", r"^(?:\w+\s?)*(\d+)\.$", r"^([a-z]+)*(\d+)\.", r"^((?:#|\s)+)*(\d)$"]
"""These explode in the standard library only."""


@pytest.mark.parametrize("pattern", EXPLOSIVE)
def test_a_repetition_inside_a_repetition_is_refused(pattern: str) -> None:
    """It hung for minutes and ignored SIGTERM and Ctrl-C."""
    with pytest.raises(UsageError, match="takes too long"):
        UnitPattern(pattern).require_fast()


@pytest.mark.parametrize("pattern", HARMLESS)
def test_what_this_engine_decides_at_once_is_allowed(pattern: str) -> None:
    """A pattern is refused for the time it takes, not for its looks."""
    UnitPattern(pattern).require_fast()
    assert UnitPattern(pattern).search("a" * 5000 + "!") is None


def test_a_search_that_takes_too_long_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the pattern explodes only on what a model wrote."""
    monkeypatch.setattr("stresstest.unit_pattern._SECONDS", 0.05)
    pattern = UnitPattern(r"^(\d+)(è|èè)+$")
    pattern.require_fast()
    with pytest.raises(UsageError, match="on a text of 62 characters"):
        pattern.search("1" + "è" * 60 + "!")
    with pytest.raises(UsageError, match="takes too long"):
        list(pattern.finditer("1" + "è" * 60 + "!"))


ENORMOUS = [
    r"(\d+)a{100000000}",
    r"(\d+)(?:(?:(?:abc){1000}){1000}){1000}",
    r"(\d+)[ab]{2000000000,}",
    r"(?x)(\d+)a{100 000 000}",
    "(?x)(\\d+)a{1000#\n00000}",
    r"(\d+)" + "a" * 5000,
]


@pytest.mark.parametrize("pattern", ENORMOUS)
def test_a_pattern_that_is_enormous_when_compiled_is_refused(pattern: str) -> None:
    """Compiling has no time limit: twenty characters took minutes, gigabytes, and no Ctrl-C."""
    with pytest.raises(UsageError, match=r"repeats too much|longer than"):
        UnitPattern(pattern)


def test_usual_counts_are_allowed() -> None:
    """A heading of one to six hashes and a number of one to four digits is what patterns are for."""
    found = UnitPattern(r"^\s{0,3}#{1,6}\s{1,4}(\d{1,4})[.)]").search("## 12. The mill")
    assert found is not None
    assert found.group(1) == "12"


@pytest.mark.parametrize("task", ["narrative", "technical", "qa"])
@given(text=st.text(alphabet="Paragrafo Section 0123456789.:#*\nè", max_size=200))
def test_it_finds_what_the_standard_library_finds(task: str, text: str) -> None:
    """The patterns of the shipped tasks mean the same to both engines."""
    for language in load_task(task).languages.values():
        assert language.unit_pattern is not None
        expected = [m.span(1) for m in re.finditer(language.unit_pattern, text, re.MULTILINE)]
        assert [m.span(1) for m in UnitPattern(language.unit_pattern).finditer(text)] == expected


def test_a_task_file_with_such_a_pattern_is_refused(tmp_path: Path) -> None:
    """Before anything is measured, with the place in the file and what to do."""
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\n[languages.en]\ninstruction = "Write {units} parts about {topic}."\n'
        "topics = [\"rain\"]\nunit_pattern = '^(\\d+)?(a|aa)+$'\n"
    )
    done = called("plan", "--task", "./mine.toml", "--lang", "en", tmp_path=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "unit_pattern" in done.stderr
    assert "Repetitions inside repetitions" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    "pattern", [r"((?1)?\w)+x", "(?R)?a", r"(?<n>a(?&n)?)", r"(?P<n>a(?P>n)?)", r"(?P<n>a(?P&n)?)"]
)
def test_a_pattern_that_calls_itself_is_refused(pattern: str) -> None:
    """It took 900 MB within its two seconds, on a text of a few lines."""
    with pytest.raises(UsageError, match="calls itself"):
        UnitPattern(pattern)


def test_what_only_looks_like_a_call_is_taken() -> None:
    """An optional bracket before a digit, and a flag."""
    for pattern in (r"^(?:\(?1\)|Par (\d+))", r"(?-i:Par) (\d+)"):
        assert UnitPattern(pattern).search("Par 3") is not None


def test_flags_that_exclude_each_other_are_told_as_such() -> None:
    """The sentence was that the task file is no valid TOML."""
    with pytest.raises(UsageError, match="is not a valid regular expression"):
        UnitPattern("(?a)(?u)x")
