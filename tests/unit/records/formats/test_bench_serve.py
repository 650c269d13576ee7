"""What `vllm bench serve --save-detailed` keeps of a benchmark."""

from __future__ import annotations

from typing import Any

import pytest

from stresstest.records import FieldMapping, Record, parse_fields, parse_line

RESULT: dict[str, Any] = {
    "date": "20261129-040000",
    "backend": "openai-chat",
    "model_id": "m",
    "num_prompts": 3,
    "input_lens": [5, 6, 7],
    "output_lens": [3, 4, 0],
    "ttfts": [0.5, 0.25, 0.0],
    "itls": [[0.25, 0.25], [0.5], []],
    "generated_texts": ["It ends.", "So it goes.", ""],
    "errors": ["", "", "Connection reset"],
    "mean_ttft_ms": 250.0,
}


def read(**changed: Any) -> list[Record]:
    return parse_line({**RESULT, **changed}, "a.json", 1, FieldMapping())


def test_each_request_is_a_record() -> None:
    """A benchmark of one's own model is the log that is at hand."""
    first, second, failed = read()
    assert [(r.text, r.completion_tokens, r.prompt_tokens, r.model) for r in (first, second)] == [
        ("It ends.", 3, 5, "m"),
        ("So it goes.", 4, 6, "m"),
    ]
    assert (first.id, second.id) == ("0", "1")
    assert (failed.text, failed.has_text) == ("", False)
    assert [record.finish_reason for record in (first, second, failed)] == [None, None, "error"]


def test_answers_are_grouped_by_what_the_benchmark_varies() -> None:
    """A model's name stands there under a name of its own, too."""
    mapped = parse_fields([], ("request_rate", "model_id"))
    records = parse_line({**RESULT, "request_rate": 4.0}, "a.json", 1, mapped)
    assert {tuple(record.extra.items()) for record in records} == {
        (("request_rate", "4.0"), ("model_id", "m"))
    }


def test_times_are_read_where_they_were_written() -> None:
    """`cost` needs them; older versions have no start."""
    first, second, _ = read(start_times=[10.0, 10.5, 11.0])
    assert (first.start, first.first_token, first.end) == (10.0, 10.5, 11.0)
    assert (second.start, second.end) == (10.5, 11.25)
    assert read()[0].start is None


@pytest.mark.parametrize("name", ["input_lens", "errors", "ttfts", "itls", "start_times"])
@pytest.mark.parametrize("value", [None, [], ["x"], 3, [[], [], []]])
def test_a_list_that_does_not_fit_is_left_out(name: str, value: Any) -> None:
    """No wrong number of another request's."""
    records = read(**{name: value})
    assert [record.text for record in records] == ["It ends.", "So it goes.", ""]
