"""Inspect: a scorer that says which answers degenerate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from inspect_ai.model import ChatMessageAssistant
from inspect_ai.scorer import Score, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from stresstest.api.streaming import judge_body
from stresstest.api.verdict import Verdict
from stresstest.detectors.identification.names import require_language


@scorer(metrics=[mean(), stderr()])  # type: ignore[untyped-decorator, unused-ignore]
def degeneration(language: str | None = None) -> Any:
    """1 for an answer that degenerates, 0 for a healthy one: the mean is the rate.

    Every turn that the model wrote is judged: its reasoning, its text and the arguments of its calls; the
    first that degenerates decides. A sample of which nothing can be judged, as where all of its tokens were
    hidden, is not scored. language: that the answers are wanted in, as a code ("it"); without it each one's
    is inferred. The score's explanation is the symptom's sentence; its metadata holds the verdict's fields.
    """
    require_language(language)

    async def score(state: TaskState, target: Target) -> Score:
        del target  # what is right does not matter here
        answer = state.output.completion
        verdicts = list(_verdicts(state, language))
        if not verdicts:
            return Score.unscored(answer=answer, explanation="There is no answer that can be judged.")
        told = next((each for each in verdicts if each.degenerate), verdicts[-1])
        return Score(
            value=int(told.degenerate), answer=answer, explanation=told.summary, metadata=told.to_dict()
        )

    return score


def _verdicts(state: TaskState, language: str | None) -> Iterator[Verdict]:
    """On the model's turns in order, each with what stands before it as its prompt."""
    before: list[dict[str, Any]] = []
    output = state.output.message if state.output.choices else None
    for message in state.messages:
        own = isinstance(message, ChatMessageAssistant) and message.source != "input"
        if own and message.id != (output and output.id):
            yield from judge_body(_body(message), language=language, prompt=before)
        elif own:
            break  # the output, of which more is known
        before.append(message.model_dump())
    if output is not None:
        used = state.output.usage
        body = _body(output, state.output.stop_reason)
        body["usage"] = {"completion_tokens": used.output_tokens} if used else None
        yield from judge_body(body, language=language, prompt=before)


def _body(message: ChatMessageAssistant, stop_reason: str | None = None) -> dict[str, Any]:
    """The turn as a response body of the OpenAI protocol."""
    calls = [{"arguments": _arguments(call)} for call in message.tool_calls or ()]
    choice = {"message": {**message.model_dump(), "tool_calls": calls}, "finish_reason": stop_reason}
    return {"choices": [choice]}


def _arguments(call: Any) -> Any:
    """What the model wrote. Arguments that are not JSON, as where the cap cut them, Inspect keeps between the
    first and the last paragraph of its error."""
    if not call.parse_error:
        return call.arguments
    _, _, written = call.parse_error.partition("\n\n")
    return written.rpartition("\n\n")[0] or call.parse_error
