"""The plain data that every room shares: frozen dataclasses, no library.

Token positions are 1-based output tokens throughout. Times are seconds on the
process's anchored monotonic clock (:mod:`stresstest.clock`). ``None`` means
"not measured", never zero.
"""

from stresstest.model.comparison import (
    Changed,
    CheckVerdict,
    Comparison,
    Finding,
    FindingKind,
    Method,
    Severity,
    Side,
)
from stresstest.model.diagnosis import (
    Ablation,
    Arm,
    ArmResult,
    Change,
    Diagnosis,
    EntropyShape,
    Link,
    Remedy,
)
from stresstest.model.generation import (
    Evidence,
    Generation,
    ServiceFailure,
    Symptom,
    Token,
    Verdict,
    Zone,
)
from stresstest.model.gpu import (
    CLOCK_EVENTS,
    GpuDevice,
    GpuSample,
    GpuSummary,
    clock_events,
)
from stresstest.model.request import (
    SAMPLING,
    Decoding,
    GenerationRequest,
    Job,
    Message,
    RunSettings,
)
from stresstest.model.result import (
    RIGORS,
    Observation,
    PlaneVerdict,
    Rigor,
    Run,
    RunResult,
    Threshold,
)
from stresstest.model.server import (
    EndpointProfile,
    Missing,
    ServerSample,
    ServerSummary,
)
from stresstest.model.words import (
    Basis,
    DocumentKind,
    FailureKind,
    Phase,
    Plane,
    RunStatus,
    Subject,
    SymptomKind,
    ZoneKind,
)

__all__ = [
    "CLOCK_EVENTS",
    "RIGORS",
    "SAMPLING",
    "Ablation",
    "Arm",
    "ArmResult",
    "Basis",
    "Change",
    "Changed",
    "CheckVerdict",
    "Comparison",
    "Decoding",
    "Diagnosis",
    "DocumentKind",
    "EndpointProfile",
    "EntropyShape",
    "Evidence",
    "FailureKind",
    "Finding",
    "FindingKind",
    "Generation",
    "GenerationRequest",
    "GpuDevice",
    "GpuSample",
    "GpuSummary",
    "Job",
    "Link",
    "Message",
    "Method",
    "Missing",
    "Observation",
    "Phase",
    "Plane",
    "PlaneVerdict",
    "Remedy",
    "Rigor",
    "Run",
    "RunResult",
    "RunSettings",
    "RunStatus",
    "ServerSample",
    "ServerSummary",
    "ServiceFailure",
    "Severity",
    "Side",
    "Subject",
    "Symptom",
    "SymptomKind",
    "Threshold",
    "Token",
    "Verdict",
    "Zone",
    "ZoneKind",
    "clock_events",
]
