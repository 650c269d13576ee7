"""Which log a line comes from: every format that scan promises, and nothing else taken for an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.errors import UsageError
from stresstest.model import Message
from stresstest.records import FieldMapping, Record, UnreadableError, parse_fields, parse_line
from stresstest.records.formats.registry import parse_json_object
from stresstest.records.record import TextlessError

CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "qwen",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Good morning."}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
}


def read(row: Any, mapped: FieldMapping | None = None) -> Record:
    (record,) = parse_line(json.dumps(row).encode(), "f.jsonl", 4, mapped or FieldMapping())
    return record


@pytest.mark.parametrize("several", [1, 2])
def test_a_list_of_the_answers_to_a_prompt(several: int) -> None:
    """Transformers' chat pipelines return a list for each prompt, and the whole conversation each time."""
    turns = [{"role": "user", "content": "And the sea?"}, {"role": "assistant", "content": "It is wide."}]
    line = json.dumps([{"generated_text": turns}] * several).encode()
    found = parse_line(line, "f.jsonl", 4, FieldMapping())
    assert [(each.prompt_text, each.text) for each in found] == [("And the sea?", "It is wide.")] * several


@pytest.mark.parametrize("key", ["response", "output", "text"])
def test_plain_lines_with_everything_that_the_contract_names(key: str) -> None:
    """The plain format: all optional keys are read, under either name of the text."""
    row = {
        "id": "a",
        key: "Once upon a time.",
        "finish_reason": "length",
        "max_tokens": 512,
        "prompt_tokens": 9,
        "completion_tokens": 512,
        "start": 10.5,
        "end": "2026-11-21T20:00:00Z",
        "model": "m",
        "task": "story",
        "language": "en",
    }
    record = read(row)
    assert (record.id, record.text, record.finish_reason) == ("a", "Once upon a time.", "length")
    assert (record.max_tokens, record.prompt_tokens, record.completion_tokens) == (512, 9, 512)
    assert (record.start, record.end) == (10.5, 1795291200.0)
    assert (record.model, record.task, record.language) == ("m", "story", "en")


def test_what_is_not_there_is_none_and_the_place_is_the_name() -> None:
    """Absent is never 0 and never an empty string."""
    record = read({"text": "Hello."})
    assert record.id == "f.jsonl:4"
    unknown = (record.model, record.finish_reason, record.max_tokens, record.completion_tokens, record.start)
    assert unknown == (None,) * 5
    assert record.prompt_key is None
    assert record.tokens is None


def test_openai_batch_output() -> None:
    """custom_id names the request, not the batch's own id; the body is a chat completion."""
    record = read(
        {
            "id": "batch_req_1",
            "custom_id": "request-7",
            "response": {"status_code": 200, "request_id": "r", "body": CHAT},
            "error": None,
        }
    )
    assert (record.id, record.text, record.model) == ("request-7", "Good morning.", "qwen")
    assert (record.finish_reason, record.completion_tokens, record.prompt_tokens) == ("stop", 3, 7)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"custom_id": "a", "response": None, "error": {"code": "batch_expired"}}, "batch_expired"),
        ({"custom_id": "a", "response": {"status_code": 429, "body": {}}, "error": None}, "429"),
        ({"id": "a", "prompt": "only asked"}, "no text"),
        ({"id": "a", "response": 17}, "no text there: a number"),
        ({"id": "a", "response": {"foo": 1}}, "no text there: an object"),
        ({"id": "a", "text": "x", "completion_tokens": "many"}, "not a token count"),
        ({"id": "a", "text": "x", "max_tokens": -3}, "not a token count"),
        ({"object": "chat.completion", "choices": []}, "no choices"),
        ({"choices": [{"message": {"content": None, "tool_calls": [{}]}}]}, "tool calls"),
        ({"id": "a", "response": [{"choices": []}, {"choices": []}]}, "no text there: a list without a text"),
        ({"id": "a", "answer": "x"}, "no text in it: it has id, answer$"),
        ({"data": [{"choices": []}]}, r"it has data \(a list\)$"),
        ({"messages": [{"role": "user", "content": "Why?"}]}, r"it has messages \(a list\)$"),
        ({"messages": [{"role": "assistant", "content": None}]}, r"it has messages \(a list\)$"),
        ([1, 2], "a list, not an object"),
        ("a", "a text, not an object"),
    ],
)
def test_lines_without_an_answer_say_why(row: Any, reason: str) -> None:
    """A damaged line is named with its reason; a failed request is no empty answer."""
    with pytest.raises(UnreadableError, match=reason):
        read(row)


