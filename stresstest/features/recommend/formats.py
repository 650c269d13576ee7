"""Limits in the formats that enforce them: vLLM's flags, requests, LiteLLM's file, shell variables.

Names come from servers and files and are not trusted: they are quoted in shell and YAML, and single lines in
comments.
"""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import yaml

from stresstest.errors import UsageError
from stresstest.render.limits import (
    LimitRow,
    ModelLimits,
    decoding_words,
    largest_load,
    limit_provenance,
    safe_limit,
    smallest_line,
    thinking_budget,
)
from stresstest.render.steering import STEERING
from stresstest.render.text import single_line, subject_name

OPENAI_PARAMETERS = ("temperature", "top_p", "presence_penalty", "frequency_penalty")
"""Sampling parameters of OpenAI's own API; those of vLLM alone go into `extra_body`."""
_CI_COMMAND = re.compile(r"^\s*::|##\[", re.MULTILINE)
"""What a CI server that reads the log would execute."""
_COMMENT_WIDTH = 80
_NO_FIELDS = "It was measured with further request fields, which this cannot set: send them with requests."
_NO_SYSTEM = (
    "Measured with a system prompt, which this format cannot set; send the same one with the requests."
)


_LATE_DEFAULTS = ("presence_penalty", "frequency_penalty")
"""What vLLM takes as defaults of the server from 0.32 on (`ModelConfig.get_diff_sampling_param`), and before
drops without a word."""
_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})")


def _defaults_hold_penalties(limits: ModelLimits) -> bool:
    """Whether every limit was measured on a vLLM that takes them."""
    versions = [_VERSION.match(row.server_version or "") for row in limits.rows]
    return all(found is not None and (int(found[1]), int(found[2])) >= (0, 32) for found in versions)


def vllm_flags(limits: ModelLimits) -> str:
    """Arguments for `vllm serve`: the smallest limit, and the decoding as the server's defaults.

    vLLM never exceeds this `max_new_tokens`, whatever a request specifies; a request may change the sampling
    parameters (vLLM 0.15-0.33).
    """
    decoding = limits.decoding.sent()
    ignored = (
        [] if _defaults_hold_penalties(limits) else [name for name in _LATE_DEFAULTS if name in decoding]
    )
    taken = {name: value for name, value in decoding.items() if name not in ignored}
    config = {"max_new_tokens": safe_limit(limits.smallest), **taken}
    others = "; a request may override the sampling parameters" if len(config) > 1 else ""
    notes = [f"max_new_tokens limits every request{others}."]
    if limits.decoding.system_prompt is not None:
        notes.append(_NO_SYSTEM)
    if limits.decoding.extra_body is not None:
        notes.append(_NO_FIELDS)
    if ignored:
        sent = " and ".join(f"{name} {decoding[name]:g}" for name in ignored)
        notes.append(
            f"Measured with {sent}, which vLLM before 0.32 takes from requests only: send it with them."
        )
    budget = thinking_budget(limits.rows)
    if budget is not None:
        notes.append(f"The thinking budget goes with each request: thinking_token_budget {budget}.")
    flags = f"--override-generation-config {shlex.quote(json.dumps(config))}"
    load = largest_load(limits.rows)
    if load is not None:
        flags += f" --max-num-seqs {load}"
        notes.append(f"--max-num-seqs {load} keeps the load to what was measured; further requests wait.")
    return "\n".join([*_comments(limits, notes), flags])


def openai_document(found: Sequence[ModelLimits]) -> dict[str, Any]:
    """Arguments of the openai SDK's ``chat.completions.create``, one request per task and language.

    In a plain HTTP body the keys of ``extra_body`` are top-level keys.
    """
    return {
        "models": [
            {
                "model": limits.model,
                "simulated": limits.simulated,
                "smallest_max_tokens": safe_limit(limits.smallest),
                "requests": [
                    {"measured": _measured(row), "request": _request(limits, row)} for row in limits.rows
                ],
                "not_certified": [asdict(row.subject) for row in limits.uncovered],
            }
            for limits in found
        ]
    }


def litellm_yaml(found: Sequence[ModelLimits]) -> str:
    """A `model_list` for LiteLLM's proxy: each model at its smallest limit, and each task if several.

    A request's own max_tokens takes precedence over the entry's.
    """
    lines: list[str] = []
    for limits in found:
        notes = [
            "A request with its own max_tokens overrides these settings; it cannot override vLLM's flags."
        ]
        if limits.decoding.system_prompt is not None:
            notes.append(_NO_SYSTEM)
        lines += _comments(limits, notes)
    entries: list[dict[str, Any]] = []
    for limits in found:
        entries.append(_litellm_entry(limits, limits.smallest, limits.model, limits.rows))
        if len(limits.rows) > 1:
            for row in limits.rows:
                name = f"{limits.model}/{row.subject.task}-{row.subject.language}"
                entries.append(_litellm_entry(limits, row, name, [row]))
    # At this width no name is broken into lines.
    written = yaml.dump(entries, Dumper=_Dumper, sort_keys=False, width=1 << 20)
    return "\n".join([*lines, "model_list:", textwrap.indent(written.rstrip(), "  ")])


