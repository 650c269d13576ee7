"""Request bodies as vLLM 0.32 takes them, and their way to the engine's requests.

Fields that vLLM does not know are ignored, as it does; those that it knows and that are not simulated are
refused by name, because an answer that ignored them would look like one that honoured them.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.request import RepetitionDetection, SimRequest
from stresstest.simulation.engine.schema import SchemaError, json_text
from stresstest.simulation.server.refusal import RequestRejected, from_msgspec, malformed, out_of_range

DEFAULT_MAX_TOKENS = 16
"""Of plain completions; chat answers may fill the context."""
_NOT_SIMULATED = (
    "tools", "functions", "logit_bias", "prompt_logprobs", "allowed_token_ids", "bad_words",
    "use_beam_search", "prompt_embeds", "suffix", "logprob_token_ids", "stop_regex",
    "thinking_token_budget", "logits_processors", "truncate_prompt_tokens", "return_tokens_as_token_ids",
)  # fmt: skip
IMAGE = "<image>" * 144
"""What an image becomes: 576 tokens, as in LLaVA 1.5."""
_FORMATS = ("text", "json_object", "json_schema")


class StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class CompletionBody(msgspec.Struct, kw_only=True):
    """What both kinds of completion share."""

    model: str | None = None
    max_tokens: int | None = None
    min_tokens: int = 0
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    n: int | None = 1
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    repetition_detection: RepetitionDetection | None = None
    response_format: Any = None
    structured_outputs: Any = None
    return_token_ids: bool | None = None
    request_id: str | None = None
    echo: bool | None = False

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())


class ChatBody(CompletionBody, kw_only=True):
    messages: list[Any]
    logprobs: bool | None = False
    top_logprobs: int | None = None
    max_completion_tokens: int | None = None


class TextBody(CompletionBody, kw_only=True):
    prompt: Any = None
    logprobs: int | None = None


AnyBody = TypeVar("AnyBody", bound=msgspec.Struct)


def parse_body(found: dict[str, Any], kind: type[AnyBody]) -> AnyBody:
    """The body as `kind`. Raises RequestRejected."""
    try:
        body = msgspec.convert(found, kind, strict=False)
        f"{found.get('model')}{found.get('request_id')}".encode()  # both are in the answer
    except msgspec.ValidationError as error:
        raise from_msgspec(error, found) from None
    except UnicodeEncodeError:
        raise out_of_range("The body holds half of a surrogate pair, which is no character.") from None
    for name in _NOT_SIMULATED:
        if found.get(name):
            raise out_of_range(f"The simulator does not simulate `{name}`.", name)
    return body


def requested_max_tokens(body: CompletionBody) -> int | None:
    """The cap that was asked for; None where a chat answer may fill the context."""
    if isinstance(body, ChatBody):
        return body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
    return DEFAULT_MAX_TOKENS if body.max_tokens is None else body.max_tokens


def chat_messages(body: ChatBody) -> tuple[tuple[str, str], ...]:
    """(role, text) pairs. Raises RequestRejected for what is no text."""
    if not body.messages:
        raise out_of_range(
            "Cannot apply chat template to an empty conversation. Provide at least one message."
        )
    found = []
    for i, message in enumerate(body.messages):
        place = f"body.messages.{i}"
        if not isinstance(message, Mapping):
            raise malformed("dict_type", place, "Input should be a valid dictionary", message)
        role = message.get("role")
        if not isinstance(role, str):
            place += ".ChatCompletionDeveloperMessageParam.role"
            raise malformed("missing", place, "Field required", dict(message))
        found.append((role, _content(message.get("content"), place)))
    return tuple(found)


def _content(content: object, place: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list) and None not in (parts := list(map(_part, content))):
        return "\n".join(filter(None, parts))
    raise malformed("string_type", f"{place}.content", "The simulator reads texts and images only", content)


def _part(part: object) -> str | None:
    """Of a message: a text, or the placeholders of an image, which nobody looks at; None for another part."""
    if not isinstance(part, Mapping):
        return None
    if isinstance(text := part.get("text"), str):
        return text
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, Mapping) else None
    return IMAGE if isinstance(url, str) and url.startswith(("data:image/", "https://", "http://")) else None


def prompt_token_ids(body: TextBody) -> list[tuple[int, ...]]:
    """Token ids of each prompt. Raises RequestRejected."""
    given = body.prompt
    if given is None or given == "":
        message = "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)"
        raise out_of_range(message, "prompt")
    if isinstance(given, str):
        return [tuple(vocabulary.encode(given))]
    if isinstance(given, list):
        if not given:
            raise out_of_range("You must pass at least one prompt")
        if all(type(each) is int for each in given):
            return [require_known_ids(given)]
        if all(isinstance(each, str) for each in given):
            return [tuple(vocabulary.encode(each)) for each in given]
        if all(isinstance(each, list) and each and all(type(i) is int for i in each) for each in given):
            return [require_known_ids(each) for each in given]
    raise malformed("list_type", "body.prompt", "Input should be a valid list", given)


def require_known_ids(ids: list[int]) -> tuple[int, ...]:
    """The ids, all of them tokens. Raises RequestRejected."""
    unknown = next((i for i in ids if not 0 <= i < vocabulary.VOCABULARY_SIZE), None)
    if unknown is not None:
        raise out_of_range(f"Token id {unknown} is out of vocabulary")
    return tuple(ids)


def engine_requests(
    body: CompletionBody, prompt: tuple[int, ...], context: int, said: tuple[tuple[str, str], ...] | None
) -> list[SimRequest]:
    """The engine's requests for one prompt, one for each of `n`. Raises RequestRejected."""
    asked = requested_max_tokens(body)
    room = context - len(prompt)
    if room < 0:
        raise out_of_range(
            f"This model's maximum context length is {context} tokens. However, your prompt contains "
            f"{len(prompt)} input tokens, which exceeds this limit even without any output tokens. Please "
            f"reduce the length of the input prompt.",
            "input_tokens",
        )
    if room == 0:
        raise out_of_range(
            "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)", "max_tokens"
        )
    schema_asked, schema = _response_format(body)
    made = []
    for i in range(body.n or 1):
        seed = None if body.seed is None and not i else (body.seed or 0) + i
        text = None
        if schema_asked:
            try:
                text = json_text(schema, zlib.crc32(repr((prompt, seed)).encode()))
            except SchemaError as error:
                raise out_of_range(
                    f"The simulator cannot write by this schema: {error}", "response_format"
                ) from None
        made.append(
            SimRequest(
                prompt_ids=prompt,
                max_tokens=room if asked is None else min(asked, room),
                chat=said is not None,
                messages=said,
                min_tokens=body.min_tokens,
                stop=body.stops,
                stop_token_ids=tuple(body.stop_token_ids or ()),
                ignore_eos=body.ignore_eos,
                seed=seed,
                temperature=body.temperature,
                top_p=body.top_p,
                repetition_penalty=body.repetition_penalty,
                repetition_detection=body.repetition_detection,
                json_text=text,
            )
        )
    return made


