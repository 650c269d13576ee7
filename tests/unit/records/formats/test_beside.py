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
