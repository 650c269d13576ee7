"""One side of a check: a stored run, or recorded outputs, as the comparison needs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stresstest import records
from stresstest.errors import InterruptedEarlyError, UsageError
from stresstest.model import (
    RIGORS,
    Generation,
    Observation,
    Plane,
    Run,
    RunStatus,
    Side,
    Subject,
    Threshold,
)
from stresstest.threshold import deduplicate, safe_max_tokens, withdrawn
from stresstest.threshold.certify import counted, unusable
from stresstest.threshold.recorded import certify_recorded
from stresstest.workflows.conclude import conclude
from stresstest.workflows.scan import work
from stresstest.workflows.scan_judge import Job
from stresstest.workflows.scan_pool import judged, workers_by_default
from stresstest.workflows.scan_scale import require_tokenizer
from stresstest.workflows.scan_tally import Tally

if TYPE_CHECKING:
    from stresstest.store.repository import Store

GROUP_KEYS = ("model", "task")
MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """A measured side. run: None for recorded outputs; files: then those.

    observations: identical outputs counted once. by_prompt: the first observation of each topic (of a run)
    or prompt (of recorded outputs). lacking: why this sample decides nothing, whatever it shows. further:
    later outputs of prompts, which are not among the observations. unread: lines without an answer; lost:
    answers that the service gave up.
    """

    label: str
    subject: Subject
    threshold: Threshold
    safe_max_tokens: int | None
    observations: tuple[Observation, ...]
    by_prompt: Mapping[str, Observation]
    symptoms: Mapping[str, int]
    generations: int
    onsets: int
    plane: Plane | None = None
    run: Run | None = None
    certifying: tuple[Generation, ...] = ()
    files: tuple[str, ...] = ()
    unit: str = "tokens"
    lacking: str | None = None
    notes: tuple[str, ...] = ()
    further: tuple[Observation, ...] = ()
    unread: int = 0
    lost: int = 0
    tokens_spent: int = 0
    seconds: float = 0.0
    measured_now: bool = False

    @property
    def simulated(self) -> bool:
        return self.run is not None and self.run.profile.simulated

    @property
    def run_ids(self) -> tuple[str, ...]:
        return () if self.run is None else (self.run.id,)

    def side(self, *, failed: int | None = None, at_risk: int | None = None) -> Side:
        """What of it stands in the outcome."""
        settings = None if self.run is None else self.run.settings
        return Side(
            label=self.label,
            subject=self.subject,
            run_ids=self.run_ids,
            files=self.files,
            generations=self.generations,
            onsets=self.onsets,
            at_risk=at_risk,
            failed=failed,
            threshold=self.threshold.tokens,
            safe_max_tokens=self.safe_max_tokens,
            symptoms=self.symptoms,
            plane=self.plane,
            unit=self.unit,
            simulated=self.simulated,
            measured_now=self.measured_now,
            decoding=None if settings is None else settings.decoding,
            base_url=None if settings is None else settings.base_url,
        )


def sample_of_run(store: Store, run_id: str, *, measured_now: bool = False) -> Sample:
    """A stored run's certifying sample."""
    result = conclude(store, run_id)
    run, certifying = result.run, result.certifying
    observations = counted(certifying)
    kinds = Counter(str(g.verdict.symptom) for g in certifying if g.verdict.symptom is not None)
    first: dict[str, Observation] = {}
    for generation, observation in zip(certifying, observations, strict=True):
        # By topic, not by text: the requested length is the ladder's choice and may differ.
        first.setdefault(str(generation.job.prompt_index), observation)
    return Sample(
        label=f"run {run.id} ({run.settings.subject})",
        subject=run.settings.subject,
        threshold=result.threshold,
        safe_max_tokens=result.safe_max_tokens,
        observations=tuple(deduplicate(observations, run.settings.decoding.temperature)),
        by_prompt=first,
        symptoms=dict(kinds.most_common()),
        generations=len(certifying),
        onsets=sum(kinds.values()),
        plane=result.verdict.plane,
        run=run,
        certifying=certifying,
        lacking=_incomplete(run) or unusable(certifying),
        tokens_spent=result.tokens_spent,
        seconds=result.seconds,
        measured_now=measured_now,
    )


def _incomplete(run: Run) -> str | None:
    if run.status is RunStatus.DONE:
        return None
    return (
        f"run {run.id} is not complete ({run.status}), and what is missing is no random part of it: "
        f"go on with stresstest run --resume {run.id}"
    )


def joined(first: Sample, second: Sample) -> Sample:
    """Two samples of one candidate as one; threshold and plane stay the first's."""
    temperature = first.run.settings.decoding.temperature if first.run is not None else None
    kinds = Counter(first.symptoms) + Counter(second.symptoms)
    return replace(
        first,
        observations=tuple(deduplicate([*first.observations, *second.observations], temperature)),
        symptoms=dict(kinds.most_common()),
        generations=first.generations + second.generations,
        onsets=first.onsets + second.onsets,
        lacking=first.lacking or second.lacking,
        tokens_spent=second.tokens_spent + (first.tokens_spent if first.measured_now else 0),
        seconds=second.seconds + (first.seconds if first.measured_now else 0.0),
        measured_now=True,
    )