def _response_format(body: CompletionBody) -> tuple[bool, Any]:
    """(JSON is asked for, its schema or None)."""
    structured = body.structured_outputs
    if structured is not None:
        if isinstance(structured, Mapping) and set(structured) == {"json"}:
            return True, structured["json"]
        raise out_of_range(
            "The simulator simulates only `json` of `structured_outputs`.", "structured_outputs"
        )
    asked = body.response_format
    if asked is None:
        return False, None
    kind = asked.get("type") if isinstance(asked, Mapping) else None
    if kind not in _FORMATS:
        said = "Input should be 'text', 'json_object' or 'json_schema'"
        raise malformed("literal_error", "body.response_format.type", said, kind)
    if kind != "json_schema":
        return kind == "json_object", None
    holder = asked.get("json_schema")
    if not isinstance(holder, Mapping):
        raise RequestRejected(
            400,
            "When response_format type is 'json_schema', the 'json_schema' field must be provided. "
            "(parameter=response_format)",
            "response_format",
        )
    return True, holder.get("schema")


MAX_LOGPROBS = 20
MOST_CHOICES = 128
"""vLLM stops at `VLLM_MAX_N_SEQUENCES`, 16,384, which is more than one process simulates at once."""


def check_ranges(body: CompletionBody, context: int) -> None:
    """vLLM's ranges, in its words. Raises RequestRejected."""
    if body.stream_options is not None and not body.stream:
        raise out_of_range(
            "Stream options can only be defined when `stream=True`. (parameter=stream_options)",
            "stream_options",
        )
    _check_logprobs(body)
    _check_sampling(body)
    limit = requested_max_tokens(body)
    if limit is not None and limit < 1:
        raise out_of_range(
            f"max_tokens must be at least 1, got {limit}. (parameter=max_tokens, value={limit})", "max_tokens"
        )
    if limit is not None and limit > context:
        raise out_of_range(
            f"max_tokens={limit} cannot be greater than max_model_len={context}. Please request fewer output "
            f"tokens. (parameter=max_tokens, value={limit})",
            "max_tokens",
        )
    if limit is not None and body.min_tokens > limit:
        raise out_of_range(
            f"min_tokens must be less than or equal to max_tokens={limit}, got {body.min_tokens}."
        )
    if "" in body.stops:
        raise out_of_range("stop cannot contain an empty string.")
    _check_repetition(body.repetition_detection)


