"""The list of log formats: complete, in order, and open to one more."""

from __future__ import annotations

import importlib
import json
import pkgutil

import pytest

from stresstest.records import FieldMapping, formats
from stresstest.records.formats import registry
from stresstest.records.formats.adapter import Envelope, Place, Row, RowFormat, TextLog
from stresstest.records.formats.bodies.answer import RecordedAnswer
from stresstest.records.formats.fields import answered
from stresstest.records.record import Record, UnreadableError

BODY = {"choices": [{"message": {"content": "Good."}}]}
EXAMPLES: dict[str, Row] = {
    "OpenTelemetry spans": {"attributes": {"gen_ai.completion": "Good."}},
    "LiteLLM callback": {"standard_logging_object": {"response": BODY}},
    "conversation": {"messages": [{"role": "assistant", "content": "Good."}]},
    "Responses API": {"output": [{"content": "Good."}]},
    "chat completion": BODY,
    "OpenAI batch output": {"response": {"status_code": 200, "body": BODY}},
    "logged request with its response": {"request": {"max_tokens": 9}, "response": BODY},
    "failed request": {"response": None},
    "plain record": {"text": "Good."},
    "vLLM outputs": {"outputs": [{"text": "Good."}]},
}
"""A row of each format that is recognised without a mapping."""


def test_every_adapter_is_listed() -> None:
    """A module whose adapter nobody lists would never read a row."""
    found = {
        adapter.name
        for module in pkgutil.walk_packages(formats.__path__, f"{formats.__name__}.")
        for adapter in vars(importlib.import_module(module.name)).values()
        if isinstance(adapter, RowFormat | Envelope | TextLog)
    }
    listed: tuple[RowFormat | Envelope | TextLog, ...] = (*registry.ROW_FORMATS, *registry.TEXT_LOGS)
    assert found == {each.name for each in listed}
    assert len({each.name for each in listed}) == len(listed) == len(found)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_first_format_that_recognises_a_row_is_its_own(name: str) -> None:
    """Order decides where several formats could read a row."""
    row = EXAMPLES[name]
    first = next(each for each in registry.ROW_FORMATS if each.recognises(row, FieldMapping()))
    assert first.name == name


