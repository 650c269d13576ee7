"""Arguments of tool calls are text that the model wrote: scanned with the answer, in a stream's order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stresstest.records import FieldMapping, Record, UnreadableError, parse_line
from stresstest.scanning.answer.verdict import detect_records
from stresstest.scanning.job import ScanJob
from tests.support.stories import LOOP, story

ARGUMENTS = '{"query": "lamp"}'
MORE = '{"day": 2}'
CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": ARGUMENTS}}
CALLS = [CALL, {"type": "function", "function": {"name": "plan", "arguments": MORE}}]


def read(row: Any) -> Record:
    (record,) = parse_line(json.dumps(row).encode(), "f.jsonl", 1, FieldMapping())
    return record


def chat(finish: str = "tool_calls", **message: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", **message}, "finish_reason": finish}]}


def span(output: dict[str, Any]) -> dict[str, Any]:
    return {"name": "chat m", "attributes": {"gen_ai.usage.output_tokens": 3, **output}}


@pytest.mark.parametrize(
    ("row", "text"),
    [
        pytest.param(chat(content=None, tool_calls=CALLS), ARGUMENTS + MORE, id="calls alone"),
        pytest.param(chat(content="I look. ", tool_calls=[CALL]), f"I look. {ARGUMENTS}", id="both"),
        pytest.param(
            chat("function_call", content="So. ", function_call={"name": "f", "arguments": MORE}),
            f"So. {MORE}",
            id="the older function_call",
        ),
        pytest.param(
            chat(content=None, tool_calls=[{"type": "custom", "custom": {"name": "run", "input": "ls -l"}}]),
            "ls -l",
            id="custom tool",
        ),
        pytest.param(
            chat(content=None, tool_calls=[{"function": {"name": "f", "arguments": {"day": 2}}}]),
            MORE,
            id="arguments as an object",
        ),
        pytest.param(
            {
                "type": "message",
                "message": {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "So. "},
                        {"type": "toolCall", "name": "plan", "arguments": {"day": 2}},
                    ],
                    "stopReason": "length",
                },
            },
            f"So. {MORE}",
            id="pi's sessions",
        ),
        pytest.param(
            {
                "role": "assistant",
                "content": "So. ",
                "parts": [
                    {"type": "tool-invocation", "toolInvocation": {"state": "result", "args": {"day": 2}}}
                ],
            },
            f"So. {MORE}",
            id="Vercel's AI SDK 4",
        ),
        pytest.param(
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "So. "},
                    {"type": "toolRequest", "toolCall": {"value": {"name": "f", "arguments": {"day": 2}}}},
                ],
            },
            f"So. {MORE}",
            id="goose",
        ),
        pytest.param(
            {"type": "gemini", "content": "So. ", "toolCalls": [{"name": "f", "args": {"day": 2}}]},
            f"So. {MORE}",
            id="Gemini CLI",
        ),
        pytest.param(
            {
                "role": "assistant",
                "content": "So. ",
                "tools": [{"apiName": "f", "identifier": "p", "arguments": MORE}],
            },
            f"So. {MORE}",
            id="LobeChat",
        ),
        pytest.param(
            {"content": "So. ", "tools": [{"tool_name": "f", "tool_args": {"day": 2}, "result": "ok"}]},
            f"So. {MORE}",
            id="Agno",
        ),
        pytest.param(
            {"content": "So. ", "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]},
            "So. ",
            id="an offer of a tool",
        ),
        pytest.param({"outputs": [{"text": "So. ", "tool_calls": [CALL]}]}, f"So. {ARGUMENTS}", id="DSPy"),
        pytest.param({"response": "So. ", "tool_calls": CALLS}, f"So. {ARGUMENTS}{MORE}", id="beside a text"),
        pytest.param({"text": "", "tool_calls": [CALL]}, ARGUMENTS, id="beside an empty text"),
        pytest.param(
            {"role": "assistant", "content": "So. ", "tool_calls": [CALL]}, f"So. {ARGUMENTS}", id="a message"
        ),
        pytest.param(
            {"response": "", "function_call": {"name": "f", "arguments": MORE}},
            MORE,
            id="older",
        ),
        pytest.param(
            {"response": {"status_code": 200, "body": chat(content=None, tool_calls=[CALL])}},
            ARGUMENTS,
            id="batch output",
        ),
        pytest.param(
            {
                "object": "response",
                "output": [
                    {"type": "message", "content": [{"type": "output_text", "text": "I look. "}]},
                    {"type": "function_call", "name": "f", "arguments": ARGUMENTS},
                    {"type": "custom_tool_call", "name": "g", "input": "ls"},
                ],
            },
            f"I look. \n{ARGUMENTS}\nls",
            id="Responses API",
        ),
        pytest.param(
            {
                "messages": [
                    {"role": "user", "content": "Go."},
                    {"role": "assistant", "content": "Yes. ", "tool_calls": [CALL]},
                ]
            },
            f"Yes. {ARGUMENTS}",
            id="conversation",
        ),
        pytest.param(
            {"content": [{"type": "text", "text": "Yes. "}, {"type": "tool_use", "input": {"day": 2}}]},
            f"Yes. {MORE}",
            id="parts of a content",
        ),
        pytest.param(
            span(
                {
                    "gen_ai.output.messages": [
                        {"role": "assistant", "parts": [{"type": "tool_call", "arguments": {"day": 2}}]}
                    ]
                }
            ),
            MORE,
            id="span",
        ),
        pytest.param(
            span({"gen_ai.completion.0.tool_calls.0.arguments": ARGUMENTS}), ARGUMENTS, id="numbered span"
        ),
        pytest.param(
            span({"gen_ai.completion": json.dumps([{"content": None, "tool_calls": [CALL]}])}),
            ARGUMENTS,
            id="span with a message of OpenAI's",
        ),
    ],
)
def test_arguments_are_text_of_the_answer(row: Any, text: str) -> None:
    """Wherever a log keeps calls, their arguments follow the content, as `run` reads them from a stream."""
    assert read(row).text == text


@pytest.mark.parametrize(
    "call",
    [
        {"type": "mcp_call", "arguments": '{"a": "once more"}'},
        {"type": "code_interpreter_call", "code": "once more"},
        {"type": "shell_call", "action": {"commands": ["echo once more"]}},
        {"type": "local_shell_call", "action": {"command": ["bash", "-c", "echo once more"]}},
        {"type": "apply_patch_call", "operation": {"type": "create_file", "diff": "once more"}},
        {"type": "web_search_call", "action": {"type": "search", "query": "once more"}},
    ],
    ids=lambda call: call["type"],
)
def test_what_the_model_wrote_for_any_kind_of_call_is_judged(call: dict[str, Any]) -> None:
    """A healthy message beside a call that loops let a gate pass; the call's output is not the model's."""
    message = {"type": "message", "content": [{"type": "output_text", "text": "Done."}]}
    output = {"type": "function_call_output", "output": "not this"}
    text = read({"object": "response", "output": [call, output, message]}).text
    assert "once more" in text
    assert "not this" not in text
    assert text.endswith("\nDone.")


@pytest.mark.parametrize("kind", ["mcp_tool_use", "server_tool_use"])
def test_tools_of_the_provider_are_calls_too(kind: str) -> None:
    """Parts of a message, as Anthropic's API has them."""
    row = {"content": [{"type": kind, "input": {"code": "once more"}}, {"type": "text", "text": "Done."}]}
    assert "once more" in read(row).text


