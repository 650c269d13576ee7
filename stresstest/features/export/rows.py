"""Rows as TRL reads them: its preference, unpaired preference and prompt-only formats.

Messages, or strings where the prompt is the text of a completion. TRL 1.16's DPOTrainer cannot continue a
last message of the assistant: the chat template closes its turn. Pairs that share their beginning therefore
have it in both answers, where its log-probability cancels out of DPO's loss.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from stresstest.features.export.answers import AskedPrompt, ExportedAnswer
from stresstest.features.export.pairing import PreferencePair
from stresstest.model import Decoding
from stresstest.model.request import request_fields
from stresstest.render.limits import decoding_words
from stresstest.render.steering import escape_steering


def preference_row(pair: PreferencePair) -> dict[str, Any]:
    """A row of ``export dpo``."""
    chosen, rejected = pair.chosen, pair.rejected
    return {
        "prompt": _prompt(rejected),
        "chosen": _completion(rejected.prompt, chosen.text),
        "rejected": _completion(rejected.prompt, rejected.text),
        "metadata": {
            **_metadata(rejected),
            "chosen_model": chosen.subject.model,
            "chosen_run": chosen.source,
            "chosen_key": chosen.key,
            "chosen_decoding": pair.intervention or decoding_text(chosen),
            "chosen_tokens": chosen.tokens,
            "shared_chars": pair.shared_chars,
        },
    }


def labelled_row(answer: ExportedAnswer) -> dict[str, Any]:
    """A row of ``export kto``."""
    return {
        "prompt": _prompt(answer),
        "completion": _completion(answer.prompt, answer.text),
        "label": not answer.degenerate,
        "metadata": _metadata(answer),
    }


def prompt_rows(prompts: Iterable[AskedPrompt]) -> Iterator[dict[str, Any]]:
    """Lines of a ``--prompts`` file; without the system prompt of a decoding, which is an option."""
    ids: set[str] = set()
    for prompt in prompts:
        name = prompt.key if prompt.id in ids else prompt.id
        ids.add(name)
        asked = {"messages": _turns(prompt, Decoding())} if prompt.text is None else {"prompt": prompt.text}
        yield {"id": name, **asked, **request_fields(prompt.body)}


def json_lines(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """One object a line. Half an emoji, which a cut leaves and no loader takes, becomes a question mark."""
    for row in rows:
        line = json.dumps(row, ensure_ascii=False).encode("utf-8", "replace").decode("utf-8")
        yield escape_steering(line) + "\n"


def decoding_text(answer: ExportedAnswer) -> str:
    """The decoding in words; of a log that names no parameter it is not known."""
    if answer.recorded:
        return decoding_words(answer.decoding, nothing="not stated")
    return decoding_words(answer.decoding)


def _prompt(answer: ExportedAnswer) -> str | list[dict[str, Any]]:
    prompt = answer.prompt
    return _turns(prompt, answer.decoding) if prompt.text is None else prompt.text


def _turns(prompt: AskedPrompt, decoding: Decoding) -> list[dict[str, Any]]:
    return [message.as_sent() for message in prompt.messages_under(decoding)]


def _completion(prompt: AskedPrompt, text: str) -> str | list[dict[str, str]]:
    return [{"role": "assistant", "content": text}] if prompt.text is None else text


def _metadata(answer: ExportedAnswer) -> dict[str, Any]:
    subject = answer.subject
    return {
        "prompt_id": answer.prompt.id,
        "request_fields": answer.prompt.body,
        "model": subject.model,
        "task": subject.task,
        "language": subject.language,
        "run": answer.source,
        "key": answer.key,
        "decoding": decoding_text(answer),
        "symptom": answer.symptom,
        "onset": answer.onset,
        "onset_char": answer.onset_char,
        "tokens": answer.tokens,
        "prompt_tokens": answer.prompt_tokens,
    }
