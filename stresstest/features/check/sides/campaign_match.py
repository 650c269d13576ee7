"""Is a stored run the wanted measurement: the same server, the same campaign?"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from stresstest.campaign.horizon import DEFAULT_HORIZON, RESERVE_TOKENS, estimated_length
from stresstest.campaign.prompt_source import load_prompt_source
from stresstest.endpoint.address import EndpointAddress
from stresstest.errors import UsageError
from stresstest.model import Run, RunSettings, RunStatus
from stresstest.store import StoredRequest

if TYPE_CHECKING:
    from stresstest.store.repository import Store

MEASUREMENT = frozenset(
    {
        "base_url",
        "horizon",
        "task_source",
        "prompts_file",
        "rigor",
        "seed",
        "send_seed",
        "logprobs",
        "concurrency",
        "parent",
        "tighten",
    }
)
"""Settings that make a measurement a different one, besides subject and decoding."""
_HORIZON_SLACK = 64
"""Tokens by which a horizon may fall short of the context's room: prompts were counted with a longer number
of units than they were then sent with, and the longest one may not have been sent yet."""


def is_same_server(run: Run, base_url: str) -> bool:
    """Whether the whole run was measured at this address: another one may serve another model by its name."""
    wanted = _clean_address(base_url)
    return _clean_address(run.settings.base_url) == wanted == _clean_address(run.profile.base_url)


def _clean_address(base_url: str) -> str:
    """As it was sent to: no credentials, query or trailing slash."""
    try:
        return EndpointAddress.parse(base_url, None).base_url
    except UsageError:
        return base_url


def is_same_horizon(store: Store, run: Run, wanted: int | None) -> bool:
    """Whether a run that is given this horizon now would get the stored one's.

    A run stores the horizon that it had: the one given, or what the model's context had room for.
    """
    given, had = wanted or DEFAULT_HORIZON, run.settings.horizon or DEFAULT_HORIZON
    context = run.profile.max_model_len
    if had >= given or context is None:
        return had == given
    prompts = _prompt_tokens(run, store.requests(run.id))
    pick = min if run.settings.prompts_file else max
    return bool(prompts) and had >= context - pick(prompts) - RESERVE_TOKENS - _HORIZON_SLACK


def _prompt_tokens(run: Run, requests: Sequence[StoredRequest]) -> list[int]:
    """As they were counted when the horizon was chosen (`campaign.horizon.prompt_length`)."""
    if run.profile.tokenize:
        return [each.prompt_tokens for each in requests if each.prompt_tokens is not None]
    return [estimated_length(each.prompt_text) for each in requests]


def matches_settings(store: Store, run: Run, wanted: RunSettings, names: Collection[str]) -> bool:
    """Whether a run agrees with what is wanted in these settings, of those that make the measurement."""
    plain = MEASUREMENT & set(names) - {"base_url", "horizon"}
    return (
        all(getattr(run.settings, name) == getattr(wanted, name) for name in plain)
        and ("base_url" not in names or is_same_server(run, wanted.base_url))
        and ("horizon" not in names or is_same_horizon(store, run, wanted.horizon))
    )


def find_matching_run(store: Store, wanted: RunSettings, *, done: bool) -> Run | None:
    """The newest run of this measurement: a finished one, or an interrupted one that can be resumed.

    Its prompts are the same text, whatever their file is called.
    """
    model, digest = wanted.subject.model, load_prompt_source(wanted).digest()
    for row in store.runs(wanted.subject if model else None):
        if (row.status is RunStatus.DONE) is not done or row.decoding != wanted.decoding:
            continue
        run = store.run(row.id)
        subject = run.settings.subject if model else replace(run.settings.subject, model="")
        same = subject == wanted.subject and run.prompts_digest == digest
        if same and matches_settings(store, run, wanted, MEASUREMENT):
            return run
    return None
