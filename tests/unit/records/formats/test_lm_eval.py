"""lm-evaluation-harness's samples: what was generated, not what a filter read out of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stresstest.records import FieldMapping, Record, UnreadableError, parse_line

SAID = "The harbour wakes early."
SAMPLED = {"until": [], "max_gen_toks": 400, "temperature": 0.7}
TURNS = json.dumps([{"role": "user", "content": "Well?"}])


def sample(first: Any, resps: Any, **more: Any) -> dict[str, Any]:
    """A line as lm-eval 0.4.13 writes it; what depends on the filter is given."""
    row = {"doc_id": 0, "doc": {"q": "Well?", "a": "42"}, "target": "42", "arguments": {"gen_args_0": first}}
    read_out = {"filtered_resps": ["42"], "filter": "regex", "exact_match": 0.0, "metrics": ["exact_match"]}
    return {**row, "resps": resps, **read_out, **more}


def read(row: dict[str, Any]) -> list[Record]:
    return parse_line(json.dumps(row).encode(), "f", 1, FieldMapping())


@pytest.mark.parametrize(
    "first",
    [
        {"arg_0": [TURNS], "arg_1": SAMPLED},
        {"arg_0": TURNS, "arg_1": SAMPLED},
        {"arg_0": "Well?", "arg_1": SAMPLED},
        ["Well?", SAMPLED],
        {"arg_0": "Well?", "arg_1": SAMPLED, "arg_2": {"visual": []}},
    ],
)
def test_the_answer_is_read_with_its_prompt_and_its_cap(first: Any) -> None:
    """Of chat models, of completion models, and as versions before 0.4.3 wrote the arguments."""
    [record] = read(sample(first, [[SAID]]))
    assert (record.text, record.prompt_text, record.max_tokens) == (SAID, "Well?", 400)
    assert record.prompt_key is not None


def test_repeated_answers_to_a_document_are_one_cluster() -> None:
    """`repeats: 2` sends a prompt twice, and the line of a second filter holds the same answers again."""
    twice = sample({"arg_0": "Well?", "arg_1": SAMPLED}, [[SAID, SAID + " Again."]])
    found = read(twice) + read({**twice, "filter": "other", "filtered_resps": [SAID]})
    assert [record.text for record in found] == [SAID, SAID + " Again."] * 2
    assert len({record.prompt_key for record in found}) == 1


@pytest.mark.parametrize("resps", [[[["-1.5", "False"]], [["-2.5", "True"]]], [[-1.5, False]]])
def test_texts_that_were_rated_are_left_out(resps: Any) -> None:
    """Multiple choice by likelihood generates nothing."""
    assert read(sample(["Well?", " Yes"], resps)) == []


@pytest.mark.parametrize("request_", [{"arg_0": "A text to rate."}, ["A text to rate."]])
def test_a_text_that_was_rated_as_a_whole_is_left_out(request_: Any) -> None:
    """The harness writes the likelihoods of `loglikelihood_rolling` as texts."""
    assert read(sample(request_, [["-1234.5"]])) == []


def test_answers_in_several_rounds_are_not_passed_over() -> None:
    """lmms-eval's, which were taken for texts that are rated."""
    with pytest.raises(UnreadableError, match="several rounds"):
        read(sample({"arg_0": "Well?", "arg_1": SAMPLED}, [[[SAID, SAID]]]))
