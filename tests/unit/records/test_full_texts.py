"""Whether a log keeps prompts with its answers, or a model repeats them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.records.full_texts import PERHAPS_PROMPTED, prompt_in, without_prompts
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


def test_nothing_but_the_prompt_is_an_answer_without_text() -> None:
    """An empty answer, or an echo: with the prompt's length it would be a long healthy one."""
    found = without_prompts([WITH_IT] * 18 + [replace(WITH_IT, text=PROMPT)] * 2)
    assert [(each.text, each.has_text) for each in found] == [(ALONE.text, True)] * 18 + [("", False)] * 2


def test_a_text_that_has_its_prompt_twice_stays() -> None:
    """That is an echo."""
    twice = replace(WITH_IT, text=f"{PROMPT}\n{PROMPT}", prompt_text=PROMPT)
    assert texts(*[WITH_IT] * 18, twice) == [ALONE.text] * 18 + [twice.text]


def test_a_prompt_that_stays_is_told() -> None:
    """Of two models in one log, one's texts hold the prompt; a short question ends a longer one."""
    mixed = without_prompts([ALONE, WITH_IT] * 20)
    assert [each.read_from.endswith(PERHAPS_PROMPTED) for each in mixed] == [False, True] * 20
    short = replace(ALONE, prompt_text="Who?", read_from="'generated_text'")
    assert without_prompts([short] * 2)[0].read_from == f"'generated_text'{PERHAPS_PROMPTED}"
    assert without_prompts([replace(short, prompt_text=PROMPT)])[0].read_from == "'generated_text'"


@pytest.mark.parametrize("cut", [slice(0, 260), slice(-260, None)], ids=["at its end", "at its beginning"])
def test_a_prompt_that_was_cut_to_fit_is_found(cut: slice) -> None:
    """A script with `truncation=True` decodes all ids: T was 489 words, ten times the true one."""
    prompt = f"{PROMPT} {'The boats lie at the pier, where the nets are mended. ' * 9}Write three sentences."
    kept = prompt[cut]
    _, end = prompt_in([prompt], f"{kept}{ALONE.text}") or (0, 0)
    assert end == len(kept.rstrip())
    assert prompt_in([prompt], f"{kept[:150]}{ALONE.text}") == (0, 0)
    assert prompt_in([prompt], f"So be it. {kept}{ALONE.text}") == (0, 0)


@pytest.mark.parametrize("mark", ["<think>\n", ""])
def test_a_prompt_that_an_answer_restates_is_no_beginning(mark: str) -> None:
    """Asked for "Question: … Answer: …", a model writes both behind its thought: the loops of the thoughts
    were taken for what a template writes before a prompt, and the log passed the gate."""
    texts_before = [
        f"{mark}First I look at boat number {'abcdefghijklmnopqrst'[n]} and then on. " * 9 for n in range(20)
    ]
    restated = [
        replace(
            ALONE,
            text=f"{before}{PROMPT} {ALONE.text}",
            prompt_at=len(before),
            answer_at=len(before + PROMPT),
        )
        for before in texts_before
    ]
    assert texts(*restated) == [each.text for each in restated]


def test_what_all_texts_begin_with_is_a_template() -> None:
    """A long system prompt with today's date, which the log's prompt does not have."""
    heads = [
        f"system\nYou are an assistant of the harbour. Today is the {n} of May. {'Be brief. ' * 9}"
        for n in (1, 23)
    ]
    full = [
        replace(ALONE, text=f"{head}{PROMPT} {ALONE.text}", prompt_at=len(head), answer_at=len(head + PROMPT))
        for head in heads * 10
    ]
    assert texts(*full) == [ALONE.text] * 20


def test_where_nobody_looked_nothing_changes() -> None:
    """A server's text is the model's alone."""
    body = replace(WITH_IT, answer_at=None)
    assert texts(body, body) == [body.text] * 2
    assert texts() == []


LONG = "You are a careful assistant of a company that repairs boats."


@pytest.mark.parametrize(
    ("turns", "before"),
    [
        ([PROMPT], f"user\n{PROMPT}\nassistant\n"),
        ([LONG, "And now?"], f"system\n{LONG}\nuser\nAnd now?\nassistant\n"),
        (["Hi there"], "<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n"),
        (["Where do the boats go , and why not to sea ?"], "Where do the boats go, and why not to sea?"),
        (
            [PROMPT, "In the harbour.", PROMPT],
            f"user\n{PROMPT}\nassistant\nIn the harbour.\nuser\n{PROMPT}\n",
        ),
        ([f"<s>[INST] {PROMPT} [/INST]"], f"{PROMPT} "),
    ],
)
def test_the_prompt_is_found_as_templates_and_tokenizers_write_it(turns: list[str], before: str) -> None:
    """Special tokens left out, a short last turn, spaces cleaned up."""
    text = before + ALONE.text
    place = prompt_in(turns, text)
    assert place is not None
    [found] = without_prompts([replace(ALONE, text=text, prompt_at=place[0], answer_at=place[1])])
    assert found.text.strip() == ALONE.text


def test_short_prompts_tell_against_it() -> None:
    """A few long prompts that a model repeats, among many short ones that it does not."""
    assert prompt_in(["And now?"], ALONE.text) == (0, 0)
    assert prompt_in(["They stay"], ALONE.text) is None
    assert prompt_in([" "], ALONE.text) is None


@given(st.lists(st.text(max_size=60), max_size=4), st.text(max_size=300))
def test_any_prompt_and_text(turns: list[str], text: str) -> None:
    """Both places are in the text, one behind the other."""
    place = prompt_in(turns, text)
    assert place is None or 0 <= place[0] <= place[1] <= len(text)
