"""LiteLLM: a guardrail that ends a stream when it degenerates, and marks answers that did.

A proxy's configuration names the class (docs/integrations.md). By default it only counts: nothing is changed.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from litellm.exceptions import GuardrailRaisedException
from litellm.integrations.custom_guardrail import CustomGuardrail

from stresstest.api.streaming import StreamDetector, judge_body
from stresstest.api.verdict import Verdict
from stresstest.detectors.identification.names import require_language
from stresstest.records.formats.asked import PROMPT_KEYS, count_prompts
from stresstest.records.formats.bodies.calls import message_arguments
from stresstest.records.formats.bodies.reasoning import find_reasoning
from stresstest.render.text import single_line

FINISH_REASON = "length"
"""Of a choice that is ended here, as the guard writes it: LiteLLM makes a clean ``stop`` of vLLM's
"repetition". The chunk's ``provider_specific_fields`` say why."""

_log = logging.getLogger("stresstest.litellm")


class DegenerationGuardrail(CustomGuardrail):  # type: ignore[misc]  # litellm is no dependency of ours
    """Judges every answer, its reasoning and the arguments of its calls; what it finds is one line in the log
    ``stresstest.litellm``, without text.

    stop: end a stream at the alarm, and refuse a whole answer that degenerates; False: only count. language:
    that answers are wanted in, as a code ("it"). Other arguments are those of `CustomGuardrail`.
    """

    def __init__(self, *, stop: bool = False, language: str | None = None, **options: Any) -> None:
        require_language(language)
        super().__init__(**{"guardrail_name": "stresstest", **options})
        self.stop = stop
        self.language = language

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # LiteLLM looks for this hook in the class that its configuration names, and not in that one's bases.
        cls.async_post_call_streaming_iterator_hook = cls.async_post_call_streaming_iterator_hook  # type: ignore[method-assign]

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: AsyncIterator[Any], request_data: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        """The chunks of a stream as they come; with `stop`, up to the alarm of each choice."""
        del user_api_key_dict
        prompt, wanted = _prompt(request_data), _choices(request_data)
        watched: dict[int, StreamDetector] = {}
        told: set[int] = set()
        ended: dict[int, str | None] = {}
        async for chunk in response:
            for choice in getattr(chunk, "choices", None) or ():
                detector = watched.get(choice.index)
                if detector is None:
                    detector = watched[choice.index] = StreamDetector(language=self.language, prompt=prompt)
                ended[choice.index] = getattr(choice, "finish_reason", None) or ended.get(choice.index)
                if choice.index in told:
                    if self.stop:
                        _silence(choice)
                elif _feed(detector, choice):
                    told.add(choice.index)
                    verdict = detector.finish()
                    self._tell(verdict, request_data)
                    if self.stop:
                        choice.finish_reason = FINISH_REASON
                        chunk.provider_specific_fields = {"stresstest": verdict.symptom}
            yield chunk
            if self.stop and len(told) >= max(wanted, len(watched)):
                close = getattr(response, "aclose", None)
                if close is not None:
                    await close()
                return
        for index in watched.keys() - told:  # what shows at the end alone: one sign to the cap, a truncation
            verdict = watched[index].finish(ended[index])
            if verdict.degenerate:
                self._tell(verdict, request_data)

    async def async_post_call_success_hook(
        self, data: dict[str, Any], user_api_key_dict: Any, response: Any
    ) -> None:
        """Judge an answer that is not streamed, of any route whose body `scan` reads.

        With `stop`, raises GuardrailRaisedException for one that degenerates.
        """
        del user_api_key_dict
        body = response if isinstance(response, dict) else response.model_dump()
        for verdict in judge_body(body, language=self.language, prompt=_prompt(data)):
            if verdict.degenerate:
                self._tell(verdict, data)
                if self.stop:
                    where = "in its reasoning"
                    if verdict.onset_char is not None:
                        where = f"from character {verdict.onset_char} on"
                    raise GuardrailRaisedException(
                        guardrail_name=self.guardrail_name,
                        message=f"the answer degenerates ({verdict.symptom}, {where})",
                    )

    @staticmethod
    def _tell(verdict: Verdict, request_data: dict[str, Any]) -> None:
        _log.warning(
            "degenerate answer: model=%s symptom=%s onset_char=%s alarm_char=%s",
            single_line(str(request_data.get("model"))),  # a client's word
            verdict.symptom,
            verdict.onset_char,
            verdict.alarm_char,
        )


def _prompt(request: dict[str, Any]) -> Any:
    """What was asked: the messages of a chat or of Anthropic's route, a prompt, the input of a response."""
    return next((request[name] for name in PROMPT_KEYS if request.get(name)), None)


def _choices(request: dict[str, Any]) -> int:
    """The choices that are asked for: `n` for every prompt."""
    try:
        each = int(request.get("n") or 1)
    except (TypeError, ValueError, OverflowError):  # the server will refuse it
        each = 1
    return max(1, each) * count_prompts(request.get("prompt"))


def _feed(detector: StreamDetector, choice: Any) -> bool:
    """Pass on what a chunk says: reasoning, text, the arguments of calls. A plain completion has no delta."""
    delta = getattr(choice, "delta", None)
    if delta is None:
        return detector.feed(choice.text or "")
    said = delta.model_dump()
    alarmed = detector.feed(find_reasoning(said), reasoning=True)
    return detector.feed((said.get("content") or "") + message_arguments(said)) or alarmed


def _silence(choice: Any) -> None:
    """Take out of a chunk what it says of an answer that was ended."""
    delta = getattr(choice, "delta", None)
    if delta is None:
        choice.text = ""
        return
    for name in ("content", "reasoning_content", "thinking_blocks", "tool_calls", "function_call"):
        if getattr(delta, name, None) is not None:
            setattr(delta, name, None)
