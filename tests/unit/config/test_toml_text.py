"""TOML that somebody else wrote: read as usual, or refused before it takes the machine's memory."""

from __future__ import annotations

import tomllib
import tracemalloc

import pytest

from stresstest.config.toml_text import MAX_KEY_PARTS, parse_toml


@pytest.mark.parametrize("written", ["a{} = 1", "[a{}]", "x = {{a{} = 1}}", "[[a{}]]"])
@pytest.mark.parametrize("part", [".a", ' . "a b"', ".'a'", r'."a\""'])
def test_keys_of_thousands_of_parts_are_refused(written: str, part: str) -> None:
    """A settings file of 50 KB took 2.4 GB, whatever the command."""
    tracemalloc.start()
    with pytest.raises(ValueError, match="more than 32 parts"):
        parse_toml(written.format(part * 25_000))
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * (MAX_KEY_PARTS - 1) + " = 1",
        's = "A sentence. And one more. ' + "Well. " * 500 + '"',
        f's = "{"..." * 200}"',
        "n = [" + "1.5, " * 500 + "]",
        's = """\n' + "0.1, 0.2\n" * 300 + '"""',
        "s = '" + "x" * 200_000 + "'",
    ],
)
def test_everything_else_is_read(text: str) -> None:
    """Prompts have many stops, and lists many numbers."""
    assert parse_toml(text) == tomllib.loads(text)