class _Name(str):
    """An untrusted name, always in double quotes, which YAML 1.1 and 1.2 read as the same text."""


class _Dumper(yaml.SafeDumper):
    """A dumper that can represent `_Name`."""


_Dumper.add_representer(
    _Name, lambda dumper, name: dumper.represent_scalar("tag:yaml.org,2002:str", str(name), style='"')
)


def shell_variables(limits: ModelLimits) -> str:
    """Lines to `source`: MAX_TOKENS (the smallest, and one per task if several) and the decoding.

    The decoding is also set under STRESSTEST_ names, so that a later `run` or `check` measures what is
    deployed.
    """
    lines = _comments(limits, ["To load it in a shell: set -a; . ./limits.env"])
    lines.append(f"MODEL={_shell_quote(limits.model)}")
    lines.append(f"MAX_TOKENS={safe_limit(limits.smallest)}")
    if len(limits.rows) > 1:
        taken: set[str] = set()
        for row in limits.rows:
            lines.append(f"{_variable(row, taken)}={safe_limit(row)}")
    budget = thinking_budget(limits.rows)
    if budget is not None:
        lines.append(f"THINKING_TOKEN_BUDGET={budget}")
    decoding = limits.decoding.options()
    lines += [f"{name.upper()}={_shell_quote(value)}" for name, value in decoding.items()]
    lines.append(f"STRESSTEST_MODEL={_shell_quote(limits.model)}")
    lines += [f"STRESSTEST_{name.upper()}={_shell_quote(value)}" for name, value in decoding.items()]
    return "\n".join(lines)


def _shell_quote(text: str) -> str:
    """The text as one shell word. Raises UsageError for what would steer a terminal or a CI server's log."""
    if STEERING.search(text) or _CI_COMMAND.search(text):
        raise UsageError(
            "The model's name or the system prompt holds control characters or a line that a CI server would "
            "execute: it cannot be written as a shell variable.",
            hint="Use --format openai, which escapes them.",
        )
    return shlex.quote(text)


def _comments(limits: ModelLimits, notes: Sequence[str]) -> list[str]:
    """The provenance of the limits as comment lines."""
    lines = ["SIMULATED: these numbers do not measure a real model."] if limits.simulated else []
    if len(limits.rows) > 1:
        lines.append(smallest_line(limits))
    for row in limits.rows:
        first, *more = limit_provenance(row)
        lines += [first, *(f"  {line}" for line in more)]
    lines += [
        f"{_why_uncovered(row)}, so the limit does not cover it: {subject_name(row.subject)}"
        for row in limits.uncovered
    ]
    lines.append(f"Decoding: {decoding_words(limits.decoding)}.")
    return [comment for line in (*lines, *notes) for comment in _comment_lines(line)]


def _comment_lines(line: str) -> list[str]:
    """The line as comments of at most 80 columns, indented as it is; a long name is not broken."""
    indent = "# " + ("  " if line.startswith("  ") else "")
    return textwrap.wrap(
        single_line(line),
        _COMMENT_WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _why_uncovered(row: LimitRow) -> str:
    if row.threshold.unfit:
        return "UNFIT"
    return "NO CAP RECOMMENDED" if row.threshold.certified else "NOT CERTIFIED"


def _request(limits: ModelLimits, row: LimitRow) -> dict[str, Any]:
    known, extra = _sampling_arguments(limits, [row])
    request = {"model": limits.model, "max_tokens": safe_limit(row), **known}
    if limits.decoding.system_prompt is not None:
        request["messages"] = [{"role": "system", "content": limits.decoding.system_prompt}]
    return request | extra


def _sampling_arguments(
    limits: ModelLimits, rows: Sequence[LimitRow]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """OpenAI's sampling parameters, and `extra_body` with the others, if there are any, and with the thinking
    budget that is safe for all `rows`."""
    sent = limits.decoding.sent()
    known = {name: value for name, value in sent.items() if name in OPENAI_PARAMETERS}
    extra = {name: value for name, value in sent.items() if name not in OPENAI_PARAMETERS}
    extra |= limits.decoding.extra()
    budget = thinking_budget(rows)
    if budget is not None:
        extra["thinking_token_budget"] = budget
    return known, {"extra_body": extra} if extra else {}


def _measured(row: LimitRow) -> dict[str, Any]:
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
        "concurrency": row.concurrency,
        "holds_up_to": row.holds_up_to,
    }


def _litellm_entry(limits: ModelLimits, row: LimitRow, name: str, rows: Sequence[LimitRow]) -> dict[str, Any]:
    known, extra = _sampling_arguments(limits, rows)
    params = {
        "model": _Name(f"hosted_vllm/{limits.model}"),
        "api_base": _Name(row.base_url),
        "max_tokens": safe_limit(row),
        **known,
    }
    return {"model_name": _Name(name), "litellm_params": params | extra}


def _variable(row: LimitRow, taken: set[str]) -> str:
    """A unique variable name for a task and language, valid whatever they are called."""
    words = f"{row.subject.task}_{row.subject.language}".upper()
    name = base = "MAX_TOKENS_" + re.sub(r"[^A-Z0-9_]", "_", words)
    number = 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    taken.add(name)
    return name
