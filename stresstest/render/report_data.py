"""The stored data of one run, from which a report is rendered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stresstest.model import Diagnosis, GenerationLoader, GpuSample, RunResult

if TYPE_CHECKING:
    from stresstest.store import StoredDocument


@dataclass(frozen=True, slots=True)
class ReportData:
    """The stored data of one run.

    load: reads the tokens of one of the result's generations; the store must be open. diagnosis: None if
    there is none. gpu_samples: empty if not measured. documents: sweeps, checks, cost analyses and scans
    that refer to this run, newest first.
    """

    result: RunResult
    load: GenerationLoader
    diagnosis: Diagnosis | None = None
    gpu_samples: Sequence[GpuSample] = ()
    documents: Sequence[StoredDocument] = ()
