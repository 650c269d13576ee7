"""Results of `diagnose`: arms, causal chain, entropy before the onset, side effects, remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stresstest.model.request import Decoding
from stresstest.model.result import Threshold
from stresstest.model.words import Basis, Plane, SymptomKind

NEXT_FAILURE_RIGOR = "quick"
"""The rigor at which `diagnose` measures the failure behind one that it cleared."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One declared intervention on the failing forks.

    plane: the plane under test; None for the unchanged arm. alone: one request at a time on an idle server.
    truncated: the prompt contains only the instruction and the last few units, not the whole answer.
    changed: describes the change. decoding: in force, system prompt included. sham: the prompt is
    changed to no effect, as a control of changes of the prompt.
    """

    name: str
    plane: Plane | None
    changed: str
    decoding: Decoding
    alone: bool = False
    truncated: bool = False
    sham: bool = False


@dataclass(frozen=True, slots=True)
class PairedEffect:
    """A paired comparison of text before the cut and under an arm. None: not measured.

    before, after: medians over n forks. p: two-sided Wilcoxon signed-rank test.
    """

    what: str
    n: int
    before: float | None = None
    after: float | None = None
    p: float | None = None


@dataclass(frozen=True, slots=True)
class ArmResult:
    """An arm compared with the unchanged arm, over the n forks that both answered.

    failed, unchanged_failed: forks with any symptom inside the window. p: exact one-sided McNemar test.
    upper: one-sided 95 % bound of the failure rate. decided_early: stopped because it could no longer clear.
    tokens: output tokens, discarded answers included. lost: forks without an answer (service failures).
    short: answers that ended normally before the position of the failure; not counted in n. control_n: forks
    continued unchanged at the same time as the arm's last ones, to show that the failure had not gone away by
    itself; control_failed: those that failed again; control: how they were continued, if not unchanged.
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
    symptoms: Mapping[str, int] = field(default_factory=dict)
    median_onset: float | None = None
    tokens: int = 0
    lost: int = 0
    short: int = 0
    control_n: int = 0
    control_failed: int = 0
    control: str = "unchanged"
    effects: tuple[PairedEffect, ...] = ()


@dataclass(frozen=True, slots=True)
class EntropyShape:
    """Entropy before the onset, compared with answers that were still healthy at the same positions.

    verdict: "supported" (entropy falls before the onset) | "not supported" | "not measurable". failing,
    healthy: answers compared. difference: failing minus healthy in nats, over the last tokens before the
    onset. lead: how many tokens before the onset the difference begins. p: two-sided permutation test within
    matched positions. profile: (position relative to the onset, difference in nats) per window.
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
    """Fresh answers to differently worded prompts on the same topics, observed up to 1.5 times the onset.

    name: "open structure" | "twice the length". failed of n: degenerate by the end of the window; run_failed
    of run_n: the same in the run, among generations observed that far. p: two-sided Fisher's exact test.
    ratio: median onset over the run's, lo, hi its 90 % interval; independent: the interval lies inside
    0.8-1.25.
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
class SplitRemedy:
    """The recommended split, tested on the whole task: `per_request` units per request, the last `carried`
    units passed on to the next one.

    outputs: complete tasks generated this way; failed: degenerate ones; units: median number of units.
    upper: one-sided 95 % bound of the failure rate.
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
class CauseLink:
    """One failure in the chain and its plane.

    run_id: the run with the failures. plane, basis: None if inconclusive; `lacking` then describes what is
    missing. n: forks. kinds: symptom → failing generations. cleared_by: description of the arm that cleared
    it. from_scratch: without token ids the prompts were sent again instead of continuing the answers.
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
    kinds: Mapping[str, int] = field(default_factory=dict)
    arms: tuple[ArmResult, ...] = ()
    why: EntropyShape | None = None
    ablations: tuple[Ablation, ...] = ()
    remedy: SplitRemedy | None = None
    position: float | None = None
    from_scratch: bool = False
    notes: tuple[str, ...] = ()

    @property
    def conclusive(self) -> bool:
        return self.plane is not None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The causal chain of a run. complete: no request is left to send.

    recommended: the decoding of the last link's run, None if none is better than the run's own.
    concurrency: recommended limit of requests in flight, None without a system link. safe_max_tokens:
    certified under `recommended` by run `safe_run`, from `safe_n` answers at risk; safe_threshold: what it is
    cut from, None in a diagnosis of an earlier version. run_tokens: output
    tokens of the run; arm_tokens: of arms, ablations and remedy; child_tokens: of the follow-up runs that
    look for masked failures; added_tokens: of the `added_answers` that were requested because too few
    prompts failed, at most about `added_budget`. planes: whose arms were to be tested; unmasked,
    explained: whether the next failure and the reasons were looked for.
    """

    run_id: str
    chain: tuple[CauseLink, ...]
    complete: bool = False
    recommended: Decoding | None = None
    concurrency: int | None = None
    safe_max_tokens: int | None = None
    safe_run: str | None = None
    safe_n: int | None = None
    safe_threshold: Threshold | None = None
    run_tokens: int = 0
    arm_tokens: int = 0
    child_tokens: int = 0
    added_answers: int = 0
    added_tokens: int = 0
    added_budget: int = 0
    planes: tuple[Plane, ...] = tuple(Plane)
    unmasked: bool = True
    explained: bool = True
    notes: tuple[str, ...] = ()

    @property
    def conclusive(self) -> bool:
        return all(link.conclusive for link in self.chain)

    @property
    def spent_tokens(self) -> int:
        """Output tokens beside the run's."""
        return self.arm_tokens + self.child_tokens + self.added_tokens

    @property
    def lacking(self) -> bool:
        """Whether the last link lacks data, such as failing prompts."""
        return bool(self.chain) and self.chain[-1].lacking is not None

    @property
    def sentences(self) -> tuple[str, ...]:
        """One text per link. A later link says under which change its failure appears."""
        found = []
        for before, link in zip((None, *self.chain), self.chain, strict=False):
            words = link.sentence
            if before is not None and before.run_id == link.run_id:
                words = f"also, {words}"
            elif before is not None and before.cleared_by:
                words = f"after that fix ({before.cleared_by}): {words}"
            elif before is not None:
                words = f"then, {words}"
            found.append(f"{words[:1].upper()}{words[1:]}.")
        return tuple(found)

    @property
    def sentence(self) -> str:
        """The chain in words."""
        return " ".join(self.sentences) or (
            "Nothing fails, so nothing is diagnosed." if self.complete else "No cause has been found yet."
        )
