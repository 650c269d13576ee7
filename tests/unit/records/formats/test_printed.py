"""Python's print of a response object is no answer."""

from __future__ import annotations

import pytest

from stresstest.records import FieldMapping, UnreadableError, parse_line

PRINTED = [
    "RequestOutput(request_id=0, prompt='Why?', prompt_token_ids=[1, 2], outputs=[CompletionOutput(index=0, "
    "text='So.', token_ids=[5], finish_reason=stop)], finished=True)",
    "[RequestOutput(request_id=0, prompt='Why?', outputs=[CompletionOutput(index=0, text='So.')])]",
    "ChatCompletion(id='chatcmpl-1', choices=[Choice(finish_reason='stop', index=0, "
    "message=ChatCompletionMessage(content='So.', role='assistant'))], created=1, object='chat.completion')",
    "ModelResponse(id='chatcmpl-1', created=1, choices=[Choices(finish_reason='stop', index=0)])",
    "content='So.' additional_kwargs={} response_metadata={'finish_reason': 'stop'} id='run-1'",
    "AIMessage(content='So.', additional_kwargs={}, response_metadata={})",
    "generations=[[ChatGeneration(text='So.', generation_info={'finish_reason': 'stop'})]] llm_output=None "
    "type='LLMResult' outputs={}",
    "<vllm.outputs.RequestOutput object at 0x7f02a2271e40>",
]


@pytest.mark.parametrize("text", PRINTED)
@pytest.mark.parametrize("key", ["output", "generated_text"])
def test_a_printed_object_is_refused(text: str, key: str) -> None:
    """Its prompt and token ids stood for healthy words before the answer: T was ten times too high."""
    with pytest.raises(UnreadableError, match=r"str\(\) of a response object"):
        parse_line({key: text}, "a", 1, FieldMapping())


@pytest.mark.parametrize(
    "text",
    [
        "Response(id=3) is what the handler returns, and choices=[] means that nobody has answered yet.",
        "Request(url='/v1', method='POST')",
        "<div>An object at 0x7f02a2271e40</div>",
        'content="width=device-width" is what the tag needs.',
    ],
)
def test_an_answer_about_objects_is_one(text: str) -> None:
    """Models write code."""
    (record,) = parse_line({"output": text}, "a", 1, FieldMapping())
    assert record.text == text
