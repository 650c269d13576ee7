"""Where answers were read adds up the same way however a scan is divided."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stresstest.records import Record
from stresstest.records.full_texts import PERHAPS_PROMPTED
from stresstest.scanning.texts_read import TextsRead, prompt_notes

_PLACES = st.sampled_from(["'response'", "'text'", "conversation"])
_RECORDS = st.lists(
    st.tuples(_PLACES, st.lists(st.text("abc", min_size=1, max_size=8), max_size=6)), max_size=60
)


@given(_RECORDS, st.integers(1, 20))
def test_parts_add_up_to_the_whole(rows: list[tuple[str, list[str]]], size: int) -> None:
    """In chunks of any size, and through a dump; at most 64 names are kept, always the same ones."""
    records = [
        Record(id=str(n), source="f", line=n, text="x", read_from=place, beside=tuple(set(beside)))
        for n, (place, beside) in enumerate(rows, 1)
    ]
    whole, parts = TextsRead(), TextsRead()
    whole.merge(TextsRead.of(records))
    for at in range(0, len(records), size):
        part = TextsRead()
        part.merge(TextsRead.of(records[at : at + size]))
        parts.merge(TextsRead.load(part.dump()))
    assert parts == whole
    assert len(whole.unjudged) <= 64
    assert whole.looked_at == len(records)


def test_several_answers_of_one_line_are_one_line() -> None:
    """looked_at counts lines, places counts answers."""
    found = TextsRead.of(
        [Record(id=str(n), source="f", line=3, text="x", read_from="chat") for n in range(4)]
    )
    assert (found.looked_at, found.places["chat"]) == (1, 4)


def test_unknown_prompts_are_named() -> None:
    """Answers to one prompt pass as independent ones where nobody knows it."""
    (all_of_them,) = prompt_notes({"'output'": 200}, 200, 200, 0, 0)
    assert all_of_them.startswith("No prompts are known: each answer counts as one to a prompt of its own.")
    (some,) = prompt_notes({"'output'": 2000}, 2000, 1200, 800, 800)
    assert some.startswith("1,200 answers have no known prompt")
    assert prompt_notes({"'output'": 200}, 200, 0, 200, 200) == []
    assert prompt_notes({"'output'": 1}, 1, 1, 0, 0) == []
    _, within = prompt_notes({"'generated_text'": 200}, 200, 200, 0, 0)
    assert "may hold the prompt before each answer" in within


def test_prompts_of_few_texts_are_named() -> None:
    """A field that is new in each request, and that the model never read, makes many prompts of four."""
    place = f"'text'{PERHAPS_PROMPTED}"
    (perhaps,) = prompt_notes({place: 20, "'text'": 180}, 200, 0, 200, 200)
    assert perhaps.startswith("20 of 200 texts begin with their prompt")
    assert prompt_notes({place: 10, "'text'": 190}, 200, 0, 200, 200) == []
    (few,) = prompt_notes({"'output'": 200}, 200, 0, 200, 4)
    assert few.startswith("200 prompts have only 4 texts: what stands beside it")
    (one,) = prompt_notes({"'output'": 200}, 200, 0, 200, 1)
    assert one.startswith("200 prompts have one text")
    assert prompt_notes({"'output'": 200}, 200, 0, 200, 101) == []


def test_whole_conversations_are_named() -> None:
    """A model that ran on into invented turns passed a gate: nobody can tell them from the prompt's."""
    *_, several = prompt_notes({"'text' with several turns": 150}, 150, 150, 0, 0)
    assert several.startswith("150 texts hold several turns in a chat template")
