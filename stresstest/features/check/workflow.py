"""`check`: does a candidate degenerate more than its baseline, at the baseline's threshold?"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from stresstest.campaign.progress import Progress
from stresstest.campaign.provenance.age import is_recent
from stresstest.campaign.session import CampaignResult
from stresstest.errors import EndpointError, UsageError
from stresstest.features.check.differences import find_differences
from stresstest.features.check.outcome import compare_samples, uncertified_reason, undecided_comparison
from stresstest.features.check.output.document import check_document
from stresstest.features.check.settings import CheckSettings
from stresstest.features.check.sides.campaign_match import MEASUREMENT
from stresstest.features.check.sides.candidate_campaign import (
    CampaignInterruptedError,
    CandidateCampaign,
    refuse_other_prompts,
)
from stresstest.features.check.sides.footing import (
    merge_looks,
    refuse_extending,
    with_address_note,
    with_age_note,
    with_margin,
)
from stresstest.features.check.sides.fresh_baseline import (
    load_fresh_baseline,
    refuse_candidate_as_baseline,
    withhold_pass_if_baseline_failed,
)
from stresstest.features.check.sides.origins import origin_notes
from stresstest.features.check.sides.references import (
    CandidateQuery,
    Reference,
    UnmeasuredModel,
    find_baseline,
    find_candidate,
)
from stresstest.features.check.sides.sample import (
    CheckSample,
    RecordedOutputs,
    counts_note,
    read_recorded,
    sample_of_recorded,
    sample_of_run,
)
from stresstest.model import (
    ChangedSetting,
    CheckVerdict,
    Comparison,
    DocumentKind,
    Run,
)
from stresstest.statistics.comparison import LOOKS_EXTENDED
from stresstest.store.repository import Store


@dataclass(frozen=True, slots=True)
class CheckResult:
    """How a check ended. document_id: where it is kept; None when it was cut short, by an error or Ctrl-C."""

    comparison: Comparison
    document_id: str | None = None
    interrupted: bool = False
    error: EndpointError | None = None


async def check(
    settings: CheckSettings,
    store: Store,
    progress: Progress,
    *,
    api_key: str | None = None,
    stop: asyncio.Event | None = None,
) -> CheckResult:
    """Compare, measuring the candidate first where no fitting run is stored; the store keeps the outcome.

    Raises UsageError for unknown references and for sides that cannot be compared, EndpointError when nothing
    could be measured at all. A campaign cut short is returned with what is known; the next check resumes it.
    """
    return await _CheckSession(settings, store, progress, api_key, stop or asyncio.Event()).run()


_UNFINISHED = "the check was ended before its verdict; repeat it"
_TOO_OLD_FOR_MORE = (
    "The candidate was measured over twelve hours ago, and another model may be served under its name by "
    "now: no second look was measured. To measure the candidate anew: --measure"
)


@dataclass
class _CheckSession:
    """One check: its two sides, then its looks.

    measured: both sides, if the candidate was measured now: a check that is then refused is kept, because a
    candidate that no check has passed must not become the next baseline. document: the id of what is kept.
    begun: the candidate's runs so far.
    """

    settings: CheckSettings
    store: Store
    progress: Progress
    api_key: str | None
    stop: asyncio.Event
    campaign: CandidateCampaign = field(init=False)
    fresh_changed: tuple[ChangedSetting, ...] = ()
    measured: tuple[CheckSample, CheckSample] | None = None
    document: str | None = None
    baseline: CheckSample | None = None
    begun: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.campaign = CandidateCampaign(
            self.settings, self.store, self.progress, self.api_key, self.stop, self._keep_from_baselines
        )

    async def run(self) -> CheckResult:
        try:
            return await self._run()
        except UsageError as error:
            if self.measured is not None:
                self._save(self._undecided_result(*self.measured, str(error)), complete=False)
            raise

    async def _run(self) -> CheckResult:
        settings = self.settings
        found = find_baseline(
            self.store,
            settings.baseline,
            candidate=settings.candidate,
            task=settings.task,
            lang=settings.language,
            allow_refused=settings.allow_refused,
        )
        reference = find_candidate(
            self.store,
            settings.candidate,
            found if isinstance(found, Run) else None,
            CandidateQuery(
                self.campaign.settings_for,
                MEASUREMENT & {*settings.changed, *(() if settings.base_url is None else ("base_url",))},
                any_decoding="decoding" in settings.allow,
                measure=settings.measure,
                base_url=settings.base_url,
            ),
        )
        if settings.extend:
            refuse_extending(reference, settings.base_url)
        fresh = None
        if isinstance(found, Run):
            baseline = sample_of_run(self.store, found.id)
            origin = origin_notes(self.store, baseline, settings.baseline)
            baseline = replace(baseline, notes=(*origin, *baseline.notes))
            fresh = self._fresh_baseline(baseline)
            refuse_candidate_as_baseline(fresh, (reference.id,) if isinstance(reference, Run) else ())
            if not baseline.threshold.usable:
                return self._save(self._undecided_result(baseline, None, uncertified_reason(baseline)))
            self.baseline = baseline
            try:
                candidate = await self._candidate(found, reference)
            except CampaignInterruptedError as cut:
                return self._interrupted_result(cut.ending, baseline)
            if isinstance(reference, UnmeasuredModel):
                self.measured = baseline, candidate
        else:
            baseline, candidate = await self._against_recorded(found, reference)
        refuse_candidate_as_baseline(fresh, candidate.run_ids)
        changed = (*find_differences(baseline, candidate, settings.allow), *self.fresh_changed)
        own = settings.margin if baseline.run is None else baseline.run.settings.margin
        margin = own if settings.limits_margin is None else settings.limits_margin
        baseline, candidate = with_margin(baseline, margin), with_margin(candidate, margin)
        if not baseline.threshold.usable:
            return self._save(self._undecided_result(baseline, candidate, uncertified_reason(baseline)))
        if settings.extend:
            candidate = self._note_undeclared_look(baseline, candidate)
        candidate = with_address_note(candidate, settings.base_url)
        candidate = with_age_note(candidate, " ".join(settings.candidate))
        return await self._run_looks(baseline, candidate, fresh, changed)

    async def _candidate(self, baseline: Run, reference: Reference) -> CheckSample:
        """The candidate of a run: measured now, stored, or recorded with token counts."""
        if isinstance(reference, Run):
            return sample_of_run(self.store, reference.id)
        if isinstance(reference, UnmeasuredModel):
            return await self.campaign.first_look(baseline, reference.model)
        read = await asyncio.to_thread(self._read_files, reference)
        return self._recorded_sample(read, _require_token_unit(read.tally.unit))

    async def _against_recorded(
        self, files: tuple[str, ...], reference: Reference
    ) -> tuple[CheckSample, CheckSample]:
        """Both sides where the baseline is recorded, on the best scale that both have."""
        assert not isinstance(reference, UnmeasuredModel)
        if self.settings.fresh is not None:
            raise UsageError("--fresh-baseline needs a stored run as the baseline.")
        before = await asyncio.to_thread(self._read_files, files)
        if isinstance(reference, Run):
            unit = _require_token_unit(before.tally.unit)
            return self._recorded_sample(before, unit), sample_of_run(self.store, reference.id)
        after = await asyncio.to_thread(self._read_files, reference)
        units = before.tally.unit, after.tally.unit
        note = counts_note(before.tally.tokens_a_word, after.tally.tokens_a_word)
        in_words = note is not None and not (before.tally.counts_known and after.tally.counts_known)
        if in_words or "words" in units:
            units = "words", "words"
        baseline, candidate = map(self._recorded_sample, (before, after), units)
        if in_words:
            candidate = replace(candidate, notes=(*candidate.notes, f"{note} They are compared in words."))
        return baseline, candidate

    def _recorded_sample(self, read: RecordedOutputs, unit: str) -> CheckSample:
        return sample_of_recorded(read, unit, self.settings.rigor, self.settings.margin)

    def _note_undeclared_look(self, baseline: CheckSample, candidate: CheckSample) -> CheckSample:
        """The candidate, with a note where its sample was judged before without a second look declared."""
        for run_id in candidate.run_ids:
            for document in self.store.documents(DocumentKind.CHECK, run=run_id):
                if not document.complete:
                    continue
                if set(baseline.run_ids) <= set(document.runs) and document.body.get("looks") == 1:
                    note = (
                        f"This sample was already judged in check {document.id}, before a second look "
                        f"was declared. The two together may err in up to 7.5 % of cases instead of 5 %."
                    )
                    return replace(candidate, notes=(*candidate.notes, note))
        return candidate

    async def _run_looks(
        self,
        baseline: CheckSample,
        candidate: CheckSample,
        fresh: CheckSample | None,
        changed: tuple[ChangedSetting, ...],
    ) -> CheckResult:
        looks = LOOKS_EXTENDED if self.settings.extend else 1
        first = candidate
        for look in range(1, looks + 1):
            comparison = self._compare(baseline, candidate, fresh, changed, (look, looks))
            if comparison.tested is not CheckVerdict.INCONCLUSIVE or look == looks or candidate.lacking:
                break
            assert first.run is not None
            refuse_other_prompts(first.run)
            known = self.campaign.earlier_second_look(first.run)
            if known is None and not is_recent(first.run):
                comparison = replace(comparison, notes=(*comparison.notes, _TOO_OLD_FOR_MORE))
                break
            try:
                if known is not None:
                    second = sample_of_run(self.store, known.id)
                else:
                    self.progress.note(
                        f"look {look} of {looks} is inconclusive; measuring more of the candidate"
                    )
                    second = await self.campaign.second_look(first.run)
                candidate = merge_looks(first, second)
            except CampaignInterruptedError as cut:
                return self._interrupted_result(cut.ending, baseline, candidate)
        return self._save(comparison)

    def _compare(
        self,
        baseline: CheckSample,
        candidate: CheckSample,
        fresh: CheckSample | None,
        changed: tuple[ChangedSetting, ...],
        look: tuple[int, int],
    ) -> Comparison:
        settings = self.settings
        found = compare_samples(
            baseline,
            candidate,
            fresh,
            look=look,
            max_increase=settings.max_increase,
            max_drop=settings.max_drop,
            errors=settings.errors,
        )
        found = replace(
            found, changed=changed, tokens_spent=self.campaign.tokens, seconds=self.campaign.seconds
        )
        return withhold_pass_if_baseline_failed(found, fresh)

    def _undecided_result(
        self, baseline: CheckSample, candidate: CheckSample | None, lacking: str
    ) -> Comparison:
        name = " ".join(self.settings.candidate)
        found = undecided_comparison(
            baseline, candidate, name, lacking, max_increase=self.settings.max_increase
        )
        return replace(found, tokens_spent=self.campaign.tokens, seconds=self.campaign.seconds)

    def _read_files(self, files: tuple[str, ...]) -> RecordedOutputs:
        self.progress.note(f"reading {', '.join(files)}")
        return read_recorded(files, self.settings.job, self.stop.is_set)

    def _fresh_baseline(self, baseline: CheckSample) -> CheckSample | None:
        """The baseline measured again, if one was named; UsageError when it chose T itself or is another."""
        if self.settings.fresh is None:
            return None
        if self.settings.extend:
            raise UsageError(
                "--extend measures more answers on the same topics, which adds nothing to a comparison "
                "by topic.",
                hint="Omit --extend or --fresh-baseline.",
            )
        fresh, self.fresh_changed = load_fresh_baseline(self.store, self.settings.fresh, baseline)
        return fresh

    def _keep_from_baselines(self, run: Run) -> None:
        """Store that the check has no verdict yet: killed before it, its candidate is no baseline."""
        assert self.baseline is not None
        self.begun += (run.id,)
        found = self._undecided_result(self.baseline, None, _UNFINISHED)
        side = replace(found.candidate, run_ids=self.begun)
        self._save(replace(found, candidate=side), complete=False)

    def _interrupted_result(
        self, ending: CampaignResult, baseline: CheckSample, candidate: CheckSample | None = None
    ) -> CheckResult:
        why = "interrupted" if ending.error is None else str(ending.error)
        run_id = ending.result.run.id
        lacking = f"{why}. The results so far are kept in run {run_id}; repeat the check to continue"
        comparison = self._undecided_result(baseline, candidate, lacking)
        # A second look that somebody finishes later was judged as little as a first one.
        runs = tuple(dict.fromkeys((*comparison.candidate.run_ids, *self.begun, run_id)))
        comparison = replace(comparison, candidate=replace(comparison.candidate, run_ids=runs))
        self._save(comparison, complete=False)
        return CheckResult(comparison, interrupted=ending.interrupted, error=ending.error)

    def _save(self, comparison: Comparison, *, complete: bool = True) -> CheckResult:
        name = self.store.save_document(
            DocumentKind.CHECK,
            check_document(comparison),
            complete=complete,
            simulated=comparison.simulated,
            runs=comparison.run_ids,
            id=self.document,
        )
        self.document = name
        return CheckResult(comparison, name)


def _require_token_unit(unit: str) -> str:
    """The unit, where it can be compared with a run's; UsageError for words."""
    if unit == "words":
        raise UsageError(
            "The recorded outputs have no token counts that can be used, and a run's threshold is in tokens.",
            hint="Name the model's tokenizer: --tokenizer tokenizer.json",
        )
    return unit
