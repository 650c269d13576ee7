"""Samples the GPUs of an endpoint, from the source that can read them.

NVML reads this machine's GPUs, so it is used only for a local endpoint or on request; a remote endpoint
needs an exporter. A loopback address may still be a tunnel to another machine:
`stresstest.diagnosis.evidence.gpu` detects GPUs that stay idle while answers arrive.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from stresstest.errors import UsageError
from stresstest.model import GPU_READINGS, GpuSample, MissingCapability
from stresstest.telemetry.gpu.exporter import ExporterSampler
from stresstest.telemetry.gpu.nvml_sampler import NvmlSampler

MISSING_GPUS_COST = "throttling, GPU memory and hardware errors are not part of the evidence"
ELSEWHERE = ("The server is on another machine.", "Read its GPUs with --gpu-exporter URL (dcgm-exporter).")
"""Why the GPUs of this machine are not read, and what to do."""


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """A parsed `--gpus`. forced: use NVML even for a remote endpoint. names: empty for every GPU."""

    wanted: bool
    forced: bool = False
    names: tuple[str, ...] = ()


def parse_gpus(text: str) -> GpuChoice:
    """Parse `auto` | `all` | `none` | a comma-separated list of indices, UUIDs or prefixes of UUIDs.

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
                f"--gpus {text!r} is not valid: {name!r} is neither an index nor a UUID.",
                hint="Give auto, all, none, or a list such as 0,1 or GPU-604ac76c.",
            )
    return GpuChoice(True, True, names)


def is_local(base_url: str) -> bool:
    """Whether a URL's host is this machine, by loopback or its own addresses. Blocks for a DNS lookup.

    A name with several addresses is local only if all of them are.
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
    """Whether the address is this machine's: loopback, or one to which a socket can be bound."""
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
    """Samples the GPUs of an endpoint between `start` and `stop`.

    gpus: see `parse_gpus`. exporter: address of a GPU exporter, or None. samples: grows while it runs.
    missing: if no GPU can be read, why, and which evidence is lost.
    """

    def __init__(self, gpus: str, exporter: str | None, base_url: str) -> None:
        self.missing: tuple[MissingCapability, ...] = ()
        self.samples: list[GpuSample] = []
        self._gpus = gpus
        self._choice = parse_gpus(gpus)
        self._exporter = exporter
        self._base_url = base_url
        self._sampler: NvmlSampler | ExporterSampler | None = None

    async def start(self) -> None:
        """Begin sampling; returns with the first readings or with `missing` set.

        Raises UsageError if GPUs that were asked for (`all`, or a list) cannot be read.
        """
        choice = self._choice
        if not choice.wanted:
            return self._give_up("Switched off by --gpus none.", None)
        if self._exporter:
            self._sampler = ExporterSampler(self._exporter, choice.names)
        elif choice.forced or await asyncio.to_thread(is_local, self._base_url):
            self._sampler = NvmlSampler(choice.names)
        else:
            return self._give_up(*ELSEWHERE)
        await self._sampler.start()
        self.samples = self._sampler.samples
        if self._sampler.trouble and choice.forced:
            await self._sampler.stop()
            raise UsageError(
                f"--gpus {self._gpus} cannot be watched: {self._sampler.trouble}",
                hint=f"{self._sampler.remedy or ''} --gpus auto measures without them.".lstrip(),
            )
        if self._sampler.trouble:
            return self._give_up(self._sampler.trouble, self._sampler.remedy)
        return None

    async def stop(self) -> None:
        """Take a last reading and stop. Idempotent; needs no earlier `start`."""
        if self._sampler is not None:
            await self._sampler.stop()

    def _give_up(self, why: str, remedy: str | None) -> None:
        if why[1:2].islower():  # no abbreviation
            why = why[:1].lower() + why[1:]
        self.missing = (MissingCapability(GPU_READINGS, f"{MISSING_GPUS_COST}; {why.rstrip('.')}", remedy),)
