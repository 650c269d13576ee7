"""Response bodies and their answers: chat completions, completions, the Responses API, Anthropic's messages
(vLLM's `/v1/messages` too)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from stresstest.model import Token
from stresstest.model.tokens import MIN_UNSEEN_TOKENS
from stresstest.records.formats.calls import (
    ONLY_TOOL_CALLS,
    arguments,
    has_calls,
    has_tool_call,
    is_nothing,
    is_tool_call,
    message_arguments,
)
from stresstest.records.formats.logprobs import logprob_tokens
from stresstest.records.record import (
    LENGTH,
    STOP,
    TextlessError,
    UnreadableError,
    describe_type,
    normalize_finish_reason,
)

_T = TypeVar("_T")

REASONING_KEYS = (
    *("reasoning_content", "reasoning", "thinking", "thinking_blocks", "reasoning_details", "reasoning_text"),
)
_EXTRA_FIELDS = ("provider_specific_fields", "model_extra")
_THOUGHT_KEYS = ("thinking", "reasoning", "content", "text", "summary")
_DEPTH = 3
_ENVELOPE_KEYS = frozenset({"object", "created", "usage"})
_TEXT_CHOICE_KEYS = frozenset({"text", "index", "logprobs", "stop_reason", "prompt_logprobs"})
"""Of a choice of the completions endpoint, where the logger left out why it ended."""
_REASONING_PARTS = frozenset({"reasoning", "thinking"})


def is_body(value: Any) -> bool:
    """Whether this is a response body: choices, the items of the Responses API, or Anthropic's message."""
    return isinstance(value, dict) and (has_choices(value) or has_items(value) or _is_message(value))


def is_whole_body(value: Mapping[str, Any]) -> bool:
    """Whether an object says of itself that it is a body of the Responses API or Anthropic's message."""
    return (value.get("object") == "response" and has_items(value)) or _is_message(value)


def parse_answers(body: Mapping[str, Any]) -> list[RecordedAnswer]:
    """Every answer of a body, in order. UnreadableError when it holds none or has a wrong type."""
    if _is_message(body):
        return [_message_answer(body)]
    return [items_answer(body)] if has_items(body) else choice_answers(body)


def _is_message(body: Mapping[str, Any]) -> bool:
    speaks = (body.get("type"), body.get("role")) == ("message", "assistant")
    return speaks and isinstance(body.get("content"), str | list)


def _message_answer(body: Mapping[str, Any]) -> RecordedAnswer:
    reason = body.get("stop_reason")
    finish = reason if isinstance(reason, str) else None
    reasoning = find_reasoning(body)
    text = message_text(body, finish, reasoning)
    if text is None and not reasoning:
        raise UnreadableError("no text in it")
    return RecordedAnswer(
        text or "", reasoning, finish, calls=has_calls(body), refused=finish == "refusal" or is_refusal(body)
    )


def has_choices(body: Mapping[str, Any]) -> bool:
    """Whether a body has the choices of a completion. A quiz has choices too, and models write them."""
    choices = body.get("choices")
    if not isinstance(choices, list):
        return False
    enveloped = not _ENVELOPE_KEYS.isdisjoint(body)
    return any(_is_choice(each, enveloped) for each in choices) if choices else enveloped


def _is_choice(choice: Any, enveloped: bool) -> bool:
    if not isinstance(choice, dict):
        return False
    of_text = enveloped and "text" in choice and choice.keys() <= _TEXT_CHOICE_KEYS
    return isinstance(choice.get("message"), dict) or "finish_reason" in choice or of_text


def has_items(body: Mapping[str, Any]) -> bool:
    """Whether a body has the items of the Responses API."""
    output = body.get("output")
    if not isinstance(output, list):
        return False
    items = [each for each in output if isinstance(each, dict)]
    # Without types, messages of the model's are the answers to a request of several.
    return body.get("object") == "response" or any(
        "content" in i and ("type" in i or "role" not in i) for i in items
    )


def choice_answers(body: Mapping[str, Any]) -> list[RecordedAnswer]:
    choices = body["choices"]
    if not choices:
        raise UnreadableError("the response has no choices")
    usage = body.get("usage")
    spent = usage.get("completion_tokens") if isinstance(usage, dict) and len(choices) == 1 else None
    return read_several(choices, lambda choice: _choice(choice, spent if isinstance(spent, int) else 0))


def read_several(values: Sequence[_T], read: Callable[[_T], RecordedAnswer]) -> list[RecordedAnswer]:
    """Several answers of one row, in order: one that cannot be read does not take the others with it.

    Beside others it counts as one without text, and a call without arguments as an empty answer. Raises
    UnreadableError, the first one, where none can be read.
    """
    found: list[RecordedAnswer] = []
    errors: list[UnreadableError] = []
    for value in values:
        try:
            found.append(read(value))
        except UnreadableError as error:
            called = isinstance(error, TextlessError)
            found.append(RecordedAnswer("", known=called, calls=called))
            errors.append(error)
    if errors and len(errors) == len(found):
        raise next((each for each in errors if not isinstance(each, TextlessError)), errors[0])
    return found


def _choice(choice: Any, spent: int) -> RecordedAnswer:
    """spent: the tokens that the server counted, as far as they are known to be this choice's."""
    if not isinstance(choice, dict):
        raise UnreadableError("a choice is not an object")
    message = choice.get("message")
    if message is not None and not isinstance(message, dict):
        raise UnreadableError("a message is not an object")
    reason = choice.get("finish_reason", choice.get("stop_reason"))
    finish = reason if isinstance(reason, str) else None
    reasoning = ""
    if message is None:
        text = join_content(choice.get("text"))
    else:
        reasoning = find_reasoning(message) or find_reasoning(choice)
        text = message_text(message, finish, reasoning)
    hidden = spent >= MIN_UNSEEN_TOKENS or normalize_finish_reason(finish) == LENGTH
    if text is None and not reasoning and (message is None or not hidden):
        raise UnreadableError("no text in it")
    tokens = logprob_tokens(choice.get("logprobs"), text or "", reasoning)
    calls = message is not None and has_calls(message)
    refused = message is not None and is_refusal(message)
    return RecordedAnswer(text or "", reasoning, finish, tokens, calls=calls, refused=refused)


