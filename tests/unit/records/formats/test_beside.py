"""Texts beside the answer, and what it takes to look at them."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from stresstest.records import FieldMapping, UnreadableError, parse_line
from stresstest.records.formats import beside
from stresstest.records.formats.asked import PROMPT_KEYS, prompt_text
from tests.support.stories import story

PASSAGE = story(6)


def test_the_prompt_is_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of one megabyte with many turns and many passages took its lists' product: 44 s for 2.6 MB."""
    joined = Mock(side_effect=prompt_text)
    monkeypatch.setattr(beside, "prompt_text", joined)
    turns = [{"role": "user", "content": f"Why {n}?"} for n in range(300)]
    row = {"response": "Done.", "messages": turns, "hits": [f"{PASSAGE}{n} Done." for n in range(300)]}
    assert len(parse_line(row, "a", 1, FieldMapping())) == 1
    assert joined.call_count == len(PROMPT_KEYS)


def test_texts_beside_many_answers_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each of them."""
    named = Mock(side_effect=beside._is_named)
    monkeypatch.setattr(beside, "_is_named", named)
    outputs = [{"text": f"It is {n}."} for n in range(300)]
    assert len(parse_line({"outputs": outputs, "hits": [PASSAGE] * 3}, "a", 1, FieldMapping())) == 300
    named.assert_called_once_with("hits")


def test_a_text_beside_several_answers_is_found() -> None:
    """Any of them may have been read out of it."""
    row = {"outputs": [{"text": "42"}, {"text": "7"}], "raw_output": PASSAGE + "The answer is 7."}
    with pytest.raises(UnreadableError, match="far longer than 'outputs'"):
        parse_line(row, "a", 1, FieldMapping())


def test_a_block_of_a_transcript_is_no_answer() -> None:
    """Claude Code writes a line for each block of a message: the rate was a third of the true one."""
    message: dict[str, Any] = {"id": "m1", "type": "message", "role": "assistant", "stop_reason": None}
    row = {"type": "assistant", "uuid": "u", "parentUuid": "p", "sessionId": "s"}
    thought, said = {"type": "thinking", "thinking": "Well."}, {"type": "text", "text": PASSAGE}
    with pytest.raises(UnreadableError, match="a block of a message in a transcript"):
        parse_line({**row, "message": {**message, "content": [said]}}, "a", 1, FieldMapping())
    (whole,) = parse_line({**row, "message": {**message, "content": [thought, said]}}, "a", 1, FieldMapping())
    assert whole.text == PASSAGE


def test_a_text_that_restates_its_prompt_is_no_prompt() -> None:
    """Evaluations keep the last line of an answer as its prediction: a thought that restates the question
    and loops stood before it, and was taken for the prompt in its template."""
    asked = f"{story(1, seed=3)} Why?"
    loop = "The boat goes out and the boat comes in again. " * 30
    row = {"prompt": asked, "generated_text": f"{asked}\n{loop}\nSo it is.", "prediction": "So it is."}
    with pytest.raises(UnreadableError, match="could be the answer"):
        parse_line(row, "a", 1, FieldMapping())
    fine = {**row, "generated_text": f"<s>[INST] {asked} [/INST] So it is."}
    assert parse_line(fine, "a", 1, FieldMapping())[0].text.endswith("So it is.")


def test_texts_beside_a_long_answer_are_not_looked_for_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them was: an answer of 8 MB with 40,000 passages took hours."""

    class Long(str):
        """A text that counts how often it is searched."""

        searched = 0

        def __contains__(self, each: object) -> bool:
            Long.searched += 1
            return str.__contains__(self, str(each))

    answer = Long(PASSAGE)
    row = {"response": answer, "neighbours": [f"{n}{PASSAGE}" for n in range(300)]}
    beside.refuse_whole_answers(row, "response", [answer], ["response"])
    assert Long.searched <= 16
