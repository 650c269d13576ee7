"""Plain records: several samples in one row, and answers with their prompt before them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stresstest.records import FieldMapping, Record, parse_fields, parse_line
from tests.support.stories import story

SAMPLES = [story(1), story(2), story(3)]
PROMPT = "Answer the question with the help of the document: where do the boats go at night?"


def read(row: dict[str, Any], *fields: str) -> list[Record]:
    return parse_line(json.dumps(row).encode(), "f", 1, parse_fields(fields) if fields else FieldMapping())


@pytest.mark.parametrize(
    "key",
    ["response", "generation", "completion", "generated_text", "text", "prediction", "output", "content"],
)
def test_each_sample_of_a_list_is_an_answer(key: str) -> None:
    """Joined (distilabel's grouped generations), they would be an answer longer than any: so would T."""
    found = read({"prompt": PROMPT, key: SAMPLES, "completion_tokens": 900})
    assert [each.text for each in found] == SAMPLES
    assert {each.completion_tokens for each in found} == {None}
    assert len({each.prompt_key for each in found}) == 1


def test_a_sample_that_failed_is_an_answer_without_text() -> None:
    """It may have looped until its client gave up."""
    found = read({"generation": [SAMPLES[0], None, SAMPLES[1]]})
    assert [(each.text, each.has_text) for each in found] == [
        (SAMPLES[0], True),
        ("", False),
        (SAMPLES[1], True),
    ]


def test_tokens_are_counted_where_a_row_keeps_them() -> None:
    """Ray Data's rows hold the ids of the tokens under a name that others use for their number."""
    row = {"prompt": PROMPT, "generated_text": SAMPLES[0], "generated_tokens": [5, 6, 7]}
    assert read(row)[0].completion_tokens == 3
    [record] = read({**row, "num_generated_tokens": 3, "num_input_tokens": 20})
    assert (record.completion_tokens, record.prompt_tokens) == (3, 20)


def test_samples_where_the_user_says(tmp_path: object) -> None:
    """lm-evaluation-harness keeps repeats in a list of lists."""
    found = read({"resps": [SAMPLES]}, "response=resps.0")
    assert [each.text for each in found] == SAMPLES


def test_the_parts_of_a_message_are_one_answer() -> None:
    """LangChain's content may be a list of texts."""
    [record] = read({"role": "assistant", "content": ["The harbour ", "wakes early."]})
    assert record.text == "The harbour wakes early."
    [record] = read(
        {"response": [{"type": "text", "text": "The harbour "}, {"type": "text", "text": "wakes."}]}
    )
    assert record.text == "The harbour wakes."


def test_an_echo_that_was_asked_for_is_no_part_of_the_answer() -> None:
    """vLLM writes the prompt before the answer then: counted with it, T would be longer than any answer."""
    body = {"choices": [{"text": PROMPT + SAMPLES[0], "finish_reason": "stop"}], "usage": {}}
    [record] = read({"request": {"prompt": PROMPT, "echo": True}, "response": body})
    assert record.text == SAMPLES[0]
    [record] = read({"request": {"prompt": PROMPT}, "response": body})
    assert record.text == PROMPT + SAMPLES[0]
    for unknown in (
        [[17, 4, 3]],
        ["Another prompt, of a batch of several.", "And one more of them, which is long."],
    ):
        [record] = read({"request": {"prompt": unknown, "echo": True}, "response": body})
        assert not record.has_text
    assert read({"request": {"prompt": [[17, 4, 3]], "echo": True, "max_tokens": 1}, "response": body}) == []


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": PROMPT, "generated_text": PROMPT + SAMPLES[0]},
        {"inputs": PROMPT, "generated_text": f"<s>[INST] {PROMPT}{SAMPLES[0]}"},
        {"prompt": PROMPT, "text": [PROMPT + SAMPLES[0]]},
        {"prompt": f"{PROMPT}\n", "response": f"system\n{'Be brief. ' * 90}\nuser\n{PROMPT}{SAMPLES[0]}"},
        {"messages": [{"role": "user", "content": PROMPT}], "response": f"user\n{PROMPT}{SAMPLES[0]}"},
        {"question": PROMPT, "response": f"Question: {PROMPT}{SAMPLES[0]}"},
        {
            "prompt": f"<|im_start|>user\n{PROMPT}<|im_end|>\n<|im_start|>assistant\n",
            "generated_text": f"user\n{PROMPT}{SAMPLES[0]}",
        },
    ],
)
def test_where_an_answer_stands_behind_its_prompt(row: dict[str, Any]) -> None:
    """In one text with it, as a transformers pipeline gives it."""
    [record] = read(row)
    assert record.text[record.answer_at :] == SAMPLES[0]


def test_a_server_that_says_why_it_ended_writes_no_prompt() -> None:
    """The log of a guard, in which a model repeats every prompt."""
    [record] = read({"prompt": PROMPT, "response": PROMPT + SAMPLES[0], "finish_reason": "stop"})
    assert record.answer_at is None


def test_a_few_words_of_a_prompt_may_begin_an_answer() -> None:
    """Nobody can tell whose they are."""
    [record] = read({"prompt": "The boats", "response": "The boats are out."})
    assert (record.text, record.answer_at) == ("The boats are out.", None)


@pytest.mark.parametrize("text", [True, False], ids=["JSON text", "object"])
def test_a_body_where_a_field_points_is_read_as_one(text: bool) -> None:
    """Docker keeps each line of a log as text. The body was judged with its JSON around the answer: T was
    more than twice too long."""
    body = {
        "object": "chat.completion",
        "choices": [{"finish_reason": "length", "message": {"role": "assistant", "content": SAMPLES[0]}}],
        "usage": {"completion_tokens": 300},
    }
    (found,) = read({"log": json.dumps(body) + "\n" if text else body, "stream": "stdout"}, "response=log")
    assert (found.text, found.finish_reason, found.completion_tokens) == (SAMPLES[0], "length", 300)


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"prompt_tokens": 40, "completion_tokens": 12, "total_tokens": 52}, 12),
        ({"prompt_tokens": 40, "completion_tokens": 12, "total_tokens": 1_063}, 1_023),
        ({"completion_tokens": 12, "completion_tokens_details": {"reasoning_tokens": 1_011}}, 1_023),
        ({"completion_tokens": 900, "completion_tokens_details": {"reasoning_tokens": 800}}, 900),
        ({"input": 300, "output": 256, "total": 900, "completion_tokens": 256}, 256),
    ],
)
def test_reasoning_that_is_counted_apart_counts(usage: dict[str, Any], counted: int) -> None:
    """Gemini's endpoint of OpenAI's API has thoughts in the total alone, xAI beside the completion: an empty
    answer with a thousand hidden tokens "could not degenerate"."""
    (record,) = read({"response": "So.", "usage": usage, "finish_reason": "stop"})
    assert record.completion_tokens == counted


@pytest.mark.parametrize(("total", "each"), [(80, None), (8_192, 4_096)])
def test_of_several_choices_only_hidden_tokens_count(total: int, each: int | None) -> None:
    """The usage is of all of them together. Two answers that a cap had ended far beyond their text passed."""
    choices = [{"message": {"role": "assistant", "content": "So it is."}, "finish_reason": "length"}] * 2
    found = read({"choices": choices, "usage": {"completion_tokens": total}})
    assert [record.completion_tokens for record in found] == [each, each]
