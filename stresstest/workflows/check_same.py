"""Is a stored run the measurement that is asked for: the same server, the same campaign?"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from stresstest.endpoint.address import Address
from stresstest.errors import UsageError
from stresstest.model import Generation, Run, RunSettings, RunStatus
from stresstest.workflows.setting import CHARS_PER_TOKEN, DEFAULT_HORIZON, RESERVE_TOKENS

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
        "concurrency",
        "parent",
        "tighten",
    }
)
"""Settings that make a measurement another one, beside subject and decoding."""
_SLACK = 64
"""Tokens by which a horizon may fall short of the context's room: prompts were counted with a longer number
of units than they were then sent with, and the longest one may not have been asked yet."""


def same_server(run: Run, base_url: str) -> bool:
    """Whether the whole run was measured at this address: another one may serve another model by its name."""
    asked = _address(base_url)
    return _address(run.settings.base_url) == asked == _address(run.profile.base_url)


def _address(base_url: str) -> str:
    """As it was sent to: no credentials, query or trailing slash."""
    try:
        return Address.parse(base_url, None).base_url
    except UsageError:
        return base_url


def same_horizon(store: Store, run: Run, wanted: int | None) -> bool:
    """Whether a run that is asked for this horizon now would get the stored one's.

    A run keeps the horizon that it had: the one asked for, or what the model's context had room for.
    """
    asked, had = wanted or DEFAULT_HORIZON, run.settings.horizon or DEFAULT_HORIZON
    context = run.profile.max_model_len
    if had >= asked or context is None:
        return had == asked
    prompts = _prompt_tokens(run, store.generations(run.id, tokens=False))
    pick = min if run.settings.prompts_file else max
    return bool(prompts) and had >= context - pick(prompts) - RESERVE_TOKENS - _SLACK


def _prompt_tokens(run: Run, generations: Sequence[Generation]) -> list[int]:
    """As they were counted when the horizon was chosen (`setting.prompt_length`)."""
    if run.profile.tokenize:
        return [each.prompt_tokens for each in generations if each.prompt_tokens is not None]
    return [int(len(each.prompt_text) / CHARS_PER_TOKEN) + 8 for each in generations]


def fits(store: Store, run: Run, wanted: RunSettings, names: Collection[str]) -> bool:
    """Whether a run agrees with what is wanted in these settings, of those that make the measurement."""
    plain = MEASUREMENT & set(names) - {"base_url", "horizon"}
    return (
        all(getattr(run.settings, name) == getattr(wanted, name) for name in plain)
        and ("base_url" not in names or same_server(run, wanted.base_url))
        and ("horizon" not in names or same_horizon(store, run, wanted.horizon))
    )


def begun(store: Store, wanted: RunSettings, *, done: bool) -> Run | None:
    """The newest run of this measurement: one that is done, or one that was interrupted and can go on."""
    model = wanted.subject.model
    for row in store.runs(wanted.subject if model else None):
        if (row.status is RunStatus.DONE) is not done or row.decoding != wanted.decoding:
            continue
        run = store.run(row.id)
        subject = run.settings.subject if model else replace(run.settings.subject, model="")
        if subject == wanted.subject and fits(store, run, wanted, MEASUREMENT):
            return run
    return None
