"""`check`: does a candidate degenerate more than its baseline, at the baseline's threshold?"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from stresstest.errors import EndpointError, UsageError
from stresstest.model import (
    Changed,
    CheckVerdict,
    Comparison,
    DocumentKind,
    FindingKind,
    Run,
    RunSettings,
)
from stresstest.report.check import check_document
from stresstest.report.progress import Progress
from stresstest.store.repository import Store
from stresstest.threshold.comparison import LOOKS_EXTENDED
from stresstest.workflows.check_differences import differences, refuse_other_decoding
from stresstest.workflows.check_find import Asked, Reference, Unmeasured, find_baseline, find_candidate
from stresstest.workflows.check_fresh import fresh_baseline, held_to_its_promise, refuse_same
from stresstest.workflows.check_outcome import compared, uncertified, undecided
from stresstest.workflows.check_same import MEASUREMENT, begun
from stresstest.workflows.check_sample import (
    Recorded,
    Sample,
    read_recorded,
    sample_of_recorded,
    sample_of_run,
)
from stresstest.workflows.check_sides import noted_elsewhere, refuse_extending, two_looks, under_margin
from stresstest.workflows.go_on import go_on_or_begin
from stresstest.workflows.run import Ending
from stresstest.workflows.scan_judge import Job

_NOTHING: Mapping[str, Any] = MappingProxyType({})
SECOND_LOOK_SEED = 7919
"""Added to the candidate's seed for --extend: other requests, and an interrupted check finds them again."""


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """What was asked for.

    baseline, candidate: one run, model or several files; no candidate: what the endpoint serves, measured
    now. fresh: a run of the baseline that did not choose T. max_increase: None for the baseline's alpha.
    extend: a second look is declared. measure: now, whatever is stored. allow: differences that are accepted.
    errors: findings that fail the check. task, language: choose among a model's runs. rigor, margin, job: for
    recorded outputs. base_url: None for the baseline's. changed: RunSettings fields for what is measured now;
    sampling: Decoding fields. limits_margin: of both sides' safe max_tokens; None for the baseline run's.
    """

    baseline: tuple[str, ...]
    candidate: tuple[str, ...] = ()
    fresh: str | None = None
    max_increase: float | None = None
    max_drop: float = 0.10
    extend: bool = False
    measure: bool = False
    allow: frozenset[str] = frozenset()
    errors: frozenset[FindingKind] = frozenset()
    task: str | None = None
    language: str | None = None
    rigor: str = "standard"
    margin: float = 0.10
    limits_margin: float | None = None
    job: Job = field(default_factory=Job)
    base_url: str | None = None
    changed: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    sampling: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True)
class Checked:
    """How a check ended. document_id: where it is kept; None when it was cut short, by an error or Ctrl-C."""

    comparison: Comparison
    document_id: str | None = None
    interrupted: bool = False
    error: EndpointError | None = None