@pytest.mark.parametrize(
    ("row", "text", "reasoning"),
    [
        (chat(content="Done. ", refusal="I will not."), "Done. I will not.", ""),
        (chat(content="Done. ", audio={"transcript": "Spoken."}), "Done. Spoken.", ""),
        (chat(content="Done.", provider_specific_fields={"reasoning_content": "Hm."}), "Done.", "Hm."),
        ({"choices": [{"message": {"content": "Done."}, "reasoning_content": "Hm."}]}, "Done.", "Hm."),
        (
            span({"gen_ai.completion.0.content": "Done.", "gen_ai.completion.0.reasoning": "Hm."}),
            "Done.",
            "Hm.",
        ),
    ],
)
def test_what_stands_beside_the_content_is_judged(row: Any, text: str, reasoning: str) -> None:
    """A refusal, spoken words, and reasoning where clients keep the fields that they do not know."""
    record = read(row)
    assert record.text.removeprefix(record.reasoning) == text
    assert record.reasoning == reasoning


@pytest.mark.parametrize(
    "row",
    [
        chat("length", content=None, tool_calls=[{"function": {"name": "f"}}]),
        {
            "object": "response",
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
            "output": [{"type": "function_call", "name": "f", "arguments": ""}],
        },
    ],
)
def test_a_call_that_the_cap_cut_is_not_in_good_order(row: Any) -> None:
    """Nothing of it was kept, yet its tokens were spent: it is an answer, and an empty one."""
    record = read(row)
    assert (record.text, record.finish_reason) == ("", "length")


@pytest.mark.parametrize("calls", [7, "x", [7], [{"function": 7}], [{"function": {"arguments": 7}}]])
def test_calls_of_an_unexpected_shape_break_nothing(calls: Any) -> None:
    """A log may hold anything: what is no call of a tool is none, or is named."""
    try:
        assert read(chat(content="So.", tool_calls=calls, function_call=calls)).text == "So."
    except UnreadableError:
        pytest.fail("an odd call must not hide the content")


