"""The request body: what the user asked for, what the measurement needs, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stresstest.model import GenerationRequest


@dataclass(frozen=True, slots=True)
class Features:
    """Which of the measuring fields this server takes; plain servers refuse unknown ones with 400."""

    top_logprobs: int = 20
    token_ids: bool = True
    usage: bool = True
    running_usage: bool = True


def build(request: GenerationRequest, model: str, features: Features) -> dict[str, Any]:
    """Body of /chat/completions (messages) or /completions (prompt: text or token ids).

    Sampling parameters that were not given are not sent: the server's defaults stay in force.
    """
    body: dict[str, Any] = {"model": model, "max_tokens": request.max_tokens, "stream": True}
    if request.messages is not None:
        body["messages"] = [{"role": m.role, "content": m.content} for m in request.messages]
        if features.top_logprobs:
            body |= {"logprobs": True, "top_logprobs": features.top_logprobs}
    else:
        prompt = request.prompt
        body["prompt"] = prompt if isinstance(prompt, str) else list(prompt or ())
        if features.top_logprobs:
            body["logprobs"] = features.top_logprobs
    if features.usage:
        body["stream_options"] = {"include_usage": True}
        if features.running_usage:
            body["stream_options"]["continuous_usage_stats"] = True
    if features.token_ids:
        body["return_token_ids"] = True
    if request.seed is not None:
        body["seed"] = request.seed
    if request.ignore_eos:
        body["ignore_eos"] = True
    return body | request.decoding.sent()
