"""The words of servers and services for how an answer ended."""

from __future__ import annotations

import re

from stresstest.model.words import REPETITION_REASON

LENGTH, STOP = "length", "stop"
LOST_REASONS = frozenset({"abort", "error", "content_filter"})
"""The service gave the answer up."""

_WORDS = {
    **dict.fromkeys(
        (
            *(
                "length",
                "max_tokens",
                "max_output_tokens",
                "model_length",
                "token_limit",
                "incomplete",
                "limit",
            ),
            *("max_output", "max_length", "model_context_window_exceeded"),
            *("context_length_reached", "max_predicted_tokens_reached"),
        ),
        LENGTH,
    ),
    **dict.fromkeys(("stop", "end_turn", "eos", "eos_token"), STOP),
    **dict.fromkeys(
        ("aborted", "cancel", "cancelled", "canceled", "user_cancelled", "client_disconnect", "disconnected"),
        "abort",
    ),
    **dict.fromkeys(("failed", "failure", "timeout", "preempted", "other"), "error"),
    # DeepSeek's word, and Gemini's for a call that is not one.
    **dict.fromkeys(("insufficient_system_resource", "malformed_function_call"), "error"),
    # Gemini's, Anthropic's, Bedrock's and Zhipu's words for an answer that a filter has cut.
    **dict.fromkeys(
        (
            *("safety", "recitation", "blocklist", "prohibited_content", "spii", "language"),
            *("refusal", "content_filtered", "guardrail_intervened", "image_safety", "sensitive"),
        ),
        "content_filter",
    ),
    **{word: word for word in (*LOST_REASONS, REPETITION_REASON)},
}
_PARTS = {
    **dict.fromkeys(
        ("cancel", "cancelled", "canceled", "abort", "aborted", "disconnect", "disconnected"), "abort"
    ),
    **dict.fromkeys(("error", "errors", "failed", "timeout", "timed", "interrupted", "closed"), "error"),
}
"""Words within others: ``USER_CANCEL``, ``ERROR_TOXIC``, ``client_closed_request``."""
_END_TOKEN = re.compile(r"<\|[^<>]{1,40}\|>|<\uff5c[^<>]{1,40}\uff5c>|</?[a-z_]{1,40}>")
"""``<|im_end|>``, ``</s>``, ``<end_of_turn>``."""
_HUMPS, _LONGEST = re.compile(r"(?<=[a-z])(?=[A-Z])|[- ]"), 128
_NO_END = frozenset(
    {"tool_calls", "tool_call", "tool_use", "function_call", "pause_turn", "complete", "completed", "done"}
    | {
        "stop_sequence",
        "finish",
        "finished",
        "end",
        "success",
        "ok",
        "none",
        "null",
        "unknown",
        "unspecified",
        "",
    }
)
"""Words that do not tell whether the answer is whole: calls of tools, a stop sequence of the client's, and
what says no more than its end."""


def normalize_finish_reason(reason: str | None) -> str | None:
    """``"MAX_TOKENS"`` → ``"length"``. One of length, stop, abort, error, content_filter, repetition.

    None where the word is absent or names no known end (tool_calls): such an answer is not known to have
    ended by itself.
    """
    word = _plain_reason(reason)
    parts = (_PARTS.get(part) for part in word.split("_"))
    return _WORDS.get(word) or next(filter(None, parts), None)


def usual_reason(reason: str | None) -> str | None:
    """The reason as vLLM words it where it is known to be an end of the model's own or the cap: TGI's
    `eos_token`, Gemini's `MAX_TOKENS`. Any other word stays the server's."""
    known = normalize_finish_reason(reason)
    return known if known in (STOP, LENGTH) else reason


def reason_with_match(reason: str | None, matched: object) -> str | None:
    """The reason, or ``"stop_sequence"`` where vLLM (`stop_reason`) or SGLang (`matched_stop`) names a text
    that the client had asked to stop at. An end token's text is the model's own end."""
    asked = isinstance(matched, str) and matched.strip() and not _END_TOKEN.fullmatch(matched.strip())
    word = isinstance(matched, str) and normalize_finish_reason(matched) is not None
    return "stop_sequence" if asked and not word and normalize_finish_reason(reason) == STOP else reason


def is_foreign_reason(reason: str | None) -> bool:
    """Whether a reason is a word that nobody here knows."""
    return normalize_finish_reason(reason) is None and _plain_reason(reason) not in _NO_END


def _plain_reason(reason: str | None) -> str:
    """In small letters, its words joined by "_": of ``FinishReason.MAX_TOKENS``, ``content-filter``,
    ``MaxTokens`` and ``content_filter: RECITATION``, too."""
    word = (reason or "").strip()[:_LONGEST].partition(":")[0].rpartition(".")[2]
    return _HUMPS.sub("_", word).lower().removeprefix("finish_reason_")
