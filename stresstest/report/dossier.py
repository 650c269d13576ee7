"""Everything that is stored of one run, together: what a whole report is drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stresstest.model import Diagnosis, GpuSample, RunResult

if TYPE_CHECKING:
    from stresstest.store import StoredDocument


@dataclass(frozen=True, slots=True)
class Dossier:
    """diagnosis: None where none was made. gpu_samples: () is "not measured". documents: sweeps, checks,
    costs and scans that stand on this run, newest first."""

    result: RunResult
    diagnosis: Diagnosis | None = None
    gpu_samples: Sequence[GpuSample] = ()
    documents: Sequence[StoredDocument] = ()