def test_one_more_format_is_one_adapter_and_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A format of another tool: its rows are read, and all other rows as before."""

    def recognises(row: Row, _mapped: FieldMapping) -> bool:
        return isinstance(row.get("toy"), dict)

    def records(row: Row, place: Place) -> list[Record]:
        return answered(row["toy"], [RecordedAnswer(row["toy"]["said"])], place)

    toy = RowFormat("toy", recognises, records)
    monkeypatch.setattr(registry, "ROW_FORMATS", (toy, *registry.ROW_FORMATS))
    (record,) = registry.parse_line(b'{"toy": {"said": "Good.", "model": "m"}}', "t", 3, FieldMapping())
    assert (record.id, record.text, record.model) == ("t:3", "Good.", "m")
    (plain,) = registry.parse_line(b'{"id": "a", "text": "Fine."}', "t", 4, FieldMapping())
    assert plain.text == "Fine."


LOGGED = {
    "plain": {"output": "Good.", "reasoning_content": "Well."},
    "the guard's log": {"response": "Good.", "reasoning": "Well."},
    "parts": {"response": [{"type": "thinking", "thinking": "Well."}, {"type": "text", "text": "Good."}]},
    "Mistral": {
        "choices": [
            {
                "message": {
                    "content": [
                        {"type": "thinking", "thinking": [{"type": "text", "text": "Well."}]},
                        {"type": "text", "text": "Good."},
                    ]
                }
            }
        ]
    },
    "LiteLLM": {
        "choices": [
            {
                "message": {
                    "content": "Good.",
                    "thinking_blocks": [{"type": "thinking", "thinking": "Well.", "signature": "x"}],
                }
            }
        ]
    },
    "OpenRouter": {
        "choices": [
            {
                "message": {
                    "content": "Good.",
                    "reasoning_details": [{"type": "reasoning.text", "text": "Well."}],
                }
            }
        ]
    },
    "Responses API": {
        "output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Well."}]},
            {"type": "message", "content": [{"type": "output_text", "text": "Good."}]},
        ]
    },
    "a list of answers": {"output": [{"text": "Good.", "reasoning": "Well."}]},
    "vLLM outputs": {"outputs": [{"text": "Good.", "reasoning_content": "Well."}]},
    "conversation": {
        "messages": [{"role": "assistant", "content": "Good.", "reasoning_content": "Well."}],
    },
    "a choice with parts": {
        "choices": [
            {"message": {"content": [{"type": "thinking", "thinking": "Well."}, {"text": "Good."}]}},
        ]
    },
    "OpenTelemetry": {
        "attributes": {
            "gen_ai.output.messages": '[{"role": "assistant", "parts": ['
            '{"type": "reasoning", "content": "Well."}, {"type": "text", "content": "Good."}]}]'
        }
    },
}


@pytest.mark.parametrize("name", LOGGED)
def test_the_reasoning_beside_an_answer_is_judged(name: str) -> None:
    """A loop in it passed unseen, although its tokens were counted."""
    (record,) = registry.parse_line(json.dumps(LOGGED[name]).encode(), "t", 1, FieldMapping())
    assert (record.text, record.reasoning) == ("Good.", "Well.")


def test_an_answer_that_ended_in_its_reasoning_is_judged() -> None:
    """A conversation whose last turn is a thought and no more."""
    turn = {"role": "assistant", "content": None, "reasoning_content": "Well, well."}
    (record,) = registry.parse_line(json.dumps({"messages": [turn]}).encode(), "t", 1, FieldMapping())
    assert (record.text, record.reasoning) == ("", "Well, well.")


def test_a_null_answer_that_spent_tokens_is_no_damage() -> None:
    """Hidden reasoning: skipped as damaged, half of a log could be missing behind "Passed"."""
    choice = {"message": {"content": None}, "finish_reason": "stop"}
    body = {"choices": [choice], "usage": {"completion_tokens": 4000}}
    (record,) = registry.parse_line(json.dumps(body).encode(), "t", 1, FieldMapping())
    assert (record.text, record.completion_tokens) == ("", 4000)
    body["usage"] = {"completion_tokens": 3}
    with pytest.raises(UnreadableError):
        registry.parse_line(json.dumps(body).encode(), "t", 1, FieldMapping())


LONG = "So we write it down. " * 40 + "#### 42"
CHAT_BODY = {
    "choices": [{"index": 0, "message": {"content": "So we add one. " * 60}, "finish_reason": "length"}]
}


LOOP = "So we add one. " * 60
MESSAGE = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": LOOP}]}


@pytest.mark.parametrize(
    ("beside", "path"),
    [
        ({"raw_output": LOOP}, "raw_output"),
        ({"raw_outputs": [LOOP]}, "raw_outputs.0"),
        ({"cot": LOOP}, "cot"),
        ({"raw": LOOP}, "raw"),
        ({"rationale": LOOP}, "rationale"),
        ({"metadata": {"reply": LOOP}}, "metadata.reply"),
        ({"llm_calls": [{"prompt": "p", "said": LOOP}]}, "llm_calls.0.said"),
        ({"raw_response": CHAT_BODY}, "raw_response.choices.0.message.content"),
        ({"raw_response": json.dumps(CHAT_BODY)}, "raw_response"),
        ({"raw_response": MESSAGE}, "raw_response"),
        ({"raw_response": {"candidates": [{"content": {"parts": [{"text": LOOP}]}}]}}, None),
    ],
)
def test_nothing_could_be_read_out_of_a_loop(beside: Row, path: str | None) -> None:
    """The failing answers are those without an extracted one: "[invalid]" is no part of them. A text that
    ends in repetitions is not passed over, whatever its name."""
    for key in ("output", "outputs"):
        line = json.dumps({"question": "How far?", key: "[invalid]", **beside}).encode()
        with pytest.raises(UnreadableError, match=rf"--field response={path or 'raw_response.*'}$"):
            registry.parse_line(line, "t", 1, FieldMapping())


def test_what_stands_beside_a_response_body_is_no_answer() -> None:
    """Pages that were retrieved, and what tools printed, may end in repetitions; so may the thinking of a
    body that is the row itself, which is judged."""
    body = {"choices": [{"message": {"role": "assistant", "content": "So it is."}}]}
    for row in (
        {"response": body, "page": LOOP},
        {"message": {"role": "assistant", "content": "So it is."}, "stdout": LOOP},
    ):
        (found,) = registry.parse_line(json.dumps(row).encode(), "t", 1, FieldMapping())
        assert found.text == "So it is."
    parts = [{"type": "thinking", "thinking": LOOP}, {"type": "text", "text": "So it is."}]
    alone = {"type": "message", "role": "assistant", "content": parts, "stop_reason": "end_turn"}
    (found,) = registry.parse_line(json.dumps(alone).encode(), "t", 1, FieldMapping())
    assert (found.reasoning.strip(), found.text) == (LOOP.strip(), "So it is.")


@pytest.mark.parametrize(
    "beside", [{"prompt": LOOP}, {"messages": [{"role": "user", "content": LOOP}]}, {"documents": [LOOP]}]
)
def test_what_was_asked_may_repeat_itself(beside: Row) -> None:
    """So may everything beside an answer that repeats itself: it is found."""
    row = {"output": "It repeats itself.", **beside}
    assert registry.parse_line(json.dumps(row).encode(), "t", 1, FieldMapping())[0].text == row["output"]
    row = {"output": LOOP, "note": LOOP + "So we add two. " * 40}
    assert registry.parse_line(json.dumps(row).encode(), "t", 1, FieldMapping())[0].text == LOOP


def test_right_answers_are_not_read_as_the_models() -> None:
    """NVIDIA's RULER keeps them under `outputs`, and what the model wrote under `pred`."""
    row = {"index": 1, "pred": "It is 42.", "input": "How far?", "outputs": ["42"], "others": {}}
    with pytest.raises(UnreadableError):
        registry.parse_line(json.dumps(row).encode(), "t", 1, FieldMapping())
    mapped = FieldMapping({"response": ("pred",)})
    assert registry.parse_line(json.dumps(row).encode(), "t", 1, mapped)[0].text == "It is 42."
    turns = [{"role": "user", "content": "How far?"}, {"role": "assistant", "content": "42"}]
    flagged, judged = {"messages": turns, "generated": True}, {"messages": turns, "generated": "It is 42."}
    assert registry.parse_line(json.dumps(flagged).encode(), "t", 1, FieldMapping())[0].text == "42"
    with pytest.raises(UnreadableError):
        registry.parse_line(json.dumps(judged).encode(), "t", 1, FieldMapping())