@dataclass(slots=True)
class Recorded:
    """Judged outputs of some files. groups: (model, task) → answers."""

    files: tuple[str, ...]
    tally: Tally
    groups: Counter[tuple[str | None, ...]]
    damaged: int = 0


def read_recorded(files: Sequence[str], job: Job, stopped: Callable[[], bool] = lambda: False) -> Recorded:
    """Judge every answer of the files, as `scan` does. stopped: asked now and then.

    Raises UsageError for what cannot be read or holds no answer, InterruptedEarlyError when stopped.
    """
    records.check(list(files))
    if job.tokenizer:
        require_tokenizer(job.tokenizer)
    job = replace(job, keys=GROUP_KEYS)
    found = Recorded(tuple(files), Tally(), Counter())
    for batch in judged(work(files, job), job, workers_by_default()):
        if stopped():
            raise InterruptedEarlyError("Interrupted while recorded outputs were read: nothing is compared.")
        found.damaged += sum(not each.textless for each in batch.damaged)
        for each in batch.judged:
            found.tally.add(each)
            found.groups[each.group] += 1
    if not found.tally.requests:
        raise UsageError(
            f"There is no answer to judge in {_names(files)}.",
            hint="Map your own layout with --field response=path.to.text",
        )
    return found


def sample_of_recorded(found: Recorded, unit: str, rigor: str, margin: float) -> Sample:
    """Recorded outputs on one scale. unit: "tokens", "tokens (estimate)" or "words"."""
    tokens = unit != "words"
    tally = found.tally
    threshold = certify_recorded(
        tally.sample.observations(tokens=tokens), RIGORS[rigor], "tokens" if tokens else "words"
    )
    lacking = _mostly_missing(found)
    if lacking is not None:
        threshold = withdrawn(threshold, lacking)
    observations = tally.sample.observations(tokens=tokens, doubt_lost=True)
    language = tally.languages.most_common(1)[0][0]
    return Sample(
        label=_names(found.files),
        subject=Subject(_one(found, 0), _one(found, 1), "" if language == "unknown" else language),
        threshold=threshold,
        safe_max_tokens=safe_max_tokens(threshold, margin) if tokens else None,
        observations=tuple(observations),
        by_prompt={o.cluster: o for o in observations if o.cluster},
        symptoms=dict(tally.symptoms.most_common()),
        generations=tally.requests,
        onsets=tally.degenerate,
        files=found.files,
        unit=unit,
        lacking=lacking,
        notes=_notes(found),
        further=tuple(tally.sample.further(tokens=tokens)),
        unread=found.damaged,
        lost=tally.lost,
    )


def _mostly_missing(found: Recorded) -> str | None:
    """Why these outputs decide nothing: the rule of a run that lost more than half of its generations."""
    lines, missing = found.tally.requests + found.damaged, found.tally.missing + found.damaged
    if 2 * missing <= lines:
        return None
    return (
        f"{missing} of {lines} lines of {_names(found.files)} hold no answer, an empty one, or one that the "
        "service gave up: more than half of the sample is missing, and what is left is no fair part of it."
    )


def _one(found: Recorded, place: int) -> str:
    """The model or task of the records, where they agree on one; else nothing is known of it."""
    named = {group[place] for group in found.groups}
    return str(named.pop()) if len(named) == 1 and None not in named else ""


def _notes(found: Recorded) -> tuple[str, ...]:
    notes = []
    for place, what in enumerate(GROUP_KEYS):
        named = sorted({str(group[place]) for group in found.groups if group[place] is not None})
        if len(named) > 1:
            some = ", ".join(named[:MOST_NAMED]) + (", …" if len(named) > MOST_NAMED else "")
            notes.append(f"{_names(found.files)} mixes {len(named)} {what}s: {some}.")
    tally = found.tally
    if found.damaged:
        notes.append(f"{_names(found.files)}: {found.damaged} lines hold no answer.")
    if tally.lost:
        notes.append(
            f"{_names(found.files)}: {tally.lost} answers were given up by the service, or never began."
        )
    if tally.empty:
        notes.append(f"{_names(found.files)}: {tally.empty} answers are empty; nothing can fail in them.")
    if not found.tally.sample.complete:
        notes.append(f"{_names(found.files)}: the statistics stand on a random part of its prompts.")
    return tuple(notes)


def _names(files: Sequence[str]) -> str:
    return ", ".join(files[:MOST_NAMED]) + (
        f" and {len(files) - MOST_NAMED} more" if files[MOST_NAMED:] else ""
    )
