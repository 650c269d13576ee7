"""What is concluded: rigor, observations, threshold, planes, runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from stresstest.model.generation import Evidence, Generation
from stresstest.model.gpu import GpuSummary
from stresstest.model.request import RunSettings
from stresstest.model.server import EndpointProfile, ServerSample, ServerSummary
from stresstest.model.words import Basis, Phase, Plane, RunStatus


@dataclass(frozen=True, slots=True)
class Rigor:
    """alpha: tolerated degeneration risk; confidence: one-sided; planned/floor: requests at risk."""

    name: str
    alpha: float
    confidence: float
    planned: int
    floor: int


RIGORS: Mapping[str, Rigor] = MappingProxyType(
    {
        "quick": Rigor("quick", 0.10, 0.90, 38, 22),
        "standard": Rigor("standard", 0.05, 0.95, 124, 59),
        "strict": Rigor("strict", 0.01, 0.95, 473, 299),
    }
)


@dataclass(frozen=True, slots=True)
class Observation:
    """What the threshold needs of one generation.

    onset: first degenerate token or None. observed: tokens known healthy. invalid_from: first token
    of an invalidated window (censors whatever the outcome). cluster: prompt id; outputs of one
    prompt are not independent. digest: hash of the output, so that identical outputs at
    temperature 0 count once. ended: ended by itself in health (the competing event of the cumulative
    incidence). unresolved: stopped by its cap with a candidate still open after `observed`, so nobody
    knows whether it was failing there: certification takes the worst case.
    """

    onset: int | None
    observed: int
    cluster: str = ""
    digest: str | None = None
    invalid_from: int | None = None
    ended: bool = False
    unresolved: bool = False


@dataclass(frozen=True, slots=True)
class Threshold:
    """The certified largest T whose degeneration risk is <= alpha at the stated confidence.

    tokens: T, or None when nothing is certified. n/onsets: at risk for T and degenerate by T (when
    nothing is certified: at the smallest T looked at). upper: the bound on q(T). censored_at: C when
    no onset was seen ("≥ C"), else None. lacking: what is missing, in words. looks: how many were declared.
    """

    alpha: float
    confidence: float
    tokens: int | None = None
    n: int = 0
    onsets: int = 0
    upper: float | None = None
    certified: bool = False
    censored_at: int | None = None
    lacking: str | None = None
    looks: int = 1


@dataclass(frozen=True, slots=True)
class PlaneVerdict:
    """Where the cause lies, as far as is known. plane/basis None when nothing fails or nothing is known."""

    plane: Plane | None
    basis: Basis | None
    sentence: str
    evidence: tuple[Evidence, ...] = ()
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """A campaign as stored. created/ended: clock seconds (Unix epoch)."""

    id: str
    settings: RunSettings
    profile: EndpointProfile
    status: RunStatus
    created: float
    ended: float | None = None
    tool_version: str = ""
    prompts_digest: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run with everything that reports draw. `threshold` is over the certifying sample only."""

    run: Run
    threshold: Threshold
    safe_max_tokens: int | None
    verdict: PlaneVerdict
    generations: tuple[Generation, ...]
    samples: tuple[ServerSample, ...] = ()
    short: int = 0
    distinct_prompts: int = 0
    tokens_spent: int = 0
    seconds: float = 0.0
    survival: tuple[tuple[float, float, float, float], ...] = ()
    server: ServerSummary | None = None
    gpus: tuple[GpuSummary, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def certifying(self) -> tuple[Generation, ...]:
        return tuple(g for g in self.generations if g.job.phase is Phase.CERTIFY)
