"""The ranges of a request's fields, and vLLM 0.32's words for what lies outside."""

from __future__ import annotations

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.server.bodies import Body, ChatBody, Repetition, TextBody, wanted
from stresstest.simulation.server.refusal import bad

MOST_LOGPROBS = 20


def check(body: Body, context: int) -> None:
    """vLLM's ranges, in its words. Raises Refusal."""
    if body.stream_options is not None and not body.stream:
        raise bad(
            "Stream options can only be defined when `stream=True`. (parameter=stream_options)",
            "stream_options",
        )
    _check_logprobs(body)
    _check_sampling(body)
    limit = wanted(body)
    if limit is not None and limit < 1:
        raise bad(
            f"max_tokens must be at least 1, got {limit}. (parameter=max_tokens, value={limit})", "max_tokens"
        )
    if limit is not None and limit > context:
        raise bad(
            f"max_tokens={limit} cannot be greater than max_model_len={context}. Please request fewer output "
            f"tokens. (parameter=max_tokens, value={limit})",
            "max_tokens",
        )
    if limit is not None and body.min_tokens > limit:
        raise bad(f"min_tokens must be less than or equal to max_tokens={limit}, got {body.min_tokens}.")
    if "" in body.stops:
        raise bad("stop cannot contain an empty string.")
    _check_repetition(body.repetition_detection)


def _check_repetition(found: Repetition | None) -> None:
    if found is not None:
        if (
            min(found.max_pattern_size, found.min_pattern_size) < 0
            or found.min_pattern_size > found.max_pattern_size
        ):
            raise bad(
                "max_pattern_size, min_pattern_size must be >=0, with min_pattern_size <= max_pattern_size. "
                "Set both to 0 to disable repetitive pattern detection."
            )
        if found.max_pattern_size and found.min_count < 2:
            raise bad(
                "min_count must be >= 2 to detect repetitive patterns in engine output. If you do not wish "
                "to detect repetitive patterns, set max_pattern_size to 0."
            )


def _check_logprobs(body: Body) -> None:
    if body.echo and (
        isinstance(body, ChatBody) or (isinstance(body, TextBody) and body.logprobs is not None)
    ):
        raise bad("The simulator does not simulate logprobs of the prompt (`echo`).", "echo")
    asked, name = None, "logprobs"
    if isinstance(body, ChatBody):
        asked, name = body.top_logprobs, "top_logprobs"
        if asked is not None and not body.logprobs and (asked > 0 or asked == -1):
            raise bad(
                "when using `top_logprobs`, `logprobs` must be set to true. (parameter=top_logprobs)", name
            )
    elif isinstance(body, TextBody):
        asked = body.logprobs
    if asked is not None and asked < -1:
        raise bad(f"`{name}` must be a positive value or -1. (parameter={name}, value={asked})", name)
    if asked is not None and (asked > MOST_LOGPROBS or asked == -1):
        count = vocabulary.SIZE if asked == -1 else asked
        raise bad(
            f"Requested sample logprobs of {count}, which is greater than max allowed: {MOST_LOGPROBS} "
            f"(parameter=logprobs, value={count})",
            "logprobs",
        )


def _check_sampling(body: Body) -> None:
    n = 1 if body.n is None else body.n
    if n < 1:
        raise bad(f"n must be at least 1, got {n}.")
    for name in ("presence_penalty", "frequency_penalty"):
        value = getattr(body, name)
        if value is not None and not -2.0 <= value <= 2.0:
            raise bad(f"{name} must be in [-2, 2], got {value}.")
    if body.repetition_penalty is not None and body.repetition_penalty <= 0.0:
        raise bad(f"repetition_penalty must be greater than zero, got {body.repetition_penalty}.")
    temperature = body.temperature
    if temperature is not None and temperature < 0.0:
        raise bad(
            f"temperature must be non-negative, got {temperature}. "
            f"(parameter=temperature, value={temperature})",
            "temperature",
        )
    if body.top_p is not None and not 0.0 < body.top_p <= 1.0:
        raise bad(
            f"top_p must be in (0, 1], got {body.top_p}. (parameter=top_p, value={body.top_p})", "top_p"
        )
    if body.top_k is not None and body.top_k < -1:
        raise bad(f"top_k must be 0 (disable), or at least 1, got {body.top_k}.")
    if body.min_p is not None and not 0.0 <= body.min_p <= 1.0:
        raise bad(f"min_p must be in [0, 1], got {body.min_p}.")
    if temperature == 0.0 and n > 1:
        raise bad(f"n must be 1 when using greedy sampling, got {n}.")
