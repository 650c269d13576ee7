"""Whether a server was restarted since answers were measured: another model may be behind its name."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from stresstest.diagnosis.evidence.metrics_series import count_restarts
from stresstest.model import Run
from stresstest.model.address import clean_url
from stresstest.telemetry.prometheus import MetricsSampler, metrics_url

if TYPE_CHECKING:
    from stresstest.store.repository import Store

RESTARTED = "the server was restarted since, and may serve other weights under the same name"


async def was_restarted(store: Store, run: Run, base_url: str, *, api_key: str | None) -> bool | None:
    """Whether the counters of the server's /metrics began at another time than in a run's last reading, or
    are lower. One GET.

    None where it is not known: there was no reading, there is none now, the address is another, or the server
    does not tell when they began, and they are higher. Raises UsageError for an address that the key may not
    be sent to.
    """
    if not run.profile.metrics or clean_url(base_url) != run.settings.base_url:
        return None
    totals = (
        s for s in reversed(store.samples(run.id)) if None not in (s.prompt_tokens, s.generation_tokens)
    )
    last = list(islice(totals, 1))
    if not last:
        return None
    sampler = MetricsSampler(metrics_url(base_url), model=run.profile.model, api_key=api_key)
    sampler.start()
    await sampler.stop()  # takes one reading
    readings = [*last, *sampler.samples]
    if count_restarts(readings):
        return True
    return False if sampler.samples and all(each.began is not None for each in readings) else None
