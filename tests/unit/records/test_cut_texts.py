"""Logs that cut each text at a length: what failed behind it is not healthy, it was not seen."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.errors import ExitCode
from stresstest.records.cut_texts import with_cuts
from stresstest.records.record import Record
from tests.support.commands import command
from tests.support.stories import story


def records(*texts: str) -> list[Record]:
    return [Record(str(n), "f", n, text) for n, text in enumerate(texts)]


def holes(*texts: str) -> int:
    return sum(record.hole is not None for record in with_cuts(records(*texts)))


PIECES = re.compile(r"\s?\w{1,4}|\W")
"""What a tokenizer might make of a text."""
STORIES = [story(12, seed=n) for n in range(8)]


def cut_at(characters: int) -> list[str]:
    """Cut in the midst of a word, whatever the word."""
    return [text[: characters - 1] + "x" for text in STORIES]


def test_many_previews_are_seen_however_short() -> None:
    """``text[:100]``: 300 answers of which a quarter looped behind that were whole and healthy."""
    told = [story(3, seed=n) for n in range(40)]
    assert holes(*[text[:99] + "x" for text in told]) == 40
    assert holes(*[text[:99] + "x" for text in told[:20]]) == 0, "so few may be a chance"
    assert holes(*[text[: 90 + n] + "x" for n, text in enumerate(told)]) == 0


@pytest.mark.parametrize(
    "mark",
    [
        *("", "...", "…", "... (truncated)", " [truncated]", "... [response truncated]", " [snip]"),
        *("\n(output truncated)", "<|truncated|>", '..."', "**...**", "--- truncated ---", "...(+3456)"),
    ],
)
def test_texts_of_one_greatest_length_were_cut(mark: str) -> None:
    """``text[:1000]``, with and without a mark; shorter ones of the same log are whole."""
    cut = [text + mark for text in cut_at(600)]
    assert holes(*cut, "A short one.", "Another.") == len(cut)
    assert holes(*cut[:4], "A short one.") == 0


@pytest.mark.parametrize(
    "mark",
    [
        "...[{} characters omitted]...",
        "\n\n[... {} chars truncated ...]\n\n",
        "\n..._This content has been truncated to stay below {} characters_...\n",
        "<{} tokens snipped>",
        "... (truncated) ...",
    ],
)
def test_texts_whose_middle_was_cut_out_have_their_hole_there(mark: str) -> None:
    """Head and tail are healthy, and a loop between them was not there: the gate passed."""
    cut = [text[:400] + mark.format(len(text) - 500) + text[-100:] for text in STORIES]
    found = with_cuts(records(*cut, "A short one.", "Another."))
    cut_at = 400 + len(mark) - len(mark.lstrip())
    assert [record.hole for record in found] == [cut_at] * len(STORIES) + [None, None]
    for text, record in zip(STORIES, found, strict=False):
        assert record.text.startswith(text[:400])
        assert record.text.endswith(text[-90:])
        assert len(record.text) < 510
    assert holes(*cut[:4], "A short one.") == 0


def test_answers_that_speak_of_cuts_are_whole() -> None:
    """Code that leaves something out, at places of their own; and one boilerplate in all."""
    lazy = [
        text[: 300 + 9 * n] + "\n[... rest omitted for brevity ...]\n" + text[-200:]
        for n, text in enumerate(STORIES)
    ]
    alike = ["Here is the code.\n[imports omitted]\n" + text for text in STORIES]
    orders = [
        f'{{"order_id": "A12{n}4",\n "skipped": 3, "note": "{text}"}}' for n, text in enumerate(STORIES)
    ]
    assert holes(*lazy) == holes(*alike) == holes(*orders) == 0


@pytest.mark.slow
@pytest.mark.parametrize("flood", [".", "[", "(", "_", "\n", "... ", "…", " removed"])
def test_floods_are_looked_through_in_linear_time(flood: str) -> None:
    """A snippet of code and 1,000 dots took eight seconds."""
    text = "Here is the code snippet, with parts removed " + flood * 200_000
    assert holes(text, text + ".") == 0


def test_texts_that_were_cut_in_bytes_are_seen() -> None:
    """``head -c``: the characters differ, and one may be lost in its middle."""
    cut = [("à" * n + text)[:700].encode()[:500].decode("utf-8", "ignore") for n, text in enumerate(STORIES)]
    cut = [text[:-1] + "x" for text in cut]
    assert len({len(text) for text in cut}) > 1
    assert holes(*cut) >= 5


def test_answers_that_come_out_alike_are_whole() -> None:
    """Records of one shape, the same loop many times, and short answers are no cut texts."""
    rows = [json.dumps({"id": n, "text": "abc" * 100, "valid": n % 2 == 0}) for n in range(10, 20)]
    assert holes(*rows) == 0
    assert holes(*["ha " * 100] * 9) == 0
    assert holes(*(f"Chapter {n}: {STORIES[0][:400]}" for n in range(10, 20))) == 0
    assert holes(*(f"answer {n}" for n in range(10, 20))) == 0


@pytest.mark.parametrize("end", [" (see above)", " [1]", " foo(x)", ".\n", ' {"a": 1}]'])
def test_brackets_that_say_nothing_of_a_cut_are_no_mark(end: str) -> None:
    """Structured answers of one shape, code, references: all of one length, and whole."""
    assert holes(*(text[: 600 - len(end)] + end for text in STORIES)) == 0


@pytest.mark.slow
def test_answers_that_a_server_caps_are_no_cut_texts() -> None:
    """A cap in tokens makes many lengths, and of 300 some are alike by chance."""
    for seed in range(20):
        tales = (story(12, seed=1_000 * seed + n) for n in range(300))
        assert holes(*("".join(PIECES.findall(tale)[:120]) for tale in tales)) == 0


def test_answers_that_end_in_dots_are_whole() -> None:
    """A persona that trails off does so at any length."""
    tales = [story(12, seed=n) for n in range(60)]
    assert holes(*(tale[: 300 + 17 * n].rstrip(" .") + "..." for n, tale in enumerate(tales))) == 0


def test_lists_of_as_many_words_as_requested_are_whole() -> None:
    """Forty keywords are forty words, whatever the answer."""
    rng = Random(1)
    words = sorted(set(" ".join(STORIES).replace(".", "").split()))
    assert holes(*(", ".join(rng.sample(words, 60)) for _ in range(20))) == 0


@pytest.mark.parametrize(
    "shorten",
    [
        lambda text: " ".join(text.split()[:100]) + " …",
        lambda text: textwrap.shorten(text, 600, placeholder=" [...]"),
        lambda text: text[:600].rsplit(" ", 1)[0] + "...",
        lambda text: f"{text[:600]}… {len(text) - 600:,} characters left out",
        lambda text: f"{text[:600]}... [truncated {len(text) - 600} chars]",
        lambda text: f"{text[:600]} (+{len(text) - 600} bytes)",
    ],
)
def test_cuts_at_words_and_marks_with_figures_are_seen(shorten: Callable[[str], str]) -> None:
    """Django's ``truncatewords``, ``textwrap.shorten``, Jinja's ``truncate``, and a mark that says how much
    is missing; one longer text of another field does not hide them."""
    cut = [shorten(f"Chapter {'i' * n}. {text}") for n, text in enumerate(STORIES)]
    assert holes(*cut, story(60, seed=99), "A short one.") == len(cut)


@given(st.lists(st.text(max_size=80), max_size=20))
def test_no_text_is_changed(texts: list[str]) -> None:
    """Only what is known of the ends."""
    assert [each.text for each in with_cuts(records(*texts))] == texts


def test_a_gate_does_not_pass_on_texts_that_were_cut(tmp_path: Path) -> None:
    """18 of 120 answers looped behind character 3,000: a log with 1,000 of each passed, T was certified."""
    log = tmp_path / "log.jsonl"
    texts = [story(40, seed=n)[:1000] for n in range(120)]
    log.write_text(
        "".join(json.dumps({"prompt": f"p{n}", "response": t}) + "\n" for n, t in enumerate(texts))
    )
    code, out, _ = command("scan", str(log), "--lang", "en", "--fail-above", "5%")
    assert code == ExitCode.INCONCLUSIVE
    assert "one that the log has cut" in " ".join(out.split())
    assert "Nothing is certified" in out
