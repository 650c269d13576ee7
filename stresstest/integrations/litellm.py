"""LiteLLM: a guardrail that ends a stream when it degenerates, and marks answers that did.

A proxy's configuration names the class (docs/integrations.md). By default it only counts: nothing is changed.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from litellm.exceptions import GuardrailRaisedException
from litellm.integrations.custom_guardrail import CustomGuardrail

from stresstest.api.detection import detect
from stresstest.api.streaming import StreamDetector
from stresstest.api.verdict import Verdict

FINISH_REASON = "length"
"""Of a choice that is ended here, as the guard writes it: LiteLLM makes a clean ``stop`` of vLLM's
"repetition". The chunk's ``provider_specific_fields`` say why."""

_log = logging.getLogger("stresstest.litellm")


class DegenerationGuardrail(CustomGuardrail):  # type: ignore[misc]  # litellm is no dependency of ours
    """Judges every answer; what it finds is one line in the log ``stresstest.litellm``, without text.

    stop: end a stream at the alarm, and refuse a whole answer that degenerates; False: only count. language:
    that answers are wanted in, as a code ("it"). Other arguments are those of `CustomGuardrail`.
    """

    def __init__(self, *, stop: bool = False, language: str | None = None, **options: Any) -> None:
        super().__init__(**{"guardrail_name": "stresstest", **options})
        self.stop = stop
        self.language = language

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: AsyncIterator[Any], request_data: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        """The chunks of a stream as they come; with `stop`, up to the alarm of each choice."""
        del user_api_key_dict
        prompt, wanted = request_data.get("messages"), int(request_data.get("n") or 1)
        watched: dict[int, StreamDetector] = {}
        told: set[int] = set()
        async for chunk in response:
            for choice in getattr(chunk, "choices", None) or ():
                detector = watched.get(choice.index)
                if detector is None:
                    detector = watched[choice.index] = StreamDetector(language=self.language, prompt=prompt)
                if choice.index in told:
                    if self.stop:
                        choice.delta.content = None
                elif _feed(detector, choice.delta):
                    told.add(choice.index)
                    verdict = detector.finish()
                    self._tell(verdict, request_data)
                    if self.stop:
                        choice.finish_reason = FINISH_REASON
                        chunk.provider_specific_fields = {"stresstest": verdict.symptom}
            yield chunk
            if self.stop and len(told) >= wanted:
                close = getattr(response, "aclose", None)
                if close is not None:
                    await close()
                return

    async def apply_guardrail(
        self, inputs: Any, request_data: dict[str, Any], input_type: str, logging_obj: Any = None
    ) -> Any:
        """The inputs, unchanged. With `stop`, raises GuardrailRaisedException for a degenerate answer."""
        del logging_obj
        for text in inputs.get("texts") or () if input_type == "response" else ():
            verdict = detect(text, language=self.language, prompt=request_data.get("messages"))
            if verdict.degenerate:
                self._tell(verdict, request_data)
                if self.stop:
                    raise GuardrailRaisedException(
                        guardrail_name=self.guardrail_name,
                        message=f"the answer degenerates ({verdict.symptom}, character {verdict.onset_char})",
                    )
        return inputs

    @staticmethod
    def _tell(verdict: Verdict, request_data: dict[str, Any]) -> None:
        _log.warning(
            "degenerate answer: model=%s symptom=%s onset_char=%s alarm_char=%s",
            request_data.get("model"),
            verdict.symptom,
            verdict.onset_char,
            verdict.alarm_char,
        )


def _feed(detector: StreamDetector, delta: Any) -> bool:
    thought = getattr(delta, "reasoning_content", None)
    if thought:
        detector.feed(thought, reasoning=True)
    return detector.feed(getattr(delta, "content", None) or "")
