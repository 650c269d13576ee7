"""What `diagnose` finds: arms, links of the chain, why, side effects, remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from stresstest.model.request import Decoding
from stresstest.model.words import Basis, Plane, SymptomKind

_NONE: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Arm:
    """One declared intervention on the failing forks.

    plane: the one that it tests; None for the unchanged arm. alone: one request at a time on an idle server.
    truncated: the prompt holds the instruction and the last few units only, not the whole answer.
    changed: in words. decoding: in force, system prompt included.
    """

    name: str
    plane: Plane | None
    changed: str
    decoding: Decoding
    alone: bool = False
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """A paired comparison: the same forks before and under an arm. None: not measured.

    before, after: medians over forks. p: two-sided Wilcoxon signed-rank.
    """

    what: str
    n: int
    before: float | None = None
    after: float | None = None
    p: float | None = None


@dataclass(frozen=True, slots=True)
class ArmResult:
    """An arm against the unchanged one, over the forks that both answered.

    failed, unchanged_failed: of n, any symptom inside the window. p: exact one-sided McNemar. upper:
    one-sided 95 % bound of the failure rate. decided_early: it could not clear any more and was stopped.
    tokens: output tokens it took, dropped ones included. lost: forks without an answer (service failures).
    short: answers that ended in good order before the place of the failure; they are not among the n.
    """

    name: str
    plane: Plane | None
    changed: str
    n: int
    failed: int
    unchanged_failed: int
    p: float
    upper: float
    clears: bool
    decided_early: bool = False
    symptoms: Mapping[str, int] = field(default_factory=lambda: _NONE)
    median_onset: float | None = None
    tokens: int = 0
    lost: int = 0
    short: int = 0
    effects: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class EntropyShape:
    """Entropy before the onset against the same positions of answers that were still healthy there.

    verdict: "supported" (it falls before the onset), "not supported", "not measurable". difference: nats,
    failing minus healthy, over the last tokens before the onset. lead: tokens before the onset since when
    every window differs. p: two-sided, exchanging failing and healthy within matched positions.
    """

    verdict: str
    sentence: str
    failing: int = 0
    healthy: int = 0
    difference: float | None = None
    p: float | None = None
    lead: int | None = None
    profile: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Ablation:
    """The same topics asked for in another way, from scratch, up to 1.5 times the onset.

    name: "open structure" | "twice the length". failed of n: degenerate by the end of the window, here;
    run_failed of run_n: in the run, of those observed so far. p: two-sided Fisher. ratio: median onset here
    over the run's, with its 90 % interval; independent: the interval lies inside 0.8-1.25.
    """

    name: str
    n: int
    failed: int
    run_n: int
    run_failed: int
    p: float | None = None
    ratio: float | None = None
    lo: float | None = None
    hi: float | None = None
    independent: bool | None = None
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Remedy:
    """The recommended split, run over the whole task: `per_request` units a request, `carried` kept.

    outputs: whole tasks written so; failed: degenerate ones; units: median units of the outputs. upper:
    one-sided 95 % bound of the failure rate.
    """

    per_request: int
    carried: int
    outputs: int
    failed: int
    units: float
    upper: float
    sentence: str
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    """One failure of the chain and the plane it lies on.

    plane, basis: None where it is inconclusive; `lacking` says what is missing then. n: forks. kinds: symptom
    → failing generations. share: of the generations, that failed. cleared_by: the arm's words. run_id: where
    the failures were seen. from_scratch: no token ids, so the prompts were asked anew.
    """

    run_id: str
    plane: Plane | None
    basis: Basis | None
    symptom: SymptomKind | None
    median_onset: float | None
    n: int
    sentence: str
    cleared_by: str | None = None
    cleared_decoding: Decoding | None = None
    lacking: str | None = None
    kinds: Mapping[str, int] = field(default_factory=lambda: _NONE)
    arms: tuple[ArmResult, ...] = ()
    why: EntropyShape | None = None
    ablations: tuple[Ablation, ...] = ()
    remedy: Remedy | None = None
    position: float | None = None
    from_scratch: bool = False
    notes: tuple[str, ...] = ()

    @property
    def conclusive(self) -> bool:
        return self.plane is not None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The chain of a run. complete: nothing is left to send.

    recommended: the decoding under which the last link was measured, None where none is better than the
    run's own. concurrency: requests in flight to keep to, None without a system link. safe_max_tokens: under
    it, certified by run `safe_run`. run_tokens: output tokens of the run; arm_tokens: of arms, ablations and
    remedy; child_tokens: of what unmasked.
    """

    run_id: str
    chain: tuple[Link, ...]
    complete: bool = False
    recommended: Decoding | None = None
    concurrency: int | None = None
    safe_max_tokens: int | None = None
    safe_run: str | None = None
    run_tokens: int = 0
    arm_tokens: int = 0
    child_tokens: int = 0
    notes: tuple[str, ...] = ()

    @property
    def conclusive(self) -> bool:
        return all(link.conclusive for link in self.chain)

    @property
    def lacking(self) -> bool:
        """Whether the last link lacks failing prompts, or anything else."""
        return bool(self.chain) and self.chain[-1].lacking is not None

    @property
    def sentence(self) -> str:
        """The chain in one line."""
        return " → ".join(link.sentence for link in self.chain) or "Nothing fails, so nothing is diagnosed."
