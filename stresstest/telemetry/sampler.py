"""Reads /metrics at a fixed pace beside a measurement, and never gets in its way.

Failures are counted, not raised: telemetry explains a measurement, it must not end one. Each
reading carries the middle of its request's time span, so it is off by half a round trip at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from stresstest.clock import now
from stresstest.model import ServerSample
from stresstest.telemetry.prometheus import parse_metrics

if TYPE_CHECKING:
    from httpx2 import AsyncClient

_SLOWEST = 16  # a server that does not answer is asked up to this many times less often


def metrics_url(base_url: str) -> str:
    """The /metrics address that belongs to an OpenAI base URL: `http://h:1/v1` → `http://h:1/metrics`."""
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/").removesuffix("/v1")
    return urlunsplit((parts.scheme, parts.netloc, f"{path}/metrics", "", ""))


class MetricsSampler:
    """An asyncio task that reads vLLM's /metrics every `interval` seconds.

    url: of the metrics page itself. model: see `parse_metrics`. on_sample: called with each reading
    in the event loop, so it must be quick; what it raises ends the sampling and comes out of `stop`.
    timeout: seconds a reading may take.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None,
        api_key: str | None = None,
        interval: float = 0.25,
        timeout: float = 2.0,
        on_sample: Callable[[ServerSample], None] | None = None,
    ) -> None:
        self.samples: list[ServerSample] = []
        self.failures = 0
        self.last_error: str | None = None
        self._url = url
        self._model = model
        self._headers = {"Accept": "text/plain"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        userinfo = urlsplit(url).netloc.rpartition("@")[0]
        secrets = [secret for secret in (api_key, userinfo) if secret]
        self._secrets = [form for secret in secrets for form in (secret, repr(secret)[1:-1])]
        self._interval = interval
        self._timeout = timeout
        self._on_sample = on_sample
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin sampling; needs a running event loop. A second call does nothing."""
        if self._task is None:
            self._stopping.clear()
            self._task = asyncio.create_task(self._run(), name="metrics sampler")

    async def stop(self) -> None:
        """Take a last reading, so that differences reach to the end, and stop. Safe to call twice."""
        task, self._task = self._task, None
        if task is not None:
            self._stopping.set()
            await task

    async def _run(self) -> None:
        from httpx2 import AsyncClient

        loop = asyncio.get_running_loop()
        async with AsyncClient(headers=self._headers, timeout=self._timeout, follow_redirects=True) as client:
            due, misses = loop.time(), 0
            while not self._stopping.is_set():
                misses = 0 if await self._read(client) else misses + 1
                pause = self._interval * min(2**misses, _SLOWEST)
                # Ticks that were missed are skipped, never caught up in a burst.
                due = max(due + pause, loop.time())
                await self._sleep(due - loop.time())
            if not misses:
                await self._read(client)

    async def _sleep(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), max(seconds, 0.001))
        except TimeoutError:
            return

    async def _read(self, client: AsyncClient) -> bool:
        """Take one reading; whether there was one."""
        from httpx2 import HTTPError, InvalidURL

        before = now()
        try:
            # The client's timeout bounds each step; this bounds a page that trickles in.
            async with asyncio.timeout(self._timeout):
                response = await client.get(self._url)
        except (HTTPError, InvalidURL, TimeoutError, OSError) as exc:
            return self._missed(f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__)
        if response.status_code != 200:
            return self._missed(f"HTTP {response.status_code}")
        sample = parse_metrics(response.text, self._model, at=(before + now()) / 2)
        if sample is None:
            return self._missed("the page holds no metrics of vLLM")
        self.samples.append(sample)
        if self._on_sample is not None:
            self._on_sample(sample)
        return True

    def _missed(self, why: str) -> bool:
        self.failures += 1
        for secret in self._secrets:  # a library may quote the header or address that it refused
            why = why.replace(secret, "***")
        self.last_error = why
        return False
