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


def test_whole_answers_are_refused_only_when_told_to() -> None:
    """By the interface that LiteLLM's proxy calls for answers that are not streamed."""
    inputs = {"texts": [HEALTHY, LOOPING]}

    def apply(stop: bool, kind: str) -> Any:
        guardrail = DegenerationGuardrail(stop=stop, language="en")
        return asyncio.run(guardrail.apply_guardrail(inputs, ASKED, kind))

    assert apply(False, "response") is inputs
    assert apply(True, "request") is inputs
    with pytest.raises(GuardrailRaisedException, match="degenerates"):
        apply(True, "response")