@pytest.mark.parametrize(
    "row",
    [
        {"choices": [{"message": {"content": None, "tool_calls": [{}]}}]},
        {"messages": [{"role": "user", "content": "Go."}, {"role": "assistant", "tool_calls": [{}]}]},
        {"object": "response", "output": [{"type": "function_call", "name": "f", "arguments": "{}"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "input": {}}], "stop_reason": "tool_use"},
    ],
)
def test_a_tool_call_is_an_answer_in_good_order(row: Any) -> None:
    """It has no text to judge, and it is no damage: every log of an agent is full of them."""
    with pytest.raises(TextlessError, match="only tool calls, no text"):
        read(row)


QUIZZES = [
    {"question": "Why?", "choices": [{"label": "A", "text": "So."}], "answer": "A"},
    {"question": "Why?", "choices": [{"index": 0, "text": "So."}, {"index": 1, "text": "No."}]},
    {"question": "Why?", "choices": ["So.", "No."]},
    {"question": "Why?", "choices": []},
]


@pytest.mark.parametrize("quiz", QUIZZES, ids=["labels", "indices", "texts", "none"])
def test_choices_of_a_quiz_are_no_choices_of_a_response(quiz: dict[str, Any]) -> None:
    """Models write quizzes as JSON, and rows of exams keep theirs beside the answer: what is judged is the
    answer, once and whole."""
    assert read({"id": "a", "response": json.dumps(quiz)}).text == json.dumps(quiz)
    assert read({"id": "a", "response": "B.", **quiz}).text == "B."


@pytest.mark.parametrize("key", ["output_text", "model_output", "generation", "generations", "prediction"])
def test_further_names_for_what_a_model_wrote(key: str) -> None:
    """Evaluation kits each have their own."""
    assert read({"id": "a", "prompt": "Why?", key: "So."}).text == "So."


def test_several_generations_are_several_answers() -> None:
    """As texts, or as objects that hold one."""
    found = parse_line(b'{"generations": ["One.", {"text": "Two."}]}', "f", 1, FieldMapping())
    assert [each.text for each in found] == ["One.", "Two."]


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]},
        {"conversations": [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "So."}]},
        {"conversation": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]},
    ],
)
def test_the_last_turn_of_a_conversation_is_the_answer(row: Any) -> None:
    """What comes before it is the prompt; the answer is none of its own."""
    record = read({"id": "a", **row})
    assert (record.text, record.prompt_text) == ("So.", "Why?")
    assert record.messages == (Message("user", "Why?"),)


ASKED = {"role": "user", "content": "Why?"}
SAID = {"role": "assistant", "content": "So."}
CALLED = {**SAID, "tool_calls": [{"id": "c", "function": "bash", "arguments": {"cmd": "ls"}}]}
RESULT = {"role": "tool", "content": "a.txt"}
PARTS = [
    {"type": "reasoning", "reasoning": "Hm."},
    {"type": "text", "text": "S"},
    {"type": "text", "text": "o."},
]


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [ASKED, SAID], "response": "So."},
        {"messages": [ASKED, {**SAID, "content": PARTS}], "response": "So.\n"},
        {"messages": [ASKED, {**SAID, "content": "<think>Hm.</think>\nSo."}], "response": "So."},
        {"messages": [ASKED, SAID], "response": "<think>Hm.</think>\nSo."},
        {"messages": [ASKED, SAID, RESULT], "response": "So."},
        {"messages": [ASKED, CALLED, RESULT], "response": "So."},
        {"messages": [ASKED, CALLED], "output": {"choices": [{"message": CALLED, "stop_reason": "stop"}]}},
        {"messages": [ASKED, SAID], "generations": ["No.", "So."]},
        {
            "messages": [ASKED, {**SAID, "content": "", "reasoning": "Hm."}],
            "response": "",
            "reasoning": "Hm.",
        },
        {"request": {"messages": [ASKED, {"role": "model", "content": "So."}]}, "response": "So."},
    ],
)
def test_an_answer_is_no_part_of_its_own_prompt(row: Any) -> None:
    """Each answer would have a prompt of its own: five prompts asked sixty times pass a gate as 300."""
    for record in parse_line(json.dumps(row).encode(), "f", 1, FieldMapping()):
        assert record.messages == (Message("user", "Why?"),)
        assert (record.prompt_text, record.prompt_key) == (
            "Why?",
            read({"prompt": "Why?", "text": "x"}).prompt_key,
        )
        assert record.requested_text is None


