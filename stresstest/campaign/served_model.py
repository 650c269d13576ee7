"""Is what a server serves now still what was measured?

Checked before a stored run is continued, while one is measured, and before a stored limit is relied on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

from stresstest import __version__
from stresstest.endpoint.capabilities import fetch_identity, profile_endpoint
from stresstest.endpoint.client import Endpoint
from stresstest.errors import EndpointError, UsageError
from stresstest.model import EndpointProfile, Run
from stresstest.model.comparison import ChangedSetting
from stresstest.store import StoredThreshold
from stresstest.store.repository import Store

_WAIT, _LAST_WAIT = 10.0, 2.0
"""Seconds for a server to say what it is, between stages and at the end: a busy one may not in time."""


async def server_warnings(
    rows: Sequence[StoredThreshold], store: Store, base_url: str, *, api_key: str | None = None
) -> list[str]:
    """One sentence a difference between the rows' measurements and the server at `base_url`; none: the same.

    The server is profiled for the rows' model, or for its own where they have several: a few requests of
    two tokens. Raises EndpointError when it cannot be reached, or serves no such model.
    """
    models = list(dict.fromkeys(row.subject.model for row in rows))
    model = models[0] if len(models) == 1 else None
    async with Endpoint(base_url, api_key=api_key, model=model) as endpoint:
        now = await profile_endpoint(endpoint, model)
    found: list[str] = []
    for row in rows:
        if row.subject.model != now.model:
            found.append(f"{row.subject}: not checked, {now.base_url} serves {now.model}")
            continue
        found += [_sentence(row, changed) for changed in profile_changes(store.run(row.run_id).profile, now)]
    return list(dict.fromkeys(found))


def profile_changes(before: EndpointProfile, after: EndpointProfile) -> list[ChangedSetting]:
    """What differs of what both profiles know: a limit holds for what was measured."""
    pairs: tuple[tuple[str, object, object], ...] = (
        ("simulated", before.simulated or None, after.simulated or None),
        ("vLLM version", before.version, after.version),
        ("root", before.root, after.root),
        ("maximum length", before.max_model_len, after.max_model_len),
        ("server's sampling defaults", dict(before.defaults) or None, dict(after.defaults) or None),
    )
    return [
        ChangedSetting(name, None if old is None else str(old), None if new is None else str(new))
        for name, old, new in pairs
        if old != new and (name == "simulated" or None not in (old, new))
    ]


def refuse_changed_prompts(run: Run, digest: str, *, consequence: str, hint: str) -> None:
    """UsageError when the prompts are no longer those of the run. digest: of the prompts as they are now."""
    if digest != run.prompts_digest:
        raise UsageError(
            f"The prompts of run {run.id} have changed since it began; {consequence}.", hint=hint
        )


def refuse_changed_server(run: Run, profile: EndpointProfile) -> None:
    """UsageError when the server, the model or this program is not what the run was measured with."""
    if run.profile.replaced is not None:
        raise UsageError(
            f"The server was replaced while run {run.id} was measured: {run.profile.replaced}. "
            "A mixed sample certifies neither, and is not continued.",
            hint="Start a new run.",
        )
    changed = describe_server_changes(run, profile)
    if changed is not None:
        raise UsageError(
            f"Different from when run {run.id} began: {changed}.",
            hint="Start a new run; mixing the two would certify neither.",
        )


class ReplacedServerError(EndpointError):
    """Another server answers than the one that was profiled. profile: of the mixed measurement."""

    def __init__(self, changed: str, profile: EndpointProfile) -> None:
        super().__init__(
            f"The server was replaced during the measurement: {changed}. A mixed sample certifies neither.",
            hint="Measure again when the same server answers throughout.",
        )
        self.profile = replace(profile, replaced=changed)


@asynccontextmanager
async def same_server(
    endpoint: Endpoint, profile: EndpointProfile, stop: asyncio.Event
) -> AsyncIterator[None]:
    """Around a part of a measurement. ReplacedServerError at its end, or when it fails or is stopped, if the
    server no longer says of itself what it said when it was profiled."""
    try:
        yield
    except EndpointError:
        await _refuse_replaced(endpoint, profile, ending=True)
        raise
    await _refuse_replaced(endpoint, profile, ending=stop.is_set())


async def _refuse_replaced(endpoint: Endpoint, profile: EndpointProfile, *, ending: bool) -> None:
    """ending: the measurement ends anyway, so that little time is spent on the question."""
    if profile.root is None and profile.version is None and profile.model_created is None:
        return
    try:
        now = await asyncio.wait_for(fetch_identity(endpoint, profile), _LAST_WAIT if ending else _WAIT)
    except TimeoutError:
        return
    changed = _first_difference(profile, now) or _other_date(profile, now)
    if changed is not None:
        raise ReplacedServerError(changed, profile)


async def find_replacement(run: Run, base_url: str, *, api_key: str | None) -> str | None:
    """What the server at `base_url` says of itself that it did not say when a run was measured.

    None where there is no difference, and where it cannot be reached. Two GETs.
    """
    profile = run.profile
    async with Endpoint(base_url, api_key=api_key, model=profile.model) as endpoint:
        try:
            now = await asyncio.wait_for(fetch_identity(endpoint, profile, listed=True), _WAIT)
        except TimeoutError:
            return None
    return _first_difference(profile, now)


def describe_server_changes(run: Run, profile: EndpointProfile) -> str | None:
    """The first difference between a run and what is served now, in words; None without one."""
    before, now = run.profile, profile
    if before.replaced is not None:
        return f"the server was replaced in the midst of it: {before.replaced}"
    if before.base_url != now.base_url and None in (before.root, before.version, now.root, now.version):
        return (
            f"address was {before.base_url}, is {now.base_url}, and the servers do not tell whether "
            f"they serve the same model"
        )
    changed = _first_difference(before, now)
    if changed is None and run.tool_version != __version__:
        return f"stresstest version was {run.tool_version}, is {__version__}"
    return changed


def _first_difference(before: EndpointProfile, now: EndpointProfile) -> str | None:
    for name, old, new in (
        ("model", before.model, now.model),
        ("root", before.root, now.root),
        ("vLLM version", before.version, now.version),
        ("maximum length", before.max_model_len, now.max_model_len),
    ):
        if old != new and None not in (old, new):  # a busy server may not tell its version in time
            return f"{name} was {old}, is {new}"
    if before.defaults and now.defaults and before.defaults != now.defaults:
        return f"the server's sampling defaults were {dict(before.defaults)}, are {dict(now.defaults)}"
    return None


def _other_date(before: EndpointProfile, now: EndpointProfile) -> str | None:
    """Where a model is replaced in place, only the date in the list of models tells (`ollama pull`)."""
    old, new = before.model_created, now.model_created
    if None in (old, new) or old == new:
        return None
    was, is_ = (datetime.fromtimestamp(each, UTC).isoformat(" ", "seconds") for each in (old, new) if each)
    return f"the model's date in the server's list was {was}, is {is_}"


def _sentence(row: StoredThreshold, changed: ChangedSetting) -> str:
    if changed.name == "simulated":
        which = "the simulator" if changed.before else "a real server"
        now = "a real server" if changed.before else "the simulator"
        return f"{row.subject}: the limit was measured on {which}, but {now} answers now (run {row.run_id})"
    return (
        f"{row.subject}: {changed.name} is {changed.after}, but the limit was measured with "
        f"{changed.before} (run {row.run_id}); measure again"
    )
