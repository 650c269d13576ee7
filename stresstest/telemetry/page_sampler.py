"""Reads a metrics page at intervals beside a measurement; the base of the samplers of such pages.

Failures are counted, not raised: telemetry must not end the measurement that it explains. Each reading is
timed at the middle of its request, so its time is off by at most half a round trip.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from stresstest.clock import now
from stresstest.http_limits import (
    ACCEPTED_ENCODING,
    BodyDecodingError,
    BodyTooLargeError,
    environment_proxy,
    read_limited,
    refuse_foreign_redirect,
)

if TYPE_CHECKING:
    from httpx2 import AsyncClient

MAX_PAGE = 4 * 1024 * 1024
"""Bytes of a page. A real one has less than 1 MB; it is parsed in the event loop, four times a second."""
MAX_USED = 512 * 1024
"""Characters of the lines that are parsed: some 50 ms each 100,000. 64 engines have 200,000."""


class PageSampler(ABC):
    """An asyncio task that reads a page until `stop`. A subclass parses the page and sets the interval.

    timeout: seconds for one reading. failures: readings that failed. last_error: why the latest of them did.
    """

    def __init__(self, url: str, headers: Mapping[str, str], *, interval: float, timeout: float) -> None:
        self.failures = 0
        self.last_error: str | None = None
        self._failures_in_a_row = 0
        self._reading_took = 0.0
        self._url = url
        self._headers = headers
        self._interval = interval
        self._timeout = timeout
        self._stopping = asyncio.Event()
        self._first_read = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """Take a last reading, so that differences cover the whole measurement, and stop. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            self._stopping.set()
            await task

    def _begin(self, name: str) -> asyncio.Task[None]:
        self._stopping.clear()
        self._task = asyncio.create_task(self._run(), name=name)
        return self._task

    async def _run(self) -> None:
        try:
            opened = self._client()
        except (ValueError, OSError):
            self.last_error = "the proxy or the certificates that the environment names cannot be used"
            self.failures += 1
            self._first_read.set()
            return
        loop = asyncio.get_running_loop()
        async with opened as client:
            due = loop.time()
            while not self._stopping.is_set():
                began = loop.time()
                await self._read(client)
                self._first_read.set()
                self._reading_took = loop.time() - began
                # Missed ticks are skipped, never made up for in a burst.
                due = max(due + self._period(), loop.time())
                try:
                    await asyncio.wait_for(self._stopping.wait(), max(due - loop.time(), 0.001))
                except TimeoutError:
                    continue
            if not self._failures_in_a_row:
                await self._read(client)

    def _client(self) -> AsyncClient:
        """With the proxy and the certificates that the endpoint has, and no ~/.netrc. Raises ValueError,
        OSError for those that cannot be used."""
        from httpx2 import AsyncClient, create_ssl_context

        at = urlsplit(self._url)
        return AsyncClient(
            headers={**self._headers, "Accept-Encoding": ACCEPTED_ENCODING},
            timeout=self._timeout,
            follow_redirects=True,
            event_hooks={"response": [refuse_foreign_redirect]},
            trust_env=False,
            proxy=environment_proxy(at.scheme, at.hostname or ""),
            verify=create_ssl_context() if at.scheme == "https" else True,
        )

    async def _read(self, client: AsyncClient) -> None:
        from httpx2 import HTTPError, InvalidURL

        before = now()
        try:
            # The client's timeout applies to each step; this one limits a page that trickles in.
            async with asyncio.timeout(self._timeout), client.stream("GET", self._url) as response:
                page = await read_limited(response, MAX_PAGE)
        except (HTTPError, InvalidURL, OSError, BodyTooLargeError, BodyDecodingError) as exc:
            error: str | None = self._describe_error(exc)
        else:
            error = f"HTTP {response.status_code}"
            if response.status_code == 200:
                error = self._add_page(page.decode("utf-8", "replace"), (before + now()) / 2)
        if error is None:
            self._failures_in_a_row = 0
        else:
            self.last_error = error
            self.failures += 1
            self._failures_in_a_row += 1

    @abstractmethod
    def _period(self) -> float:
        """Seconds from the time at which the latest reading was due to the next one."""

    @abstractmethod
    def _describe_error(self, error: Exception) -> str:
        """Why a request failed, without credentials."""

    @abstractmethod
    def _add_page(self, text: str, at: float) -> str | None:
        """Keep the readings of a page of clock second `at`; returns why it is unusable, or None."""