def test_anthropics_messages_are_read() -> None:
    """As its API, and vLLM's `/v1/messages`, answer: thoughts, text and calls in parts."""
    parts = [
        {"type": "thinking", "thinking": "Well."},
        {"type": "text", "text": "Good. "},
        {"type": "tool_use", "id": "t", "name": "save", "input": {"day": 2}},
    ]
    body = {"type": "message", "role": "assistant", "content": parts, "stop_reason": "max_tokens"}
    counted = {**body, "usage": {"input_tokens": 9, "output_tokens": 12}}
    asked = {"system": "Be brief.", "messages": [{"role": "user", "content": "Go."}], "max_tokens": 12}
    (record,) = registry.parse_line(
        json.dumps({"request": asked, "response": counted}).encode(), "t", 1, FieldMapping()
    )
    assert (record.text, record.reasoning) == ('Good. {"day": 2}', "Well.")
    assert (record.finish_reason, record.completion_tokens, record.max_tokens) == ("max_tokens", 12, 12)
    refused = {**body, "content": [{"type": "text", "text": "No."}], "stop_reason": "refusal"}
    assert registry.parse_line(json.dumps({"response": refused}).encode(), "t", 1, FieldMapping())[0].refused


def test_a_traces_generations_are_its_answers() -> None:
    """Langfuse: the trace's own output is what the application made of them."""
    seen = {"type": "GENERATION", "model": "m", "input": "How far?", "output": LOOP, "id": "o1"}
    trace = {"id": "t1", "input": "How far?", "output": "42", "observations": [{"type": "SPAN"}, seen]}
    (record,) = registry.parse_line(json.dumps(trace).encode(), "t", 1, FieldMapping())
    assert (record.id, record.text, record.model) == ("o1", LOOP, "m")
    ids = {**trace, "observations": ["o1"]}
    assert registry.parse_line(json.dumps(ids).encode(), "t", 1, FieldMapping())[0].text == "42"