LONG = "So it was that the harbour was rebuilt. " * 4


@pytest.mark.parametrize(
    "turns",
    [
        [{"type": "human", "content": "Why?"}, {"type": "ai", "content": LONG}],
        [{"type": "human", "data": {"content": "Why?"}}, {"type": "ai", "data": {"content": LONG}}],
        [ASKED, {"role": "agent", "content": LONG}],
        [ASKED, {**SAID, "content": LONG}, {"role": "user", "content": "Thanks!"}],
    ],
)
def test_an_answer_is_found_among_the_turns_of_other_tools(turns: Any) -> None:
    """LangChain's messages, agents by their own name, and a user who had the last word."""
    record = read({"messages": turns, "response": LONG})
    assert (record.text, record.prompt_text) == (LONG, "Why?")


def test_an_answer_that_was_read_out_of_the_conversation_is_refused() -> None:
    """ "42" tells nothing of a turn that looped before it; --field says which of the two is meant."""
    turns = [ASKED, {**SAID, "content": "So it must be six times seven. " * 30}]
    with pytest.raises(UnreadableError, match=r"--field response=messages\.-1\.content"):
        read({"messages": turns, "response": "42"})
    mapped = read({"messages": turns, "response": "42"}, parse_fields(["response=response"]))
    assert mapped.text == "42"
    result = {"role": "tool", "content": "six times seven " * 30}
    assert read({"messages": [ASKED, CALLED, result], "response": "42"}).text == "42"


def test_a_mapped_answer_is_no_part_of_its_own_prompt() -> None:
    """Where --field names a turn of the conversation itself."""
    record = read({"messages": [ASKED, SAID]}, parse_fields(["response=messages.-1.content"]))
    assert (record.text, record.prompt_text) == ("So.", "Why?")


@pytest.mark.parametrize(
    ("turns", "answer"),
    [
        ([ASKED, SAID, ASKED], "So."),
        ([ASKED, SAID, {"role": "user", "content": "Sure?"}, {**SAID, "content": "Yes."}], "Yes, so."),
        ([ASKED, {**SAID, "content": "<think>"}], "Hm.</think> So."),
        ([{"role": "user", "content": "So."}], "So."),
        ([ASKED, {**CALLED, "content": None}, RESULT], ""),
    ],
)
def test_what_the_model_said_before_its_answer_stays_in_the_prompt(turns: Any, answer: str) -> None:
    """Earlier turns, with the answer's own words too, and the beginning that the model was given."""
    record = read({"messages": turns, "response": answer})
    assert record.prompt_text == "\n".join(turn["content"] for turn in turns if turn["content"])