class _CutShortError(Exception):
    """The candidate's campaign did not come to its end."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.result.run.id)
        self.ending = ending


async def check(
    settings: CheckSettings,
    store: Store,
    progress: Progress,
    *,
    api_key: str | None = None,
    stop: asyncio.Event | None = None,
) -> Checked:
    """Compare, measuring the candidate first where no fitting run is stored; the store keeps the outcome.

    Raises UsageError for references that mean nothing and for apples and pears, EndpointError when nothing
    could be measured at all. A campaign cut short is returned with what is known; the next check goes on.
    """
    return await _Check(settings, store, progress, api_key, stop).play()


class _Check:
    """One check: its two sides, then its looks."""

    def __init__(
        self,
        settings: CheckSettings,
        store: Store,
        progress: Progress,
        api_key: str | None,
        stop: asyncio.Event | None,
    ) -> None:
        self.settings = settings
        self.store = store
        self.progress = progress
        self.api_key = api_key
        self.stop = stop or asyncio.Event()
        self.tokens = 0
        self.seconds = 0.0
        self.fresh_changed: tuple[Changed, ...] = ()

    async def play(self) -> Checked:
        asked = self.settings
        found = find_baseline(
            self.store, asked.baseline, candidate=asked.candidate, task=asked.task, lang=asked.language
        )
        reference = find_candidate(
            self.store,
            asked.candidate,
            found if isinstance(found, Run) else None,
            Asked(
                self._settings_for,
                MEASUREMENT & {*asked.changed, *(() if asked.base_url is None else ("base_url",))},
                any_decoding="decoding" in asked.allow,
                measure=asked.measure,
                base_url=asked.base_url,
            ),
        )
        if asked.extend:
            refuse_extending(reference, asked.base_url)
        fresh = None
        if isinstance(found, Run):
            baseline = sample_of_run(self.store, found.id)
            fresh = self._fresh(baseline)
            refuse_same(fresh, (reference.id,) if isinstance(reference, Run) else ())
            if baseline.threshold.tokens is None:
                return self._keep(self._undecided(baseline, None, uncertified(baseline)))
            try:
                candidate = await self._candidate(found, reference)
            except _CutShortError as cut:
                return self._cut_short(cut.ending, baseline)
        else:
            baseline, candidate = await self._against_recorded(found, reference)
        refuse_same(fresh, candidate.run_ids)
        changed = (*differences(baseline, candidate, asked.allow), *self.fresh_changed)
        own = asked.margin if baseline.run is None else baseline.run.settings.margin
        margin = own if asked.limits_margin is None else asked.limits_margin
        baseline, candidate = under_margin(baseline, margin), under_margin(candidate, margin)
        if baseline.threshold.tokens is None:
            return self._keep(self._undecided(baseline, candidate, uncertified(baseline)))
        if asked.extend:
            candidate = self._undeclared(baseline, candidate)
        return await self._looks(baseline, noted_elsewhere(candidate, asked.base_url), fresh, changed)

    async def _candidate(self, baseline: Run, reference: Reference) -> Sample:
        """The candidate of a run: measured now, stored, or recorded with token counts."""
        if isinstance(reference, Run):
            return sample_of_run(self.store, reference.id)
        if isinstance(reference, Unmeasured):
            wanted = self._settings_for(baseline, reference.model)
            refuse_other_decoding(baseline.settings, wanted, self.settings.allow)
            return await self._measured(wanted)
        read = await asyncio.to_thread(self._read, reference)
        return self._recorded(read, _in_tokens(read.tally.unit))

    async def _against_recorded(self, files: tuple[str, ...], reference: Reference) -> tuple[Sample, Sample]:
        """Both sides where the baseline is recorded, on the best scale that both have."""
        assert not isinstance(reference, Unmeasured)
        if self.settings.fresh is not None:
            raise UsageError("--fresh-baseline needs a stored run as the baseline.")
        before = await asyncio.to_thread(self._read, files)
        if isinstance(reference, Run):
            unit = _in_tokens(before.tally.unit)
            return self._recorded(before, unit), sample_of_run(self.store, reference.id)
        after = await asyncio.to_thread(self._read, reference)
        units = before.tally.unit, after.tally.unit
        one, other = ("words", "words") if "words" in units else units
        return self._recorded(before, one), self._recorded(after, other)

    def _recorded(self, read: Recorded, unit: str) -> Sample:
        return sample_of_recorded(read, unit, self.settings.rigor, self.settings.margin)

    def _undeclared(self, baseline: Sample, candidate: Sample) -> Sample:
        """The candidate, with a note where its sample was judged before without a second look declared."""
        for run_id in candidate.run_ids:
            for document in self.store.documents(DocumentKind.CHECK, run=run_id):
                if set(baseline.run_ids) <= set(document.runs) and document.body.get("looks") == 1:
                    note = (
                        f"This sample was judged before, in check {document.id}, without a second look "
                        "declared: of the two together, up to 7.5 % may err, not 5 %."
                    )
                    return replace(candidate, notes=(*candidate.notes, note))
        return candidate

    async def _looks(
        self, baseline: Sample, candidate: Sample, fresh: Sample | None, changed: tuple[Changed, ...]
    ) -> Checked:
        looks = LOOKS_EXTENDED if self.settings.extend else 1
        first = candidate
        for look in range(1, looks + 1):
            comparison = self._compared(baseline, candidate, fresh, changed, (look, looks))
            if comparison.tested is not CheckVerdict.INCONCLUSIVE or look == looks or candidate.lacking:
                break
            assert first.run is not None
            self.progress.note(f"look {look} of {looks} is inconclusive: more of the candidate is measured")
            more = replace(
                first.run.settings,
                base_url=self.settings.base_url or first.run.settings.base_url,
                seed=first.run.settings.seed + SECOND_LOOK_SEED,
            )
            try:
                candidate = two_looks(first, await self._measured(more, reuse=True))
            except _CutShortError as cut:
                return self._cut_short(cut.ending, baseline, candidate)
        return self._keep(comparison)

    def _compared(
        self,
        baseline: Sample,
        candidate: Sample,
        fresh: Sample | None,
        changed: tuple[Changed, ...],
        look: tuple[int, int],
    ) -> Comparison:
        asked = self.settings
        found = compared(
            baseline,
            candidate,
            fresh,
            look=look,
            max_increase=asked.max_increase,
            max_drop=asked.max_drop,
            errors=asked.errors,
        )
        found = replace(found, changed=changed, tokens_spent=self.tokens, seconds=self.seconds)
        return held_to_its_promise(found, fresh)

    def _undecided(self, baseline: Sample, candidate: Sample | None, lacking: str) -> Comparison:
        name = " ".join(self.settings.candidate)
        found = undecided(baseline, candidate, name, lacking, max_increase=self.settings.max_increase)
        return replace(found, tokens_spent=self.tokens, seconds=self.seconds)

    def _read(self, files: tuple[str, ...]) -> Recorded:
        self.progress.note(f"reading {', '.join(files)}")
        return read_recorded(files, self.settings.job, self.stop.is_set)

    def _fresh(self, baseline: Sample) -> Sample | None:
        """The baseline measured anew, if one was named; UsageError when it chose T itself or is another."""
        if self.settings.fresh is None:
            return None
        if self.settings.extend:
            raise UsageError(
                "--extend measures more answers on the same topics, which adds nothing to pairs of topics.",
                hint="Leave out --extend or --fresh-baseline.",
            )
        fresh, self.fresh_changed = fresh_baseline(self.store, self.settings.fresh, baseline)
        return fresh

    def _settings_for(self, baseline: Run, model: str) -> RunSettings:
        """The candidate's campaign: the baseline's, with another model, endpoint and seed."""
        settings = baseline.settings
        anew: dict[str, Any] = {
            "seed": settings.seed + 1,
            "parent": None,
            "tighten": False,
            "budget_tokens": None,
            "budget_seconds": None,
        }
        return replace(
            settings,
            subject=replace(settings.subject, model=model),
            base_url=self.settings.base_url or settings.base_url,
            decoding=replace(settings.decoding, **self.settings.sampling),
            **{**anew, **self.settings.changed},
        )

    async def _measured(self, wanted: RunSettings, *, reuse: bool = False) -> Sample:
        """Measure, or go on where an earlier check was interrupted. reuse: a run that is done will do."""
        done = begun(self.store, wanted, done=True) if reuse else None
        if done is not None:
            return sample_of_run(self.store, done.id)
        ending = await self._campaign(wanted)
        self.tokens += ending.result.tokens_spent
        self.seconds += ending.result.seconds
        if ending.error is not None or ending.interrupted:
            raise _CutShortError(ending)
        return sample_of_run(self.store, ending.result.run.id, measured_now=True)

    async def _campaign(self, wanted: RunSettings) -> Ending:
        earlier = begun(self.store, wanted, done=False)
        if earlier is None:
            what = wanted.subject.model or "what is served"
            self.progress.note(f"{what} is measured now at {wanted.base_url}")
        return await go_on_or_begin(
            wanted, earlier, self.store, self.progress, api_key=self.api_key, stop=self.stop
        )

    def _cut_short(self, ending: Ending, baseline: Sample, candidate: Sample | None = None) -> Checked:
        why = "interrupted" if ending.error is None else str(ending.error)
        run_id = ending.result.run.id
        lacking = f"{why}: what was measured is kept in run {run_id}, and the same check goes on with it"
        comparison = self._undecided(baseline, candidate, lacking)
        return Checked(comparison, interrupted=ending.interrupted, error=ending.error)

    def _keep(self, comparison: Comparison) -> Checked:
        name = self.store.save_document(
            DocumentKind.CHECK,
            check_document(comparison),
            simulated=comparison.simulated,
            runs=comparison.run_ids,
        )
        return Checked(comparison, name)


def _in_tokens(unit: str) -> str:
    """The unit, where it can be compared with a run's; UsageError for words."""
    if unit == "words":
        raise UsageError(
            "The recorded outputs have no token counts, and a run's threshold is in tokens.",
            hint="Name the model's tokenizer: --tokenizer tokenizer.json",
        )
    return unit