@pytest.mark.parametrize("key", ["raw_output", "full_response", "cot", "model_response", "predicted_raw"])
def test_an_extracted_answer_beside_a_far_longer_text_is_not_judged_alone(key: str) -> None:
    """ "42" never loops; the chain of thought that it was read out of does, under a key of the user's own."""
    row = {"question": "How far?", key: LONG, "output": "42", "gold": "42"}
    with pytest.raises(UnreadableError, match=f"'{key}' is far longer than 'output'.*--field response={key}"):
        registry.parse_line(json.dumps(row).encode(), "t", 1, FieldMapping())
    for named in (key, "output"):
        mapped = FieldMapping({"response": (named,)})
        assert registry.parse_line(json.dumps(row).encode(), "t", 1, mapped)[0].text == row[named]


@pytest.mark.parametrize(
    "beside",
    [
        {"context": LONG},
        {"reference_output": LONG},
        {"raw_output": "42 "},
        {"raw_response": json.dumps({"choices": [{"message": {"content": "42"}}], "filler": LONG})},
        {"raw_prompt_output": LONG},
        {"raw_text": LONG.replace("42", "43")},
        {"student_response": LONG},
        {"prompt": LONG[:-2], "full_output": LONG},
    ],
)
def test_long_texts_that_are_no_answer_are_left_alone(beside: Row) -> None:
    """Documents, references, bodies, and the prompt with the answer behind it."""
    row = {"output": "42", **beside}
    assert registry.parse_line(json.dumps(row).encode(), "t", 1, FieldMapping())[0].text == "42"


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"text": "Good.", "generated_text": "Good. " * 9 + "Bad."}, None),
        ({"response": "Good.", "output": "Bad."}, None),
        ({"text": "", "generated_text": "Bad."}, "Bad."),
        ({"output": "Bad.", "text": "Say something bad: Bad.", "prompt": "Say something bad:"}, "Bad."),
        ({"output": "Bad.", "text": "Say something bad: Bad."}, None),
        ({"response": "Well, it is bad: 42", "prediction": "42", "prompt": "What is it?"}, None),
        ({"text": "Same.", "completion": "Same.", "prediction": None}, "Same."),
    ],
)
def test_two_texts_in_one_line_are_not_chosen_from_in_silence(row: Row, text: str | None) -> None:
    """Judged by the first key that is known, a gate would pass over answers that stand under another."""
    line = json.dumps(row).encode()
    if text is None:
        with pytest.raises(UnreadableError, match="differ, and each could be the answer"):
            registry.parse_line(line, "t", 1, FieldMapping())
        named = FieldMapping({"response": (list(row)[1],)})
        assert registry.parse_line(line, "t", 1, named)[0].text == list(row.values())[1]
    else:
        assert registry.parse_line(line, "t", 1, FieldMapping())[0].text == text
