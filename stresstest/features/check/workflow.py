"""`check`: does a candidate degenerate more than its baseline, at the baseline's threshold?"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from stresstest.campaign.campaign_setup import ladder_without_server
from stresstest.campaign.ladder import ALARM_HEADROOM, certified_length
from stresstest.campaign.progress import Progress
from stresstest.campaign.prompt_source import load_prompt_source
from stresstest.campaign.provenance.age import RESUME_WINDOW_S, is_recent
from stresstest.campaign.resume import resume_or_start
from stresstest.campaign.served_model import refuse_changed_prompts
from stresstest.campaign.session import CampaignResult
from stresstest.errors import EndpointError, UsageError
from stresstest.features.check.campaign_match import MEASUREMENT, find_matching_run
from stresstest.features.check.differences import find_differences, refuse_other_decoding
from stresstest.features.check.document import check_document
from stresstest.features.check.fresh_baseline import (
    load_fresh_baseline,
    refuse_candidate_as_baseline,
    withhold_pass_if_baseline_failed,
)
from stresstest.features.check.outcome import compare_samples, uncertified_reason, undecided_comparison
from stresstest.features.check.references import (
    CandidateQuery,
    Reference,
    UnmeasuredModel,
    find_baseline,
    find_candidate,
)
from stresstest.features.check.sample import (
    CheckSample,
    RecordedOutputs,
    read_recorded,
    sample_of_recorded,
    sample_of_run,
)
from stresstest.features.check.sides import (
    merge_looks,
    refuse_extending,
    with_address_note,
    with_age_note,
    with_margin,
)
from stresstest.model import (
    ChangedSetting,
    CheckVerdict,
    Comparison,
    DocumentKind,
    FindingKind,
    Run,
    RunSettings,
)
from stresstest.model.address import clean_url
from stresstest.scanning.job import ScanJob
from stresstest.statistics.comparison import LOOKS_EXTENDED
from stresstest.store.repository import Store

_NOTHING: Mapping[str, Any] = MappingProxyType({})
SECOND_LOOK_SEED = 7919
"""Added to the candidate's seed for --extend: other requests, and an interrupted check finds them again."""


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """What to compare, and how.

    baseline, candidate: one run, model or several files; no candidate: what the endpoint serves, measured
    now. fresh: a run of the baseline that did not choose T. max_increase: None for the baseline's alpha.
    extend: a second look is declared. measure: now, whatever is stored. allow: differences that are accepted.
    allow_refused: a run that regressed may be the baseline, by its id.
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
    allow_refused: bool = False
    errors: frozenset[FindingKind] = frozenset()
    task: str | None = None
    language: str | None = None
    rigor: str = "standard"
    margin: float = 0.10
    limits_margin: float | None = None
    job: ScanJob = field(default_factory=ScanJob)
    base_url: str | None = None
    changed: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    sampling: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """How a check ended. document_id: where it is kept; None when it was cut short, by an error or Ctrl-C."""

    comparison: Comparison
    document_id: str | None = None
    interrupted: bool = False
    error: EndpointError | None = None


class _CampaignInterruptedError(Exception):
    """The candidate's campaign did not come to its end."""

    def __init__(self, ending: CampaignResult) -> None:
        super().__init__(ending.result.run.id)
        self.ending = ending


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
    """One check: its two sides, then its looks. tokens, seconds: spent on measuring the candidate.

    measured: both sides, if the candidate was measured now: a check that is then refused is kept, because a
    candidate that no check has passed must not become the next baseline. document: the id of what is kept.
    begun: the candidate's runs so far.
    """

    settings: CheckSettings
    store: Store
    progress: Progress
    api_key: str | None
    stop: asyncio.Event
    tokens: int = 0
    seconds: float = 0.0
    fresh_changed: tuple[ChangedSetting, ...] = ()
    measured: tuple[CheckSample, CheckSample] | None = None
    document: str | None = None
    baseline: CheckSample | None = None
    begun: tuple[str, ...] = ()

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
                self._settings_for,
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
            fresh = self._fresh_baseline(baseline)
            refuse_candidate_as_baseline(fresh, (reference.id,) if isinstance(reference, Run) else ())
            if not baseline.threshold.usable:
                return self._save(self._undecided_result(baseline, None, uncertified_reason(baseline)))
            self.baseline = baseline
            try:
                candidate = await self._candidate(found, reference)
            except _CampaignInterruptedError as cut:
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
            wanted = self._settings_for(baseline, reference.model)
            refuse_other_decoding(baseline.settings, wanted, self.settings.allow)
            _refuse_other_prompts(baseline)
            if "horizon" not in self.settings.changed:
                wanted = replace(wanted, horizon=self._baseline_length(baseline))
            return await self._measure(wanted)
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
        one, other = ("words", "words") if "words" in units else units
        return self._recorded_sample(before, one), self._recorded_sample(after, other)

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
            _refuse_other_prompts(first.run)
            more = replace(
                first.run.settings,
                base_url=self.settings.base_url or first.run.settings.base_url,
                seed=first.run.settings.seed + SECOND_LOOK_SEED,
            )
            known = self._find_second_look(first.run, more)
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
                    second = await self._measure(more)
                candidate = merge_looks(first, second)
            except _CampaignInterruptedError as cut:
                return self._interrupted_result(cut.ending, baseline, candidate)
        return self._save(comparison)

    def _find_second_look(self, first: Run, wanted: RunSettings) -> Run | None:
        """The finished run of an earlier check's second look, if it was made right after this first one."""
        found = find_matching_run(self.store, wanted, done=True)
        since = first.ended or first.created
        if found is None or not first.created <= found.created <= since + RESUME_WINDOW_S:
            return None
        return found

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
        found = replace(found, changed=changed, tokens_spent=self.tokens, seconds=self.seconds)
        return withhold_pass_if_baseline_failed(found, fresh)

    def _undecided_result(
        self, baseline: CheckSample, candidate: CheckSample | None, lacking: str
    ) -> Comparison:
        name = " ".join(self.settings.candidate)
        found = undecided_comparison(
            baseline, candidate, name, lacking, max_increase=self.settings.max_increase
        )
        return replace(found, tokens_spent=self.tokens, seconds=self.seconds)

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

    def _baseline_length(self, baseline: Run) -> int | None:
        """Output tokens that the baseline's sample was asked for; at least its T and room for an alarm.

        A candidate that fails nowhere would else climb to the end of its context, and nothing past T decides.
        """
        ladder = ladder_without_server(baseline.settings)
        asked = certified_length(ladder, [g.to_record() for g in self.store.generations(baseline.id)])
        if asked is None:
            return baseline.settings.horizon
        saved = next(row.threshold for row in self.store.runs() if row.id == baseline.id)
        reach = saved.tokens if saved is not None and saved.tokens is not None else 0
        return min(ladder.horizon, max(asked, reach + ALARM_HEADROOM))

    async def _measure(self, wanted: RunSettings) -> CheckSample:
        """Measure, or resume the run of an interrupted check."""
        ending = await self._campaign(wanted)
        self.tokens += ending.result.tokens_spent
        self.seconds += ending.result.seconds
        if ending.error is not None or ending.interrupted:
            raise _CampaignInterruptedError(ending)
        return sample_of_run(self.store, ending.result.run.id, measured_now=True)

    async def _campaign(self, wanted: RunSettings) -> CampaignResult:
        earlier = find_matching_run(self.store, wanted, done=False)
        if earlier is None:
            what = wanted.subject.model or "the model served there"
            length = f", with up to {wanted.horizon:,} tokens an answer" if wanted.horizon else ""
            self.progress.note(f"measuring {what} now at {clean_url(wanted.base_url)}{length} (--horizon)")
        return await resume_or_start(
            wanted,
            earlier,
            self.store,
            self.progress,
            api_key=self.api_key,
            stop=self.stop,
            created=self._keep_from_baselines,
        )

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
        if candidate is None:
            side = replace(comparison.candidate, run_ids=(run_id,))
            comparison = replace(comparison, candidate=side)
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
            "The recorded outputs have no token counts, and a run's threshold is in tokens.",
            hint="Name the model's tokenizer: --tokenizer tokenizer.json",
        )
    return unit


def _refuse_other_prompts(run: Run) -> None:
    """UsageError before prompts are sent that are not the run's: the answers could not be compared.

    A store may have come with somebody else's folder: what its runs name as their prompts is sent only if
    whoever made the store knew the text.
    """
    refuse_changed_prompts(
        run,
        load_prompt_source(run.settings).digest(),
        consequence="answers to others could not be compared",
        hint="Restore the task or prompts file, or measure a new baseline.",
    )
