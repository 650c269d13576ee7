"""Results of a run: rigor, observations, threshold, plane verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stresstest.model.generation import Evidence, Generation, GenerationRecord
from stresstest.model.request import RunSettings
from stresstest.model.server import EndpointProfile, GpuSummary, ServerSample, ServerSummary
from stresstest.model.words import Basis, Phase, Plane, RunStatus

MOST_HEALTHY_CUT = 0.5
"""A cap that would cut more of the healthy answers than this is not recommended: in `scan` always, in `run`
where the answers end on their own before the suspected onset, or none fails."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The part of one generation that the threshold is computed from.

    onset: first degenerate token or None. observed: tokens known healthy. invalid_from: first token of an
    invalidated window (censors whatever the outcome). cluster: prompt id; outputs of one prompt are not
    independent. digest: hash of the output, so that identical outputs count once. ended: the model ended it
    while healthy (the competing event of the cumulative incidence). unresolved: it stopped with a candidate
    still open after `observed`, so it may have been failing there: certification takes the worst case.
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
    """The largest T whose degeneration risk is certified to be <= alpha at the stated confidence.

    tokens: T, or None if nothing is certified. n/onsets: at risk for T and degenerate by T (if nothing is
    certified: at the smallest T examined). upper: bound of q(T). censored_at: C if no onset was seen
    ("≥ C"), else None. lacking: describes what is missing. withheld: why no cap is recommended although T is
    certified, else None. looks: number of looks declared. unit_tokens: length of one unit of the task; None
    where it is not known. unfit: the limit has no room for one unit, or for a short sentence where no unit is
    asked for.
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
    withheld: str | None = None
    looks: int = 1
    unit_tokens: int | None = None
    unfit: bool = False

    @property
    def usable(self) -> bool:
        """Whether it is certified and has room for an answer."""
        return self.certified and not self.unfit


@dataclass(frozen=True, slots=True)
class ThinkingBudget:
    """The longest reasoning whose degeneration risk is certified to be <= alpha, as `Threshold` is of whole
    outputs.

    threshold: T in output tokens, from the first one to the end of the reasoning. safe_tokens: T less the
    margin; None if nothing is certified or no budget is recommended. reasoned: certifying answers with
    reasoning. healthy: those whose reasoning is healthy; cut: how many of them reason for longer than
    `safe_tokens`, None without it. supported: the server takes `thinking_token_budget`.
    """

    threshold: Threshold
    safe_tokens: int | None
    reasoned: int
    healthy: int
    cut: int | None = None
    supported: bool = False


@dataclass(frozen=True, slots=True)
class PlaneVerdict:
    """The plane of a run's failures. plane, basis: None if nothing fails or the plane is unknown."""

    plane: Plane | None
    basis: Basis | None
    sentence: str
    evidence: tuple[Evidence, ...] = ()
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """A stored campaign. created/ended: seconds since the Unix epoch."""

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
    """A run with everything that reports show. `threshold` is over the certifying sample only.

    generations: without their tokens, which stay in the store. short: how many ended in good order with fewer
    units than asked. without_units: how many contain none of them; None where none were asked for, or looked
    for. representative: the degenerate generation with the median onset, whole, because its text is shown;
    None where nothing degenerated. thinking: None where no answer of the certifying sample reasons.
    overruled_by: the run that speaks against its limit, which is withheld then. holds_up_to: requests in
    flight up to which the limit holds, where a diagnosis has shown that a larger load makes the answers fail.
    """

    run: Run
    threshold: Threshold
    safe_max_tokens: int | None
    verdict: PlaneVerdict
    generations: tuple[GenerationRecord, ...]
    samples: tuple[ServerSample, ...] = ()
    short: int = 0
    without_units: int | None = None
    distinct_prompts: int = 0
    tokens_spent: int = 0
    seconds: float = 0.0
    survival: tuple[tuple[float, float, float, float], ...] = ()
    server: ServerSummary | None = None
    gpus: tuple[GpuSummary, ...] = ()
    notes: tuple[str, ...] = ()
    representative: Generation | None = None
    thinking: ThinkingBudget | None = None
    overruled_by: str | None = None
    holds_up_to: int | None = None

    @property
    def certifying(self) -> tuple[GenerationRecord, ...]:
        return certifying_sample(self.generations)


def certifying_sample(generations: Iterable[GenerationRecord]) -> tuple[GenerationRecord, ...]:
    """The generations that a run's threshold is computed from: of the last length that was certified at.

    A sample of another length before it did not get as far as the suspected onset: like the climb, it has
    chosen the length, and is not part of the certificate.
    """
    found = [g for g in generations if g.job.phase is Phase.CERTIFY]
    last = max(found, key=lambda g: g.job.rung, default=None)
    return tuple(g for g in found if last is not None and g.job.units == last.job.units)
