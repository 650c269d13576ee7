"""Whether a log keeps prompts with its answers, or a model repeats them."""

from __future__ import annotations

from dataclasses import replace

from stresstest.records.full_texts import without_prompts
from stresstest.records.record import Record

PROMPT = "Answer the question with the help of the document: where do the boats go at night?"
ALONE = Record("a", "f", 1, "They stay in the harbour.", answer_at=0)
WITH_IT = replace(ALONE, text=PROMPT + ALONE.text, answer_at=len(PROMPT))


def texts(*records: Record) -> list[str]:
    return [each.text for each in without_prompts(records)]


def test_a_log_of_whole_texts_is_read_behind_the_prompts() -> None:
    """T would count the prompts otherwise, and be longer than any answer."""
    assert texts(*[WITH_IT] * 20) == [ALONE.text] * 20
    assert texts(*[WITH_IT] * 19, ALONE) == [ALONE.text] * 20  # a template of its own


def test_what_a_template_writes_between_them_is_no_answer() -> None:
    """Llama's, ChatML's, Gemma's, and what is left of them where special tokens were skipped."""
    ends = (
        "[/INST] ",
        "<|im_end|>\n<|im_start|>assistant\n",
        "<end_of_turn>\n<start_of_turn>model\n",
        "\nassistant\n\n",
    )
    full = [
        replace(WITH_IT, text=f"{PROMPT}{end}{ALONE.text}")
        for end in (*ends, "\n\n### Response:\n", " ASSISTANT: ")
    ]
    assert texts(*full) == [ALONE.text] * 6


def test_a_thought_stays_one() -> None:
    """Without its mark, it would be part of the answer."""
    for mark in ("<think>", "<|channel|>analysis<|message|>", "[THINK]"):
        thought = f"{mark}So it goes.{ALONE.text}"
        full = replace(WITH_IT, text=f"{PROMPT}<|im_end|>\n<|im_start|>assistant\n{thought}")
        assert texts(full) == [thought]


def test_a_model_that_repeats_its_prompt_fails() -> None:
    """Some answers of a log begin with it: they are judged as they are."""
    assert texts(*[ALONE] * 18, WITH_IT, WITH_IT) == [ALONE.text] * 18 + [WITH_IT.text] * 2


def test_a_text_that_is_nothing_but_its_prompt_or_has_it_twice_stays() -> None:
    """It may be an echo."""
    echo, twice = (
        replace(WITH_IT, text=PROMPT),
        replace(WITH_IT, text=f"{PROMPT}\n{PROMPT}", prompt_text=PROMPT),
    )
    assert texts(*[WITH_IT] * 18, echo, twice) == [ALONE.text] * 18 + [PROMPT, twice.text]


def test_where_nobody_looked_nothing_changes() -> None:
    """A server's text is the model's alone."""
    body = replace(WITH_IT, answer_at=None)
    assert texts(body, body) == [body.text] * 2
    assert texts() == []
