"""One line of a ``--prompts`` file: a prompt, or a whole chat-completion body as an application sends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stresstest.config.credentials.fields import refuse_credentials
from stresstest.config.foreign_files import MalformedFileError, format_short
from stresstest.config.request_fields import OWN_FIELDS, canonical
from stresstest.config.settings import parse_parameter
from stresstest.config.suggestions import suggest_closest
from stresstest.errors import UsageError
from stresstest.model import PARAMETERS, Message

_ROLES = ("system", "developer", "user", "assistant", "tool")
_MESSAGE_KEYS = ("role", "content", "name", "tool_calls", "tool_call_id", "refusal", "reasoning_content")
_PARTS = ("text", "image_url", "video_url", "audio_url", "input_audio", "file", "refusal")
FIELDS = (
    *("response_format", "structured_outputs", "tools", "tool_choice", "parallel_tool_calls", "stop"),
    *("chat_template_kwargs", "chat_template", "reasoning_effort", "thinking_token_budget", "logit_bias"),
    *(
        "stop_token_ids",
        "include_stop_str_in_output",
        "min_tokens",
        "skip_special_tokens",
        "user",
        "metadata",
    ),
    *("spaces_between_special_tokens", "repetition_detection", "length_penalty", "use_beam_search"),
    *("bad_words", "allowed_token_ids", "documents", "mm_processor_kwargs", "include_reasoning", "priority"),
    *("add_generation_prompt", "continue_final_message", "add_special_tokens", "service_tier", "store"),
    *("vllm_xargs", "verbosity", "prediction", "modalities"),
)
"""Fields of chat completions (OpenAI, vLLM) that are sent as they are; others go under ``extra_body``."""
_PLACEHOLDER_KEYS = ("id", "messages", "prompt", "extra_body")


def parse_fields(record: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """(request fields beside the prompt, names of those that a measurement sets itself and are not sent).

    Raises MalformedFileError for unknown fields, two values of one field, sampling parameters that are no
    number in their range, and credentials.
    """
    nested = record.get("extra_body") or {}
    if not isinstance(nested, dict):
        raise MalformedFileError(f'"extra_body" must be an object, not {format_short(nested)}')
    known = (*_PLACEHOLDER_KEYS, *PARAMETERS, *FIELDS, *OWN_FIELDS)
    _refuse_extra(record, known, 'put a field of your own server into "extra_body"')
    found = {k: v for k, v in record.items() if k not in _PLACEHOLDER_KEYS and v is not None}
    for name, value in nested.items():
        if name in found and found[name] != value:
            raise MalformedFileError(f'{format_short(name)} is given twice, the second time in "extra_body"')
        if value is not None or name not in PARAMETERS:
            found[name] = value
    try:
        refuse_credentials(found, "it")
        found |= {name: parse_parameter(name, found[name]) for name in PARAMETERS if name in found}
        canonical(found).encode("utf-8")
    except UsageError as error:
        raise MalformedFileError(f"{error} {error.hint}" if error.hint else str(error)) from None
    except ValueError as error:
        raise MalformedFileError(f"it cannot be sent as JSON: {error}") from None
    own = {name for name in found if name in OWN_FIELDS}
    return {name: value for name, value in found.items() if name not in own}, own


def parse_messages(messages: object) -> tuple[Message, ...]:
    """The turns of a conversation. Raises MalformedFileError."""
    if not isinstance(messages, list) or not messages:
        raise MalformedFileError(
            f'"messages" must be a list of at least one message, not {format_short(messages)}'
        )
    parsed = [_parse_message(message, f"message {i}") for i, message in enumerate(messages, start=1)]
    if not any(message.content.strip() for message in parsed):
        raise MalformedFileError('"messages" hold no text')
    return tuple(parsed)


def _parse_message(message: object, what: str) -> Message:
    if not isinstance(message, dict):
        raise MalformedFileError(f"{what} must be an object, not {format_short(message)}")
    _refuse_extra(message, _MESSAGE_KEYS, f"in {what}")
    role, content = message.get("role"), message.get("content")
    if role not in _ROLES:
        raise MalformedFileError(
            f'{what}: "role" must be one of {", ".join(_ROLES)}, not {format_short(role)}'
        )
    given = {key: value for key, value in message.items() if value is not None}
    if content is None and given.get("tool_calls"):
        text = ""
    elif isinstance(content, list):
        text = "\n".join(_part_text(part, f"{what}, part {i}") for i, part in enumerate(content, start=1))
    else:
        text = sendable(content, f'{what}: "content"')
    plain = given.keys() == {"role", "content"} and isinstance(content, str)
    return Message(role, text, None if plain else _wire(given, what))


def _part_text(part: object, what: str) -> str:
    """The text of a part; ``[image_url]`` for a part that is none."""
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or kind not in _PARTS:
        raise MalformedFileError(
            f'{what}: "type" must be one of {", ".join(_PARTS)}, not {format_short(kind)}'
        )
    return sendable(part.get("text"), f'{what}: "text"') if kind == "text" else f"[{kind}]"


def _wire(message: Mapping[str, Any], what: str) -> str:
    try:
        text = canonical(message)
        text.encode("utf-8")
    except ValueError as error:
        raise MalformedFileError(f"{what} cannot be sent as JSON: {error}") from None
    return text


_NAMED_OTHERWISE = dict.fromkeys(
    ("text", "question", "input", "instruction", "content"), 'a text to send is called "prompt"'
)
"""What other files call it."""


def _refuse_extra(record: Mapping[str, Any], allowed: Sequence[str], note: str) -> None:
    """Dropping a key silently would send something else than the user's prompt; a null counts as absent."""
    for key, value in record.items():
        if key not in allowed and value is not None:
            close = _NAMED_OTHERWISE.get(key) or suggest_closest(key, allowed) or note
            raise MalformedFileError(f"unknown key {format_short(key)} ({close})")


def sendable(value: object, what: str) -> str:
    """The text, if it can be sent as UTF-8; MalformedFileError else."""
    if not isinstance(value, str):
        raise MalformedFileError(f"{what} must be a text, not {format_short(value)}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise MalformedFileError(f"{what} holds half a surrogate pair, which cannot be sent") from error
    return value
