"""Reads a GPU exporter's page at a fixed pace beside a measurement; failures are counted, not raised."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from stresstest.clock import now
from stresstest.model import GpuDevice, GpuSample
from stresstest.telemetry.gpu_pages import ExporterPages

if TYPE_CHECKING:
    from httpx2 import AsyncClient

# nvidia_gpu_exporter starts nvidia-smi for every page: the server's machine is to notice as little as we.
_SHARE = 0.1
_SLOWEST = 30.0


def exporter_url(url: str) -> str:
    """The page's address: `/metrics` where none is given, `http://` where no scheme is."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") or "/metrics", parts.query, ""))


def bare_url(url: str | None) -> str | None:
    """The page's address without credentials, fit for showing and keeping."""
    if url is None:
        return None
    parts = urlsplit(exporter_url(url))
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class ExporterSampler:
    """An asyncio task that reads an exporter every `interval` seconds, or ten times a page's own time.

    wanted: see `ExporterPages`. samples: grows while it runs. After `start`, `trouble` and `mend` say why
    the first page was of no use, or are None; `last_error` tells of the latest page that was not.
    """

    def __init__(
        self, url: str, wanted: Sequence[str] = (), *, interval: float = 1.0, timeout: float = 5.0
    ) -> None:
        self.samples: list[GpuSample] = []
        self.failures = 0
        self.last_error: str | None = None
        self.trouble: str | None = None
        self.mend: str | None = None
        self._url = exporter_url(url)
        self._wanted = tuple(wanted)
        self._pages = ExporterPages(wanted)
        self._interval = interval
        self._timeout = timeout
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def devices(self) -> tuple[GpuDevice, ...]:
        """The GPUs seen, as last described."""
        return tuple({s.device.gpu: s.device for s in self.samples if s.device is not None}.values())

    async def start(self) -> None:
        """Begin; returns when the first page has been read or there is trouble with it."""
        first = asyncio.Event()
        self._task = asyncio.create_task(self._run(first), name="gpu exporter sampler")
        waiting = asyncio.create_task(first.wait())
        await asyncio.wait({waiting, self._task}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not self.samples:
            self.trouble = f"The GPU exporter {bare_url(self._url)} is of no use: {self.last_error}."
            self.mend = "Give the address of dcgm-exporter (port 9400) or nvidia_gpu_exporter (port 9835)."

    async def stop(self) -> None:
        """Take a last reading and stop. Safe to call twice."""
        task, self._task = self._task, None
        if task is not None:
            self._stopping.set()
            await task

    async def _run(self, first: asyncio.Event) -> None:
        from httpx2 import AsyncClient

        loop = asyncio.get_running_loop()
        async with AsyncClient(timeout=self._timeout, follow_redirects=True) as client:
            while not self._stopping.is_set():
                began = loop.time()
                useful = await self._read(client)
                first.set()
                took = loop.time() - began
                pause = max(self._interval, min(took / _SHARE, _SLOWEST))
                try:
                    await asyncio.wait_for(self._stopping.wait(), pause)
                except TimeoutError:
                    continue
            if useful:
                await self._read(client)

    async def _read(self, client: AsyncClient) -> bool:
        """Take one reading; whether there was one."""
        from httpx2 import HTTPError, InvalidURL

        before = now()
        try:
            # The client's timeout bounds each step; this bounds a page that trickles in.
            async with asyncio.timeout(self._timeout):
                response = await client.get(self._url)
        except TimeoutError:
            return self._missed(f"no answer within {self._timeout:g} s")
        except (HTTPError, InvalidURL, OSError) as exc:
            return self._missed(type(exc).__name__)  # its words may quote the address with a password
        if response.status_code != 200:
            return self._missed(f"HTTP {response.status_code}")
        samples = self._pages.read(response.text, (before + now()) / 2)
        if samples is None:
            return self._missed("the page holds no GPU metrics that we know")
        if not samples:
            return self._missed(f"none of its GPUs is {' or '.join(self._wanted)}")
        self.samples += samples
        return True

    def _missed(self, why: str) -> bool:
        self.failures += 1
        self.last_error = why
        return False
