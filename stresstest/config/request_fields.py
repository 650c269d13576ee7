"""Fields of a request's body that the user brings: ``--extra-body``, and the bodies of a prompts file.

What is sent is stored, shown in reports and compared by `check`. A credential in a body is therefore refused
before anything is sent, and its value is quoted nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stresstest.config.credentials.fields import refuse_credentials
from stresstest.errors import UsageError
from stresstest.model import PARAMETERS

OWN_FIELDS: Mapping[str, str] = {
    "model": "--model",
    "messages": "--prompts",
    "prompt": "--prompts",
    "max_tokens": "--horizon",
    "max_completion_tokens": "--horizon",
    "seed": "--seed",
    **dict.fromkeys(
        (
            *("stream", "stream_options", "n", "best_of", "echo", "ignore_eos", "return_token_ids"),
            *("logprobs", "top_logprobs", "prompt_logprobs", "return_tokens_as_token_ids"),
            "cache_salt",  # a secret, which keeps one tenant from guessing another's prompts
        ),
        "",
    ),
}
"""Fields that a measurement sets itself, or never sends, and the option that decides on each; empty where
none does."""
_MAX_CHARACTERS = 200_000


def canonical(fields: Mapping[str, Any]) -> str:
    """The fields as JSON that is the same for equal content, whatever the order of their keys."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def plain_system_prompt(text: str) -> str:
    """A system prompt without a credential. Raises UsageError: it is sent to models, stored and shown."""
    refuse_credentials({"its text": text}, "--system-prompt")
    return text


def parse_extra_body(value: object) -> str:
    """``--extra-body``, as JSON text or as a table of a settings file → canonical JSON.

    Raises UsageError for what is not a JSON object, for fields that are ours or that have an option of their
    own, and for credentials.
    """
    fields = value
    if isinstance(value, str):
        try:
            fields = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"--extra-body is not valid JSON: {error}.", hint=_EXAMPLE) from None
    if not isinstance(fields, dict):
        raise UsageError("--extra-body must be a JSON object.", hint=_EXAMPLE)
    for name in fields:
        option = OWN_FIELDS.get(name) or (_option(name) if name in PARAMETERS else "")
        if option:
            raise UsageError(f"--extra-body cannot set {name!r}: {option} does.")
        if name in OWN_FIELDS:
            raise UsageError(f"--extra-body cannot set {name!r}: a measurement decides on it itself.")
    refuse_credentials(fields, "--extra-body")
    try:
        text = canonical(fields)
        text.encode("utf-8")
    except (TypeError, ValueError) as error:
        raise UsageError(f"--extra-body cannot be sent as JSON: {error}.") from None
    if len(text) > _MAX_CHARACTERS:
        raise UsageError(
            f"--extra-body has {len(text):,} characters; at most {_MAX_CHARACTERS:,} are allowed."
        )
    return text


_EXAMPLE = """For example: --extra-body '{"response_format": {"type": "json_object"}}'"""


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
