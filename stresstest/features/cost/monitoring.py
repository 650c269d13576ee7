"""Samples GPU power and the server's metrics while the batches of `cost` run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from stresstest.campaign.progress import Progress
from stresstest.economics.account import energy
from stresstest.model import EndpointProfile, RunSettings, ServerSample
from stresstest.model.cost import CostArm
from stresstest.telemetry.gpu.watch import GpuWatch
from stresstest.telemetry.prometheus import MetricsSampler, metrics_url

BatchWindows = Mapping[str, tuple[float, float]]


class CostMonitor:
    """Samples between entering and leaving a `with` block. hide: see `MetricsSampler`. Raises UsageError for
    invalid GPU options."""

    def __init__(
        self,
        settings: RunSettings,
        profile: EndpointProfile,
        progress: Progress,
        api_key: str | None,
        hide: Callable[[str], str] = str,
    ) -> None:
        self._gpus = GpuWatch(settings.gpus, settings.gpu_exporter, settings.base_url)
        self._samples: list[ServerSample] = []
        self._progress = progress
        self._sampler: MetricsSampler | None = None
        if profile.metrics:
            self._sampler = MetricsSampler(
                metrics_url(settings.base_url),
                model=profile.model,
                api_key=api_key,
                on_sample=self._on_sample,
                hide=hide,
            )

    async def __aenter__(self) -> Self:
        await self._gpus.start()
        if self._sampler is not None:
            self._sampler.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sampler is not None:
            await self._sampler.stop()
        await self._gpus.stop()

    def batch_energy(self, windows: BatchWindows) -> dict[str, float]:
        """Joules by batch, for batches with power readings inside their window (clock seconds)."""
        found = {label: energy(self._gpus.samples, *window) for label, window in windows.items()}
        return {label: joules for label, joules in found.items() if joules is not None}

    def count_preemptions(self, arm: CostArm, windows: BatchWindows) -> float | None:
        """Preemptions counted by the server during an arm's batches; None if it reported no count."""
        total: float | None = None
        for label, (start, end) in windows.items():
            seen = [s.preemptions for s in self._samples if start <= s.at <= end]
            known = [count for count in seen if count is not None]
            if label.endswith(f"/{arm}") and known:
                total = (total or 0.0) + known[-1] - known[0]
        return total

    def _on_sample(self, sample: ServerSample) -> None:
        self._samples.append(sample)
        self._progress.sample(sample)
