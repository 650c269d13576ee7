"""Is what a server serves now still what was measured? Asked before a stored limit is relied on."""

from __future__ import annotations

from collections.abc import Sequence

from stresstest.endpoint.capabilities import profile
from stresstest.endpoint.client import Endpoint
from stresstest.model import EndpointProfile
from stresstest.model.comparison import Changed
from stresstest.store import StoredThreshold
from stresstest.store.repository import Store


async def warnings_for(
    rows: Sequence[StoredThreshold], store: Store, base_url: str, *, api_key: str | None = None
) -> list[str]:
    """One sentence a difference between the rows' measurements and the server at `base_url`; none: the same.

    The server is asked for the rows' model, or for its own where they are of several; it costs a few requests
    of two tokens. Raises EndpointError when it cannot be reached, or serves no such model.
    """
    models = list(dict.fromkeys(row.subject.model for row in rows))
    asked = models[0] if len(models) == 1 else None
    async with Endpoint(base_url, api_key=api_key, model=asked) as endpoint:
        now = await profile(endpoint, asked)
    found: list[str] = []
    for row in rows:
        if row.subject.model != now.model:
            found.append(f"{row.subject}: not checked, {now.base_url} serves {now.model}")
            continue
        found += [_sentence(row, changed) for changed in changes(store.run(row.run_id).profile, now)]
    return list(dict.fromkeys(found))


def changes(before: EndpointProfile, after: EndpointProfile) -> list[Changed]:
    """What differs of what both profiles know: a limit holds for what was measured."""
    pairs: tuple[tuple[str, object, object], ...] = (
        ("simulated", before.simulated or None, after.simulated or None),
        ("vLLM version", before.version, after.version),
        ("root", before.root, after.root),
        ("maximum length", before.max_model_len, after.max_model_len),
        ("server's sampling defaults", dict(before.defaults) or None, dict(after.defaults) or None),
    )
    return [
        Changed(name, None if old is None else str(old), None if new is None else str(new))
        for name, old, new in pairs
        if old != new and (name == "simulated" or None not in (old, new))
    ]


def _sentence(row: StoredThreshold, changed: Changed) -> str:
    if changed.name == "simulated":
        which = "the simulator" if changed.before else "a real server"
        now = "a real server" if changed.before else "the simulator"
        return f"{row.subject}: the limit was measured on {which}, {now} answers now (run {row.run_id})"
    return (
        f"{row.subject}: {changed.name} is {changed.after}, the limit was measured with {changed.before} "
        f"(run {row.run_id}); measure again"
    )