def _check_repetition(found: RepetitionDetection | None) -> None:
    if found is not None:
        if (
            min(found.max_pattern_size, found.min_pattern_size) < 0
            or found.min_pattern_size > found.max_pattern_size
        ):
            raise out_of_range(
                "max_pattern_size, min_pattern_size must be >=0, with min_pattern_size <= max_pattern_size. "
                "Set both to 0 to disable repetitive pattern detection."
            )
        if found.max_pattern_size and found.min_count < 2:
            raise out_of_range(
                "min_count must be >= 2 to detect repetitive patterns in engine output. If you do not wish "
                "to detect repetitive patterns, set max_pattern_size to 0."
            )


def _check_logprobs(body: CompletionBody) -> None:
    if body.echo and (
        isinstance(body, ChatBody) or (isinstance(body, TextBody) and body.logprobs is not None)
    ):
        raise out_of_range("The simulator does not simulate logprobs of the prompt (`echo`).", "echo")
    asked, name = None, "logprobs"
    if isinstance(body, ChatBody):
        asked, name = body.top_logprobs, "top_logprobs"
        if asked is not None and not body.logprobs and (asked > 0 or asked == -1):
            raise out_of_range(
                "when using `top_logprobs`, `logprobs` must be set to true. (parameter=top_logprobs)", name
            )
    elif isinstance(body, TextBody):
        asked = body.logprobs
    if asked is not None and asked < -1:
        raise out_of_range(
            f"`{name}` must be a positive value or -1. (parameter={name}, value={asked})", name
        )
    if asked is not None and (asked > MAX_LOGPROBS or asked == -1):
        count = vocabulary.VOCABULARY_SIZE if asked == -1 else asked
        raise out_of_range(
            f"Requested sample logprobs of {count}, which is greater than max allowed: {MAX_LOGPROBS} "
            f"(parameter=logprobs, value={count})",
            "logprobs",
        )


def _check_sampling(body: CompletionBody) -> None:
    n = 1 if body.n is None else body.n
    if n < 1:
        raise out_of_range(f"n must be at least 1, got {n}.")
    if n > MOST_CHOICES:
        raise out_of_range(f"n must be at most {MOST_CHOICES} for this simulator, got {n}.")
    for name in ("presence_penalty", "frequency_penalty"):
        value = getattr(body, name)
        if value is not None and not -2.0 <= value <= 2.0:
            raise out_of_range(f"{name} must be in [-2, 2], got {value}.")
    if body.repetition_penalty is not None and body.repetition_penalty <= 0.0:
        raise out_of_range(f"repetition_penalty must be greater than zero, got {body.repetition_penalty}.")
    temperature = body.temperature
    if temperature is not None and temperature < 0.0:
        raise out_of_range(
            f"temperature must be non-negative, got {temperature}. "
            f"(parameter=temperature, value={temperature})",
            "temperature",
        )
    if body.top_p is not None and not 0.0 < body.top_p <= 1.0:
        raise out_of_range(
            f"top_p must be in (0, 1], got {body.top_p}. (parameter=top_p, value={body.top_p})", "top_p"
        )
    if body.top_k is not None and body.top_k < -1:
        raise out_of_range(f"top_k must be 0 (disable), or at least 1, got {body.top_k}.")
    if body.min_p is not None and not 0.0 <= body.min_p <= 1.0:
        raise out_of_range(f"min_p must be in [0, 1], got {body.min_p}.")
    if temperature == 0.0 and n > 1:
        raise out_of_range(f"n must be 1 when using greedy sampling, got {n}.")
