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


def test_many_keys_of_many_parts_are_refused() -> None:
    """24,000 lines below one header, 1.65 MB, took 587 MB."""
    text = f"[{'.'.join('h' * 32)}]\n" + "".join(f"k{n}{'.a' * 31} = 1\n" for n in range(10_000))
    tracemalloc.start()
    with pytest.raises(ValueError, match="more than 20,000 parts"):
        parse_toml(text)
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()


@pytest.mark.parametrize("number", ["0x" + "f" * 4_000, "9" * 400, "-" + "9" * 400, str(2**63)])
def test_a_number_of_more_than_64_bits_is_none_of_toml(number: str) -> None:
    """Python reads them, and cannot print all of them, or take them for a length."""
    with pytest.raises(ValueError, match="more than 64 bits"):
        parse_toml(f"a = [{{ b = {number} }}]")


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * (MAX_KEY_PARTS - 1) + " = 1",
        's = "A sentence. And one more. ' + "Well. " * 500 + '"',
        f's = "{"..." * 200}"',
        "n = [" + "1.5, " * 500 + "]",
        's = """\n' + "0.1, 0.2\n" * 300 + '"""',
        "n = [" + "1.5, " * 30_000 + "]",
        f"n = [{2**63 - 1}, {-(2**63)}]",
        "s = '" + "x" * 200_000 + "'",
    ],
)
def test_everything_else_is_read(text: str) -> None:
    """Prompts have many stops, and lists many numbers."""
    assert parse_toml(text) == tomllib.loads(text)
