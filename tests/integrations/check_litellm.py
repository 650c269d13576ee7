"""LiteLLM's own classes drive the guardrail: streams, whole answers, several choices.

build/integrations/litellm/bin/python -m pytest tests/integrations/check_litellm.py
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import litellm
import pytest
from litellm.exceptions import GuardrailRaisedException
from litellm.types.utils import (
    Choices,
    Delta,
    EmbeddingResponse,
    Message,
    ModelResponse,
    ModelResponseStream,
    StreamingChoices,
    TextChoices,
    TextCompletionResponse,
)

from stresstest.integrations.litellm import FINISH_REASON, DegenerationGuardrail
from tests.integrations.answers import HEALTHY, LOOPING

ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Tell me a story."}]}


def streamed(guardrail: DegenerationGuardrail, text: str, **asked: Any) -> list[Any]:
    """What a client receives of LiteLLM's own stream of this answer."""

    async def run() -> list[Any]:
        response: AsyncIterator[Any] = await litellm.acompletion(
            **ASKED | {"model": "openai/mock"}, mock_response=text, stream=True, **asked
        )
        hook = guardrail.async_post_call_streaming_iterator_hook(None, response, ASKED | asked)
        return [chunk async for chunk in hook]

    return asyncio.run(run())


def content(chunks: list[Any]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def reason(chunks: list[Any]) -> str | None:
    return next((c.choices[0].finish_reason for c in reversed(chunks) if c.choices[0].finish_reason), None)


def test_counting_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Every character arrives, the end is the model's own, and the log has one line without text."""
    with caplog.at_level(logging.WARNING, "stresstest.litellm"):
        chunks = streamed(DegenerationGuardrail(language="en"), LOOPING)
    assert content(chunks) == LOOPING
    assert reason(chunks) == "stop"
    [line] = [record.message for record in caplog.records if record.name == "stresstest.litellm"]
    assert "symptom=" in line
    assert "river" not in line


def test_stopping_ends_a_loop_and_says_so() -> None:
    """Long before its end; never as an ordinary stop."""
    chunks = streamed(DegenerationGuardrail(stop=True, language="en"), LOOPING)
    assert len(HEALTHY) < len(content(chunks)) < len(LOOPING) / 2
    assert chunks[-1].choices[0].finish_reason == FINISH_REASON
    assert "loop" in chunks[-1].provider_specific_fields["stresstest"]


def test_a_healthy_stream_is_not_touched() -> None:
    chunks = streamed(DegenerationGuardrail(stop=True, language="en"), HEALTHY)
    assert content(chunks) == HEALTHY
    assert reason(chunks) == "stop"


def test_a_class_derived_from_ours_is_called_for_streams() -> None:
    """LiteLLM looks for the hook in the class that the configuration names, and not in that one's bases."""

    class Guardrail(DegenerationGuardrail):
        pass

    assert "async_post_call_streaming_iterator_hook" in vars(Guardrail)


def chunk_of(word: str, field: str) -> Any:
    """A chunk as LiteLLM makes it of a server's; beside reasoning and calls the content is empty."""
    if field == "text":
        return TextCompletionResponse(choices=[TextChoices(text=word, index=0)])
    calls = [{"index": 0, "function": {"arguments": word}}]
    delta = Delta(**{"content": "", field: calls if field == "tool_calls" else word})
    return ModelResponseStream(choices=[StreamingChoices(index=0, delta=delta)])


def passed_on(guardrail: DegenerationGuardrail, chunks: list[Any], asked: dict[str, Any]) -> list[Any]:
    """What the hook for streams makes of these chunks."""

    async def run() -> list[Any]:
        async def response() -> AsyncIterator[Any]:
            for chunk in chunks:
                yield chunk

        hook = guardrail.async_post_call_streaming_iterator_hook(None, response(), asked)
        return [chunk async for chunk in hook]

    return asyncio.run(run())


@pytest.mark.parametrize("field", ["reasoning_content", "tool_calls", "text"])
def test_all_that_the_model_writes_is_watched_in_a_stream(field: str) -> None:
    """The stream ends at the alarm: in reasoning, in a call, and in a plain completion."""
    chunks = [chunk_of(f"{word} ", field) for word in LOOPING.split(" ")]
    passed = passed_on(DegenerationGuardrail(stop=True, language="en"), chunks, ASKED)
    assert len(HEALTHY.split()) < len(passed) < len(chunks) / 2
    assert passed[-1].choices[0].finish_reason == FINISH_REASON


def test_a_loop_ends_no_other_choice() -> None:
    """A plain completion of two prompts without `n`: when the first looped, the second was cut off."""
    words = [(index, word) for index, text in enumerate((LOOPING, HEALTHY)) for word in text.split()]
    chunks = [TextCompletionResponse(choices=[TextChoices(text=f"{w} ", index=i)]) for i, w in words]
    asked = {"model": "m", "prompt": ["Tell me a story.", "Tell me another."]}
    guardrail = DegenerationGuardrail(stop=True, language="en")
    passed = [chunk.choices[0] for chunk in passed_on(guardrail, chunks, asked)]
    assert FINISH_REASON in [choice.finish_reason for choice in passed if choice.index == 0]
    assert "".join(choice.text for choice in passed if choice.index == 1).split() == HEALTHY.split()


def test_what_shows_at_the_end_alone_is_a_line_too(caplog: pytest.LogCaptureFixture) -> None:
    """A stream of one sign to the cap was healthy, and the same answer unstreamed was not."""
    end = StreamingChoices(index=0, delta=Delta(content=""), finish_reason="length")
    chunks = [*(chunk_of("!", "content") for _ in range(100)), ModelResponseStream(choices=[end])]
    with caplog.at_level(logging.WARNING, "stresstest.litellm"):
        assert passed_on(DegenerationGuardrail(), chunks, ASKED) == chunks
    [line] = [record.message for record in caplog.records if record.name == "stresstest.litellm"]
    assert "flooding" in line


def whole(guardrail: DegenerationGuardrail, response: Any) -> None:
    asyncio.run(guardrail.async_post_call_success_hook(ASKED, None, response))


def chat(**message: Any) -> ModelResponse:
    return ModelResponse(choices=[Choices(message=Message(**message), finish_reason="stop")])


CALL = {"id": "1", "type": "function", "function": {"name": "write", "arguments": f'{{"text": "{LOOPING}"}}'}}
DEGENERATE = {
    "text": chat(content=LOOPING),
    "reasoning": chat(content="It is 42.", reasoning_content=LOOPING),
    "only reasoning": chat(content=None, reasoning_content=LOOPING),
    "call": chat(content=None, tool_calls=[CALL]),
    "completion": TextCompletionResponse(choices=[TextChoices(text=LOOPING, index=0, finish_reason="stop")]),
    "messages": {"type": "message", "role": "assistant", "content": [{"type": "text", "text": LOOPING}]},
}


@pytest.mark.parametrize("kind", DEGENERATE)
def test_whole_answers_are_refused_only_when_told_to(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """By the hook that LiteLLM's proxy calls for answers that are not streamed, on all its routes."""
    with caplog.at_level(logging.WARNING, "stresstest.litellm"):
        whole(DegenerationGuardrail(language="en"), DEGENERATE[kind])
    assert [record.name for record in caplog.records].count("stresstest.litellm") == 1
    with pytest.raises(GuardrailRaisedException, match="degenerates"):
        whole(DegenerationGuardrail(stop=True, language="en"), DEGENERATE[kind])


def test_healthy_answers_and_what_is_no_answer_pass() -> None:
    guardrail = DegenerationGuardrail(stop=True, language="en")
    whole(guardrail, chat(content=HEALTHY, reasoning_content="Let me see."))
    whole(guardrail, EmbeddingResponse(data=[{"embedding": [0.1], "index": 0, "object": "embedding"}]))
