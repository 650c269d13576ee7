"""Which GPUs belong to an endpoint, and who tells about them.

NVML reads this machine. Attributed to a server elsewhere, its numbers would be another machine's, so it
is used for a local endpoint only, or where it is asked for; an exporter's address stands in for a remote
one. A loopback address may still be a tunnel: GPUs that stay idle while answers arrive are told apart by
`stresstest.diagnosis.gpu`, not here.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from stresstest.errors import UsageError
from stresstest.model import GpuSample, Missing
from stresstest.telemetry.gpu_exporter import ExporterSampler
from stresstest.telemetry.nvml import NvmlSampler

COST = "no throttling, GPU memory or hardware-error evidence for the system plane"


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """What `--gpus` asks for. forced: also for an endpoint that is not local. names: empty for every GPU."""

    wanted: bool
    forced: bool = False
    names: tuple[str, ...] = ()


def parse_gpus(text: str) -> GpuChoice:
    """`auto` | `all` | `none` | a comma-separated list of indices, UUIDs or beginnings of UUIDs.

    Raises UsageError for anything else.
    """
    word = text.strip().lower()
    if word in {"auto", "all", "none"}:
        return GpuChoice(word != "none", word == "all")
    names = tuple(part.strip() for part in text.split(","))
    for name in names:
        index = name.partition(":")[0].isdecimal()
        if not index and not name.upper().startswith(("GPU-", "MIG-")):
            raise UsageError(
                f"--gpus {text!r} is not known: {name!r} is no index and no UUID.",
                hint="Give auto, all, none, or a list such as 0,1 or GPU-604ac76c.",
            )
    return GpuChoice(True, True, names)


def is_local(base_url: str) -> bool:
    """Whether a URL's host is this machine: loopback, or one of its own addresses. May ask DNS: blocks.

    A name with several addresses is local only when all of them are.
    """
    host = urlsplit(base_url).hostname
    if not host:
        return False
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        return False
    return bool(found) and all(_is_own(address) for address in found)


def _is_own(address: str) -> bool:
    """Only an address of this machine can be bound to."""
    plain = ipaddress.ip_address(address.partition("%")[0])
    if plain.is_loopback or plain.is_unspecified:
        return True
    family = socket.AF_INET if plain.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


class GpuWatch:
    """The GPUs of an endpoint, sampled between `start` and `stop`. Raises UsageError for bad options only.

    gpus: see `parse_gpus`. exporter: address of a GPU exporter, or None. samples: grows meanwhile, empty
    where nothing can be read; `missing` then says why and what it costs.
    """

    def __init__(self, gpus: str, exporter: str | None, base_url: str) -> None:
        self.missing: tuple[Missing, ...] = ()
        self.samples: list[GpuSample] = []
        self._choice = parse_gpus(gpus)
        self._exporter = exporter
        self._base_url = base_url
        self._sampler: NvmlSampler | ExporterSampler | None = None

    async def start(self) -> None:
        """Begin; returns with the first readings, or with `missing` filled in."""
        choice = self._choice
        if not choice.wanted:
            return self._give_up("by --gpus none")
        if self._exporter:
            self._sampler = ExporterSampler(self._exporter, choice.names)
        elif choice.forced or await asyncio.to_thread(is_local, self._base_url):
            self._sampler = NvmlSampler(choice.names)
        else:
            return self._give_up("the server is on another machine; give --gpu-exporter URL")
        await self._sampler.start()
        self.samples = self._sampler.samples
        if self._sampler.trouble:
            return self._give_up(" ".join(filter(None, (self._sampler.trouble, self._sampler.mend))))
        return None

    async def stop(self) -> None:
        """Take a last reading and stop. Safe to call twice, and without a start."""
        if self._sampler is not None:
            await self._sampler.stop()

    def _give_up(self, why: str) -> None:
        self.missing = (Missing("GPU readings", f"{COST} ({why.rstrip('.')})"),)
