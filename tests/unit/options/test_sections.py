"""The help of a command: what belongs together stands together, and what is rarely needed comes last."""

from __future__ import annotations

import inspect
import re

import pytest

from stresstest.options.common import with_run_options
from stresstest.options.sections import SECTIONS
from tests.support.commands import command


def test_the_options_of_run_are_in_sections_and_end_with_the_output() -> None:
    """27 flat options are not read: the target comes first, --resume and --json do not."""
    _, out, _ = command("run", "--help")
    titles = re.findall(r"^(\w+):$", out, re.MULTILINE)
    assert titles == list(SECTIONS)
    assert out.index("--model") < out.index("--lang") < out.index("--resume") < out.index("--json")


def test_every_option_that_commands_share_has_a_section() -> None:
    """An option of `run` without a section would stand among each command's own."""

    @with_run_options
    def example(options: dict[str, object]) -> None: ...

    shown = [
        name
        for name, each in inspect.signature(example).parameters.items()
        if name not in ("context", "store", "api_key", "display", "config") and each
    ]
    listed = {name for names in SECTIONS.values() for name in names}
    assert [name for name in shown if name not in listed] == []


@pytest.mark.parametrize(
    "words", ["export dpo", "export kto", "export generations", "export runs", "runs list"]
)
def test_commands_of_a_group_have_the_sections_too(words: str) -> None:
    """`export` and `runs` read like the other commands: their files and --json come last."""
    _, out, _ = command(*words.split(), "--help")
    titles = re.findall(r"^(\w+):$", out, re.MULTILINE)
    assert titles[-1] == "Output"
    assert out.index("Output:") < out.index("--json" if "--json" in out else "--output")
