"""Texts that hold a prompt in a chat template, in logs that have no prompts beside them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stresstest.records.record import Record
from stresstest.records.templated_texts import without_templated_prompts

ASK, SAY = "Where do the boats go at night?", "They stay in the harbour."
VICUNA = "A chat between a curious user and an assistant. USER: {} ASSISTANT: {}"
TEMPLATES = {
    "ChatML": "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n"
    "<|im_start|>assistant\n{}",
    "Llama 3": "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n{}",
    "Gemma": "<pad><pad><bos><start_of_turn>user\n{}<end_of_turn>\n<start_of_turn>model\n{}",
    "DeepSeek": "<｜begin▁of▁sentence｜>Be brief.<｜User｜>{}<｜Assistant｜>{}",
    "Phi": "<|system|>\nBe brief.<|end|>\n<|user|>\n{}<|end|>\n<|assistant|>\n{}",
    "Mistral": "<s>[INST] {} [/INST] {}",
    "skipped": "system\nBe brief.\nuser\n{}\nassistant\n{}",
    "Llama 3, skipped": "system\n\nCutting Knowledge Date: December 2023\n\nuser\n\n{}assistant\n\n{}",
    "Granite, skipped": "systemBe brief.\nuser{}\nassistant{}",
    "Vicuna": VICUNA,
    "Alpaca": "Below is an instruction.\n\n### Instruction:\n{}\n\n### Response:\n{}",
}


def record(text: str, **fields: str) -> Record:
    return replace(Record("a", "f", 1, text, read_from="'output'"), **fields)  # type: ignore[arg-type]


def texts(records: list[Record]) -> list[str]:
    return [each.text for each in without_templated_prompts(records)]


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_an_answer_begins_behind_its_prompt(template: str) -> None:
    """T was the prompt's length too high."""
    full = [record(template.format(f"{ASK} ({n})", f"{SAY} ({n})")) for n in range(20)]
    found = without_templated_prompts(full)
    assert [each.text for each in found] == [f"{SAY} ({n})" for n in range(20)]
    assert all(ASK in each.prompt_text and SAY not in each.prompt_text for each in found)
    assert len({each.prompt_key for each in found}) == 20
    assert {each.read_from for each in found} == {"'output' behind the prompt"}


def test_turns_that_a_model_writes_itself_stay() -> None:
    """Behind its answer, some texts ask again and answer: that is a failure, and no prompt."""
    again = f"{SAY}<|im_end|>\n<|im_start|>user\n{ASK}<|im_end|>\n<|im_start|>assistant\n{SAY}"
    assert texts([record(SAY)] * 5 + [record(again)] * 15) == [SAY] * 5 + [again] * 15
    whole = [f"No. {n}: {again}" for n in range(20)]
    assert texts(list(map(record, whole))) == whole, "each has an answer of its own before that"
    full = TEMPLATES["ChatML"].format(ASK, again)
    once = TEMPLATES["ChatML"].format(ASK, SAY)
    assert texts([record(once)] * 19 + [record(full)]) == [SAY] * 19 + [again]


def test_whole_conversations_stay() -> None:
    """Nobody can tell which of the turns a model wrote by itself, and a loop of them must not be cut off."""
    template = TEMPLATES["ChatML"]
    more = "\n<|im_start|>user\nAnd by day?<|im_end|>\n<|im_start|>assistant\nThey fish."
    whole = [template.format(ASK, SAY) + more * n for n in range(1, 21)]
    found = without_templated_prompts(list(map(record, whole)))
    assert [each.text for each in found] == whole
    assert {(each.read_from, each.several_turns) for each in found} == {("'output' with several turns", True)}
    mixed = without_templated_prompts(
        list(map(record, [template.format(ASK, SAY)] * 10 + [template.format(ASK, SAY) + more] * 10))
    )
    assert [(each.text == SAY, each.several_turns) for each in mixed] == [(True, False)] * 10 + [
        (False, True)
    ] * 10
    dialogues = [f"User: {ASK}\nAssistant: {SAY}\n" * n for n in range(2, 22)]
    assert texts(list(map(record, dialogues))) == dialogues


def test_answers_that_hold_no_prompt_stay() -> None:
    """A prompt beside the text is looked for there; a server that says why an answer ended writes none."""
    full = VICUNA.format(ASK, SAY)
    for fields in ({"prompt_text": ASK}, {"finish_reason": "stop"}):
        assert texts([record(full, **fields)] * 20) == [full] * 20
    assert texts([record(full, finish_reason="stop", read_from="'generated_text'")] * 20) == [SAY] * 20
    assert texts([]) == []


def test_nothing_behind_the_prompt_is_an_answer_without_text() -> None:
    """An empty one, or one that the log has cut."""
    found = without_templated_prompts(
        [record(VICUNA.format(ASK, SAY))] * 19 + [record(VICUNA.format(ASK, ""))]
    )
    assert (found[-1].text, found[-1].has_text) == ("", False)