@pytest.mark.parametrize("content", [None, story(4)])
def test_a_loop_in_arguments_is_seen(content: str | None) -> None:
    """Its tokens are counted, so its text must be judged: else they certify the content as healthy."""
    looping = json.dumps({"query": f"{LOOP} " * 60})
    call = {"function": {"name": "search", "arguments": looping}}
    record = read(chat("length", content=content, tool_calls=[call]) | {"usage": {"completion_tokens": 900}})
    [judged] = detect_records([record], ScanJob(language="en"), {})
    assert judged.degenerate
    assert judged.onset_char is not None
    assert judged.onset_char >= len(content or "")


def test_healthy_arguments_stay_healthy() -> None:
    """JSON around prose is no failure, and its closing bracket is an end of its own."""
    call = {"function": {"name": "write", "arguments": json.dumps({"path": "a.md", "content": story(12)})}}
    [judged] = detect_records([read(chat(content=None, tool_calls=[call]))], ScanJob(language="en"), {})
    assert (judged.degenerate, judged.unresolved, judged.ended) == (False, False, True)


@pytest.mark.parametrize(
    "row",
    [
        chat(content="I look. ", tool_calls=[CALL]),
        {"object": "response", "output": [{"type": "function_call", "arguments": ARGUMENTS}]},
        {"response": "I look.", "tool_calls": [CALL]},
        {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": CALLS}]},
        span({"gen_ai.completion.0.tool_calls.0.arguments": ARGUMENTS}),
        span({"gen_ai.output.messages": json.dumps([{"role": "assistant", "tool_calls": [CALL]}])}),
    ],
    ids=["chat", "Responses API", "plain", "conversation", "numbered attributes", "output messages"],
)
def test_an_answer_that_calls_tools_says_so(row: Any) -> None:
    """Its text is no text to learn from: the arguments stand in it without the call around them."""
    assert read(row).calls
    assert not read(chat("stop", content="I look.")).calls


PICTURE = {"type": "image_url", "image_url": {"url": "https://host/1.png"}}
OTHER = {"type": "image_url", "image_url": {"url": "https://host/2.png"}}


def asked(*turns: dict[str, Any]) -> Record:
    return read({"messages": list(turns), "response": "Two boats.", "finish_reason": "stop"})


def test_a_prompt_is_more_than_its_text() -> None:
    """Two pictures with one question are two prompts; so are the results of two calls. New ids are none."""
    question = {"type": "text", "text": "What is in the picture?"}
    first, second = (asked({"role": "user", "content": [question, each]}) for each in (PICTURE, OTHER))
    assert first.prompt_text == second.prompt_text
    assert first.prompt_key != second.prompt_key
    assert not first.whole_prompt

    def called(arguments: str, name: str) -> Record:
        call = {"id": name, "type": "function", "function": {"name": "f", "arguments": arguments}}
        turn = {"role": "assistant", "content": None, "tool_calls": [call]}
        return asked({"role": "user", "content": "Go."}, turn, {"role": "tool", "content": "ok"})

    assert called("1", "a").prompt_key == called("1", "b").prompt_key != called("2", "a").prompt_key
    assert not called("1", "a").whole_prompt
    assert asked({"role": "user", "content": "Go."}).whole_prompt


@pytest.mark.parametrize(
    "apart",
    [
        {"system": "Be {}."},
        {"instruction": "Be {}."},
        {"suffix": "{}"},
        {"documents": ["{}"]},
        {"system_prompt": "Be {}."},
        {"context": "It is {}."},
        {"history": [{"role": "user", "content": "{}"}]},
        {"previous_response_id": "resp_{}"},
        {"retrieved_contexts": ["{}"]},
        {"image_url": {"url": "https://host/{}.png"}},
        {"tools": [{"type": "function", "function": {"name": "f{}"}}]},
        {"chat_template_kwargs": {"mode": "{}"}},
        {"messages": [{"role": "user", "content": "Go.", "images": ["{}"]}]},
        {"messages": [{"role": "user", "content": "Go."}, {"type": "function_call_output", "output": "{}"}]},
    ],
    ids=lambda apart: next(iter(apart)),
)
def test_what_a_request_keeps_apart_is_a_part_of_the_prompt(apart: dict[str, Any]) -> None:
    """Two answers to one text under two system prompts answer two prompts."""
    request = {"messages": [{"role": "user", "content": "Go."}], **apart}

    def key(word: str) -> str | None:
        asked = json.loads(json.dumps(request).replace("{}", word))
        return read({"request": asked, "response": chat("stop", content="So.")}).prompt_key

    assert key("a") == key("a") != key("b")


def test_what_the_prompt_holds_already_is_not_apart() -> None:
    """A log that keeps the parts of a prompt beside the whole; a tracer's context is no part of it."""
    whole = {"prompt": "Context: it rains. What falls?", "response": "Rain."}
    plain = read(whole)
    for more in ({"context": "it rains"}, {"context": {"trace_id": "7"}}, {"system_prompt": ""}):
        beside = read({**whole, **more})
        assert (beside.prompt_key, beside.whole_prompt) == (plain.prompt_key, True)


@pytest.mark.parametrize(
    "message",
    [
        {"content": None, "refusal": "I cannot help with that."},
        {"content": [{"type": "refusal", "refusal": "I cannot help with that."}]},
    ],
)
def test_a_refusal_is_marked(message: dict[str, Any]) -> None:
    """What the API says, and no guess by the words."""
    assert read({"prompt": "Go.", "response": chat("stop", **message)}).refused
    assert not read({"prompt": "Go.", "response": chat("stop", content="I cannot help.")}).refused


def test_instructions_are_a_part_of_the_prompt() -> None:
    """The Responses API keeps the system message apart; without an input nothing is known of the prompt."""
    body = {"object": "response", "output": [{"type": "message", "content": [{"text": "Two boats."}]}]}

    def read_body(rules: str, **request: Any) -> Record:
        return read({"request": request, "response": {**body, "instructions": rules}})

    one, other = (read_body(rules, input="Go.") for rules in ("Be brief.", "Be wordy."))
    assert one.prompt_key != other.prompt_key
    assert not one.whole_prompt
    assert read_body("Be brief.").prompt_key is None


def test_the_same_question_has_one_key_however_it_is_written() -> None:
    """As text, as turns and as parts."""
    parts = [{"type": "text", "text": "Go."}]
    texts = (asked({"role": "user", "content": "Go."}), asked({"role": "user", "content": parts}))
    plain = read({"prompt": "Go.", "response": "Two boats."})
    assert {record.prompt_key for record in (*texts, plain)} == {plain.prompt_key}


OF_OTHER_APIS = {
    "Vercel's AI SDK": {"type": "tool-call", "toolCallId": "c1", "toolName": "plan", "input": {"day": 2}},
    "the same, version 4": {"type": "tool-call", "toolCallId": "c1", "toolName": "plan", "args": {"day": 2}},
    "Bedrock's Converse": {"toolUse": {"toolUseId": "c1", "name": "plan", "input": {"day": 2}}},
    "Haystack": {"tool_call": {"tool_name": "plan", "arguments": {"day": 2}, "id": "c1"}},
    "LibreChat": {"type": "tool_call", "tool_call": {"id": "c1", "name": "plan", "args": MORE}},
    "Llama 3.1": {"type": "tool_call", "function": {"name": "plan", "parameters": {"day": 2}}},
    "Gemini": {"functionCall": {"name": "plan", "args": {"day": 2}}},
    "LangChain, of Anthropic's stream": {
        "type": "tool_use",
        "name": "plan",
        "input": {},
        "partial_json": MORE,
    },
}


@pytest.mark.parametrize("part", OF_OTHER_APIS.values(), ids=OF_OTHER_APIS)
def test_calls_among_the_parts_of_other_apis(part: dict[str, Any]) -> None:
    """What agents keep of their conversations: 30 of 200 loops in such calls were a rate of 0 %."""
    answer = {"role": "assistant", "content": [{"text": "So. "}, part]}
    for row in ({"messages": [{"role": "user", "content": "Hm?"}, answer]}, {"response": answer}):
        assert read(row).text == f"So. {MORE}"


THOUGHTS = {
    "Bedrock's Converse": {
        "content": [{"reasoningContent": {"reasoningText": {"text": "Hm."}}}, {"text": "So."}]
    },
    "Haystack": {"content": [{"reasoning": {"reasoning_text": "Hm.", "extra": {}}}, {"text": "So."}]},
    "LibreChat": {"content": [{"type": "think", "think": "Hm."}, {"type": "text", "text": "So."}]},
    "Cohere": {"content": "So.", "tool_plan": "Hm."},
    "Qwen's notebooks": {"content": "So.", "thinking_content": "Hm."},
}


@pytest.mark.parametrize("message", THOUGHTS.values(), ids=THOUGHTS)
def test_thoughts_of_other_apis(message: dict[str, Any]) -> None:
    """A loop in a thought is one, wherever an API keeps it."""
    answer = {"role": "assistant", **message}
    for row in ({"messages": [{"role": "user", "content": "Hm?"}, answer]}, {"response": answer}):
        record = read(row)
        assert (record.reasoning, record.text) == ("Hm.", "So.")