def message_text(message: Mapping[str, Any], finish: str | None = None, reasoning: str = "") -> str | None:
    """A message's content, what it says beside it (a refusal, the words of its audio), and then the arguments
    of its calls; None for neither.

    TextlessError for calls alone that have no arguments. A call that the cap cut is not in good order,
    whether it came to its arguments or not.
    """
    text = join_content(message.get("content"))
    beside = "".join(_spoken_beside(message))
    text = (text or "") + beside if beside else text
    if not has_calls(message):
        return text
    written = message_arguments(message)
    if not text and not reasoning and is_nothing(written) and normalize_finish_reason(finish) != LENGTH:
        raise TextlessError(ONLY_TOOL_CALLS)
    return (text or "") + written


def is_refusal(message: Mapping[str, Any]) -> bool:
    """Whether the API marks a message, or a part of it, as a refusal."""
    content = message.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return any(isinstance(held.get("refusal"), str) and held["refusal"] for held in (message, *parts))


def _spoken_beside(message: Mapping[str, Any]) -> Iterator[str]:
    audio = message.get("audio")
    for said in (message.get("refusal"), audio.get("transcript") if isinstance(audio, dict) else None):
        if isinstance(said, str):
            yield said


def items_answer(body: Mapping[str, Any]) -> RecordedAnswer:
    """The Responses API: messages and calls in order; `max_output_tokens` means that the cap cut it."""
    items = [item for item in body["output"] if isinstance(item, dict)]
    finish = _items_finish(body)
    reasoning = join_reasoning(items)
    found = [text for item in items if (text := _item_text(item)) is not None]
    # A call is a line of its own: as a record of data it would make data of what follows it.
    text = ("\n" if has_tool_call(items) else "").join(found)
    capped = normalize_finish_reason(finish) == LENGTH
    if not reasoning and not capped and is_nothing(text) and has_tool_call(items):
        raise TextlessError(ONLY_TOOL_CALLS)
    if not found and not reasoning:
        raise UnreadableError("no text in it")
    refused = any(map(is_refusal, items))
    return RecordedAnswer(text, reasoning, finish, calls=has_tool_call(items), refused=refused)


def _item_text(item: Mapping[str, Any]) -> str | None:
    """The text of a message, or the arguments of a call; None for other items."""
    if is_tool_call(item):
        return arguments(item)
    return join_content(item.get("content")) if item.get("type", "message") == "message" else None


def _items_finish(body: Mapping[str, Any]) -> str | None:
    details = body.get("incomplete_details")
    why = details.get("reason") if isinstance(details, dict) else None
    ended = STOP if body.get("status") == "completed" else None
    return {"max_output_tokens": LENGTH, None: ended}.get(why, why)


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """One of the answers of a row. known: False where the log kept no text of it. calls: whether the text
    holds the arguments of calls of tools. refused: whether the API marks it as a refusal."""

    text: str
    reasoning: str = ""
    finish_reason: str | None = None
    tokens: tuple[Token, ...] | None = None
    known: bool = True
    calls: bool = False
    refused: bool = False


def find_reasoning(holder: Mapping[str, Any]) -> str:
    """What a message, or a record, keeps of the thought before its answer; "" where it keeps none."""
    found = (_thought(held.get(key)) for held in _with_extra_fields(holder) for key in REASONING_KEYS)
    return next(filter(None, found), "") or join_reasoning(holder.get("content"))


def _with_extra_fields(holder: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The holder, and the objects in which clients keep what they do not know."""
    yield holder
    yield from (extra for key in _EXTRA_FIELDS if isinstance(extra := holder.get(key), dict))


def is_reasoning(part: Any) -> bool:
    """Whether a part of a message, or an item, is a thought."""
    return isinstance(part, dict) and part.get("type") in _REASONING_PARTS


def join_reasoning(parts: Any) -> str:
    """The thoughts among the parts of a message."""
    listed = parts if isinstance(parts, list | tuple) else ()
    return "".join(map(_thought, filter(is_reasoning, listed)))


def _thought(value: Any, depth: int = _DEPTH) -> str:
    """The text of a thought: a string, a part, or a list of them; a request's settings for it have none."""
    if isinstance(value, str):
        return value
    if depth == 0:
        return ""
    if isinstance(value, list | tuple):
        return "".join(_thought(each, depth - 1) for each in value)
    if isinstance(value, dict):
        # What Inspect keeps of redacted reasoning is encrypted; only its summary is text.
        keys = ("summary",) if value.get("redacted") is True else _THOUGHT_KEYS
        return next(filter(None, (_thought(value.get(key), depth - 1) for key in keys)), "")
    return ""


def join_content(content: Any) -> str | None:
    """A message's content: text, or a list of parts of which the texts count, but for those of reasoning;
    None for parts without any.

    UnreadableError for anything else.
    """
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list):
        shown = [p for p in content if not is_reasoning(p)]
        parts = [p.get("text", p.get("refusal")) if isinstance(p, dict) else p for p in shown]
        texts = [p for p in parts if isinstance(p, str)]
        return "".join(texts) if texts or not content else None
    raise UnreadableError(f"no text there: {describe_type(content)}")