@pytest.mark.parametrize("path", ["messages.-1.content", "messages[-1].content"])
@pytest.mark.parametrize("turns", [1, 3])
def test_a_path_counts_from_the_end_too(path: str, turns: int) -> None:
    """Conversations have any number of turns."""
    row = {"messages": [{"content": f"{n}."} for n in range(turns)]}
    assert read(row, parse_fields([f"response={path}"])).text == f"{turns - 1}."
    with pytest.raises(UnreadableError, match=r"nothing at messages\.-9\.content"):
        read(row, parse_fields(["response=messages.-9.content"]))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b'{"id": 1, "text": "cut', "not JSON"),
        (b'{"text": "\xff\xfe"}', "UTF-8"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_bytes_that_are_no_record(raw: bytes, reason: str) -> None:
    """Cut JSON, bytes that are no UTF-8 and absurd nesting are damage, never a traceback."""
    with pytest.raises(UnreadableError, match=reason):
        parse_line(raw, "f", 1, FieldMapping())


def test_chat_logprobs_give_real_tokens_with_entropy() -> None:
    """A character split over two tokens stays whole, entropy comes from the top logprobs."""
    euro = "€".encode()
    content: list[dict[str, Any]] = [
        {"token": "Ten", "bytes": list(b"Ten"), "logprob": -0.1, "top_logprobs": [{"logprob": -0.1}]},
        {"token": "?", "bytes": list(b" " + euro[:2]), "logprob": -0.2, "top_logprobs": []},
        {"token": "?", "bytes": list(euro[2:]), "logprob": -0.3, "top_logprobs": [{"logprob": 0.0}]},
    ]
    body = {"choices": [{"message": {"content": "Ten €"}, "logprobs": {"content": content}}]}
    record = read(body)
    assert record.tokens is not None
    assert [t.text for t in record.tokens] == ["Ten", " ", "€"]
    assert record.tokens[0].entropy == pytest.approx(0.3143, abs=1e-3)
    assert record.tokens[1].entropy is None
    assert record.tokens[2].entropy == 0.0


def test_logprobs_that_spell_another_text_are_not_used() -> None:
    """Positions in tokens that are not the text's own would put the onset in the wrong place."""
    content: list[dict[str, Any]] = [{"token": "Other", "bytes": None, "logprob": -0.1, "top_logprobs": []}]
    record = read({"choices": [{"message": {"content": "Text"}, "logprobs": {"content": content}}]})
    assert (record.text, record.tokens) == ("Text", None)


def test_several_choices_are_several_answers_of_one_prompt() -> None:
    """n > 1: each has its own name, they share a cluster, and the usage of all is nobody's."""
    body = {**CHAT, "choices": [{"text": "One."}, {"text": "Two."}]}
    found = parse_line(json.dumps(body).encode(), "f", 1, FieldMapping())
    assert [(r.id, r.text) for r in found] == [("chatcmpl-1#0", "One."), ("chatcmpl-1#1", "Two.")]
    assert found[0].prompt_key == found[1].prompt_key is not None
    assert found[0].completion_tokens is None


@pytest.mark.parametrize(
    ("row", "other", "same"),
    [
        ({"id": "a", "text": "So. " * 40, "score": 1}, {"score": 0}, True),
        ({"id": "a", "text": "So. " * 40}, {"id": "b"}, False),
        ({"id": "a", "text": "So. " * 40}, {"text": "No. " * 40}, False),
        ({"text": "So. " * 40, "at": 1}, {"at": 2}, False),
        ({"id": "a", "text": "So.", "score": 1}, {"score": 0}, False),
        ({"id": "a", "text": "So."}, {}, True),
        ({"doc_id": 3, "doc": {"q": "Why?"}, "text": "So.", "score": 1}, {"score": 0}, True),
        ({"doc_id": 3, "doc": {"q": "Why?"}, "text": "So."}, {"doc": {"q": "Who?"}}, False),
    ],
)
def test_copies_are_one_answer_to_one_document(row: Any, other: Any, same: bool) -> None:
    """Requests of their own that answer alike are no copies: a word, or a text under another id."""
    assert (read(row).row_key == read({**row, **other}).row_key) == same


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("as_text", [False, True])
def test_litellm(wrapped: bool, as_text: bool) -> None:
    """LiteLLM's standard payload, bare or in its callback's envelope, the response as object or as text."""
    payload = {
        "id": "call-1",
        "call_type": "acompletion",
        "status": "success",
        "model": "vllm/qwen",
        "messages": [{"role": "user", "content": "Tell me a story"}],
        "response": json.dumps(CHAT) if as_text else CHAT,
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "startTime": 1795290000.0,
        "endTime": 1795290002.5,
        "model_parameters": {"max_tokens": 256, "temperature": 0.7},
        "metadata": {"user_api_key_alias": "team-a"},
    }
    mapped = parse_fields([], ["metadata.user_api_key_alias", "temperature"])
    record = read({"standard_logging_object": payload} if wrapped else payload, mapped)
    assert (record.id, record.text, record.model) == ("call-1", "Good morning.", "vllm/qwen")
    assert (record.max_tokens, record.finish_reason, record.completion_tokens) == (256, "stop", 3)
    assert record.end is not None
    assert record.start is not None
    assert record.end - record.start == 2.5
    assert record.prompt_text == "Tell me a story"
    assert record.messages == (Message("user", "Tell me a story"),)
    assert record.extra == {"metadata.user_api_key_alias": "team-a", "temperature": "0.7"}


def test_a_failed_litellm_call_is_no_answer() -> None:
    """`status: failure` has no text to judge, whatever else it holds."""
    with pytest.raises(UnreadableError, match="failed"):
        read({"id": "x", "status": "failure", "response": None, "error_str": "timeout", "startTime": 1.0})


def test_reasoning_and_responses_and_dumped_vllm_outputs() -> None:
    """Reasoning is kept apart, the Responses API and vLLM's own RequestOutput are read as well."""
    thinking = {"message": {"content": "Yes.", "reasoning_content": "Hm."}, "finish_reason": "stop"}
    record = read({"choices": [thinking]})
    assert (record.reasoning, record.text) == ("Hm.", "Yes.")
    output = [{"type": "message", "content": [{"type": "output_text", "text": "Hi there"}]}]
    incomplete = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    record = read({"id": "resp_1", "object": "response", "output": output, **incomplete})
    assert (record.text, record.finish_reason) == ("Hi there", "length")
    outputs = [{"index": 0, "text": "Paris.", "token_ids": [1, 2, 3], "finish_reason": "length"}]
    record = read({"request_id": "0", "prompt": "Capital?", "outputs": outputs})
    assert (record.id, record.text, record.completion_tokens) == ("0", "Paris.", 3)
    assert (record.finish_reason, record.prompt_text) == ("length", "Capital?")


def test_a_user_maps_any_other_layout() -> None:
    """--field reaches into objects and lists, wins over recognition, and makes new keys to group by."""
    row = {"text": "not this", "result": {"answers": [{"t": "This."}]}, "who": {"team": "red"}, "n.a": 5}
    mapped = parse_fields(
        ["response=result.answers[0].t", "team=who.team", "completion_tokens=n.a"], ["team"]
    )
    record = read(row, mapped)
    assert (record.text, record.completion_tokens, dict(record.extra)) == ("This.", 5, {"team": "red"})
    with pytest.raises(UnreadableError, match=r"nothing at result\.answers\.0\.t"):
        read({"text": "x"}, mapped)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("response", "not a mapping"),
        ("=a.b", "not a mapping"),
        ("respnse=a", "Did you mean 'response'"),
        ("id=", "not a mapping"),
        ("foo=bar", "'foo' is not known"),
    ],
)
def test_a_mapping_that_cannot_be_meant_is_refused(given: str, said: str) -> None:
    """A typo in a target would silently judge nothing."""
    with pytest.raises(UsageError, match=said):
        parse_fields([given])


@given(st.text(max_size=12), st.sampled_from(["\\ud83d", "\\ude00", "\\ud83d x", "\\ud83d\\ud83d"]))
def test_half_a_character_is_a_replacement_character(text: str, half: str) -> None:
    """Loggers escape what a token holds, also where it ends inside an emoji: the record is read."""
    quoted = json.dumps(text)
    raw = f'{{"response": {quoted[:-1]}{half}", "n": 1.5}}'.encode()
    row = parse_json_object(raw)
    assert row["n"] == 1.5
    assert row["response"].startswith(text)
    assert "\N{REPLACEMENT CHARACTER}" in row["response"]
    row["response"].encode()
