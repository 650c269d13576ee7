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
from stresstest.simulation.server.refusal import Refusal, bad, from_msgspec, invalid

DEFAULT_MAX_TOKENS = 16
"""Of plain completions; chat answers may fill the context."""
_NOT_SIMULATED = (
    "tools", "functions", "logit_bias", "prompt_logprobs", "allowed_token_ids", "bad_words",
    "use_beam_search", "prompt_embeds", "suffix", "logprob_token_ids", "stop_regex",
    "thinking_token_budget", "logits_processors", "truncate_prompt_tokens", "return_tokens_as_token_ids",
)  # fmt: skip
_FORMATS = ("text", "json_object", "json_schema")


class StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class Repetition(msgspec.Struct):
    max_pattern_size: int = 0
    min_pattern_size: int = 0
    min_count: int = 0


class Body(msgspec.Struct, kw_only=True):
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
    repetition_detection: Repetition | None = None
    response_format: Any = None
    structured_outputs: Any = None
    return_token_ids: bool | None = None
    request_id: str | None = None
    echo: bool | None = False

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())


class ChatBody(Body, kw_only=True):
    messages: list[Any]
    logprobs: bool | None = False
    top_logprobs: int | None = None
    max_completion_tokens: int | None = None


class TextBody(Body, kw_only=True):
    prompt: Any = None
    logprobs: int | None = None


AnyBody = TypeVar("AnyBody", bound=msgspec.Struct)


def read(found: dict[str, Any], kind: type[AnyBody]) -> AnyBody:
    """The body as `kind`. Raises Refusal."""
    try:
        body = msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        raise from_msgspec(error, found) from None
    for name in _NOT_SIMULATED:
        if found.get(name):
            raise bad(f"The simulator does not simulate `{name}`.", name)
    return body


def wanted(body: Body) -> int | None:
    """The cap that was asked for; None where a chat answer may fill the context."""
    if isinstance(body, ChatBody):
        return body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
    return DEFAULT_MAX_TOKENS if body.max_tokens is None else body.max_tokens


def messages(body: ChatBody) -> tuple[tuple[str, str], ...]:
    """(role, text) pairs. Raises Refusal for what is no text."""
    if not body.messages:
        raise bad("Cannot apply chat template to an empty conversation. Provide at least one message.")
    found = []
    for i, message in enumerate(body.messages):
        place = f"body.messages.{i}"
        if not isinstance(message, Mapping):
            raise invalid("dict_type", place, "Input should be a valid dictionary", message)
        role = message.get("role")
        if not isinstance(role, str):
            place += ".ChatCompletionDeveloperMessageParam.role"
            raise invalid("missing", place, "Field required", dict(message))
        found.append((role, _content(message.get("content"), place)))
    return tuple(found)


def _content(content: object, place: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list) and all(
        isinstance(p, Mapping) and isinstance(p.get("text"), str) for p in content
    ):
        return "\n".join(part["text"] for part in content)
    raise invalid("string_type", f"{place}.content", "The simulator reads texts only", content)


def prompts(body: TextBody) -> list[tuple[int, ...]]:
    """Token ids of each prompt. Raises Refusal."""
    given = body.prompt
    if given is None or given == "":
        message = "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)"
        raise bad(message, "prompt")
    if isinstance(given, str):
        return [tuple(vocabulary.encode(given))]
    if isinstance(given, list):
        if not given:
            raise bad("You must pass at least one prompt")
        if all(type(each) is int for each in given):
            return [known_ids(given)]
        if all(isinstance(each, str) for each in given):
            return [tuple(vocabulary.encode(each)) for each in given]
        if all(isinstance(each, list) and each and all(type(i) is int for i in each) for each in given):
            return [known_ids(each) for each in given]
    raise invalid("list_type", "body.prompt", "Input should be a valid list", given)


def known_ids(ids: list[int]) -> tuple[int, ...]:
    """The ids, all of them tokens. Raises Refusal."""
    unknown = next((i for i in ids if not 0 <= i < vocabulary.SIZE), None)
    if unknown is not None:
        raise bad(f"Token id {unknown} is out of vocabulary")
    return tuple(ids)


def requests(
    body: Body, prompt: tuple[int, ...], context: int, said: tuple[tuple[str, str], ...] | None
) -> list[SimRequest]:
    """The engine's requests for one prompt, one for each of `n`. Raises Refusal."""
    asked = wanted(body)
    room = context - len(prompt)
    if room < 0:
        raise bad(
            f"This model's maximum context length is {context} tokens. However, your prompt contains "
            f"{len(prompt)} input tokens, which exceeds this limit even without any output tokens. Please "
            f"reduce the length of the input prompt.",
            "input_tokens",
        )
    if room == 0:
        raise bad("max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)", "max_tokens")
    schema_asked, schema = _format(body)
    made = []
    found = body.repetition_detection
    for i in range(body.n or 1):
        seed = None if body.seed is None and not i else (body.seed or 0) + i
        text = None
        if schema_asked:
            try:
                text = json_text(schema, zlib.crc32(repr((prompt, seed)).encode()))
            except SchemaError as error:
                raise bad(f"The simulator cannot write by this schema: {error}", "response_format") from None
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
                repetition_detection=None
                if found is None
                else RepetitionDetection(found.max_pattern_size, found.min_pattern_size, found.min_count),
                json_text=text,
            )
        )
    return made


def _format(body: Body) -> tuple[bool, Any]:
    """(JSON is asked for, its schema or None)."""
    structured = body.structured_outputs
    if structured is not None:
        if isinstance(structured, Mapping) and set(structured) == {"json"}:
            return True, structured["json"]
        raise bad("The simulator simulates only `json` of `structured_outputs`.", "structured_outputs")
    asked = body.response_format
    if asked is None:
        return False, None
    kind = asked.get("type") if isinstance(asked, Mapping) else None
    if kind not in _FORMATS:
        said = "Input should be 'text', 'json_object' or 'json_schema'"
        raise invalid("literal_error", "body.response_format.type", said, kind)
    if kind != "json_schema":
        return kind == "json_object", None
    holder = asked.get("json_schema")
    if not isinstance(holder, Mapping):
        raise Refusal(
            400,
            "When response_format type is 'json_schema', the 'json_schema' field must be provided. "
            "(parameter=response_format)",
            "response_format",
        )
    return True, holder.get("schema")
