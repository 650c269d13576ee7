"""Limits in the words of what enforces them: vLLM's flags, a request, LiteLLM's file, shell variables.

Names come from servers and files and are hostile: quoted for the shell and YAML, one line in comments.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from stresstest.report.limits import (
    Limits,
    Row,
    decoding_words,
    one_line,
    safe,
    smallest_line,
    stands_on,
)

OPENAI = ("temperature", "top_p", "presence_penalty", "frequency_penalty")
"""Sampling parameters that OpenAI's own API knows; vLLM's others go into `extra_body`."""
_YAML_UNSAFE = re.compile(
    r"[^\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]|[\u2028\u2029]"
)
_NO_SYSTEM = "It was measured with a system prompt, which this cannot set: send the same one with requests."


def vllm_flags(limits: Limits) -> str:
    """Arguments for `vllm serve`: the smallest limit and the decoding as the server's defaults.

    vLLM never exceeds a `max_new_tokens` given so, whatever a request asks for; the sampling parameters
    are defaults that a request may change (vLLM 0.15-0.33).
    """
    config = {"max_new_tokens": safe(limits.smallest), **limits.decoding.sent()}
    notes = ["No request gets more than max_new_tokens; the sampling parameters are defaults."]
    if limits.decoding.system_prompt is not None:
        notes.append(_NO_SYSTEM)
    quoted = shlex.quote(json.dumps(config))
    return "\n".join([*_comments(limits, notes), f"--override-generation-config {quoted}"])


def openai_document(found: Sequence[Limits]) -> dict[str, Any]:
    """Arguments of the openai SDK's ``chat.completions.create``, one a task and language.

    Over plain HTTP the keys of ``extra_body`` belong beside the others.
    """
    return {
        "models": [
            {
                "model": limits.model,
                "simulated": limits.simulated,
                "smallest_max_tokens": safe(limits.smallest),
                "requests": [
                    {"measured": _measured(row), "request": _request(limits, row)} for row in limits.rows
                ],
                "not_certified": [asdict(row.subject) for row in limits.uncovered],
            }
            for limits in found
        ]
    }


def litellm_yaml(found: Sequence[Limits]) -> str:
    """A `model_list` for LiteLLM's proxy: the model at its smallest limit, and one entry a task if several.

    LiteLLM takes a request's own max_tokens before the entry's.
    """
    lines: list[str] = []
    for limits in found:
        notes = [
            "A request that names its own max_tokens overrides these; vLLM's flags cannot be overridden."
        ]
        if limits.decoding.system_prompt is not None:
            notes.append(_NO_SYSTEM)
        lines += _comments(limits, notes)
    lines.append("model_list:")
    for limits in found:
        lines += _litellm_entry(limits, limits.smallest, limits.model)
        if len(limits.rows) > 1:
            for row in limits.rows:
                name = f"{limits.model}/{row.subject.task}-{row.subject.language}"
                lines += _litellm_entry(limits, row, name)
    return "\n".join(lines)


def shell_variables(limits: Limits) -> str:
    """Lines to `source`: MAX_TOKENS (the smallest, and one a task if several) and the decoding.

    The decoding also under STRESSTEST_ names, so that a later `run` or `check` measures what is deployed.
    """
    lines = _comments(limits, ["For a shell: set -a; . ./limits.env"])
    lines.append(f"MODEL={shlex.quote(limits.model)}")
    lines.append(f"MAX_TOKENS={safe(limits.smallest)}")
    if len(limits.rows) > 1:
        taken: set[str] = set()
        for row in limits.rows:
            lines.append(f"{_variable(row, taken)}={safe(row)}")
    decoding = limits.decoding.given()
    lines += [f"{name.upper()}={shlex.quote(str(value))}" for name, value in decoding.items()]
    lines.append(f"STRESSTEST_MODEL={shlex.quote(limits.model)}")
    lines += [f"STRESSTEST_{name.upper()}={shlex.quote(str(value))}" for name, value in decoding.items()]
    return "\n".join(lines)


def yaml_number(value: float) -> str:
    """A number that YAML 1.1 reads as one: 1e-05 is a string there, 1.0e-05 is a float."""
    mantissa, exponent, power = json.dumps(value).partition("e")
    return f"{mantissa}{'' if '.' in mantissa or not exponent else '.0'}{exponent}{power}"


def yaml_string(text: str) -> str:
    """A double-quoted YAML scalar that every YAML parser reads back as `text`."""

    def escaped(found: re.Match[str]) -> str:
        code = ord(found[0])
        return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"

    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _YAML_UNSAFE.sub(escaped, plain) + '"'


def _comments(limits: Limits, notes: Sequence[str]) -> list[str]:
    """What the limit stands on, as comment lines."""
    lines = ["SIMULATED: no measurement of a model."] if limits.simulated else []
    several = len(limits.rows) > 1
    if several:
        lines.append(smallest_line(limits))
    for row in limits.rows:
        first, *more = stands_on(row)
        lines += [first, *(f"  {line}" for line in more)]
    lines += [f"NOT CERTIFIED, and not covered by the limit: {row.subject}" for row in limits.uncovered]
    lines.append(f"Decoding: {decoding_words(limits.decoding)}.")
    return [f"# {_indented(line)}" for line in (*lines, *notes)]


def _indented(line: str) -> str:
    return ("  " if line.startswith("  ") else "") + one_line(line)


def _request(limits: Limits, row: Row) -> dict[str, Any]:
    sent = limits.decoding.sent()
    request: dict[str, Any] = {"model": limits.model, "max_tokens": safe(row)}
    request |= {k: v for k, v in sent.items() if k in OPENAI}
    extra = {k: v for k, v in sent.items() if k not in OPENAI}
    if limits.decoding.system_prompt is not None:
        request["messages"] = [{"role": "system", "content": limits.decoding.system_prompt}]
    return request | ({"extra_body": extra} if extra else {})


def _measured(row: Row) -> dict[str, Any]:
    threshold = row.threshold
    return {
        "subject": asdict(row.subject),
        "n": threshold.n,
        "onsets": threshold.onsets,
        "alpha": threshold.alpha,
        "confidence": threshold.confidence,
        "threshold": threshold.tokens,
        "censored_at": threshold.censored_at,
        "margin": row.margin,
        "measured": row.created,
        "run_id": row.run_id,
        "server_version": row.server_version,
        "tool_version": row.tool_version,
        "simulated": row.simulated,
    }


def _litellm_entry(limits: Limits, row: Row, name: str) -> Iterator[str]:
    sent = limits.decoding.sent()
    yield f"  - model_name: {yaml_string(name)}"
    yield "    litellm_params:"
    yield f"      model: {yaml_string('hosted_vllm/' + limits.model)}"
    yield f"      api_base: {yaml_string(row.base_url)}"
    yield f"      max_tokens: {safe(row)}"
    yield from (f"      {key}: {yaml_number(value)}" for key, value in sent.items() if key in OPENAI)
    extra = {key: value for key, value in sent.items() if key not in OPENAI}
    if extra:
        yield "      extra_body:"
        yield from (f"        {key}: {yaml_number(value)}" for key, value in extra.items())


def _variable(row: Row, taken: set[str]) -> str:
    """A name of its own for a task and language, whatever they are called."""
    words = f"{row.subject.task}_{row.subject.language}".upper()
    name = base = "MAX_TOKENS_" + re.sub(r"[^A-Z0-9_]", "_", words)
    number = 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    taken.add(name)
    return name
