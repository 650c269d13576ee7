"""One side of a check: a stored run, or recorded outputs, as the comparison needs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from stresstest import records
from stresstest.campaign.conclusion.chance import chance_note, results_beside, results_of_subject
from stresstest.campaign.conclusion.conclude import conclude
from stresstest.campaign.conclusion.notes import prompts_note
from stresstest.campaign.provenance.doubts import doubts
from stresstest.detectors.text.features import piece_count
from stresstest.errors import InconclusiveError, InterruptedEarlyError
from stresstest.model import (
    RIGORS,
    ComparisonSide,
    Generation,
    GenerationRecord,
    Observation,
    Plane,
    Run,
    RunStatus,
    Subject,
    Threshold,
    TokenSummary,
)
from stresstest.model.percent import percent
from stresstest.model.result import MOST_HEALTHY_CUT
from stresstest.model.tokens import Token
from stresstest.records.record import JSON_LINES_HINT, LAYOUT_HINT
from stresstest.scanning.job import ScanJob
from stresstest.scanning.pool import default_workers, detect_chunks
from stresstest.scanning.position_scale import require_tokenizer
from stresstest.scanning.scan import read_chunks
from stresstest.scanning.tally import GroupTally
from stresstest.scanning.text_lengths import TextLengths, cut_notes
from stresstest.scanning.texts_read import prompt_notes
from stresstest.statistics import deduplicate, safe_max_tokens, without_certificate
from stresstest.statistics.certify import (
    known_observations,
    limit_without_cap,
    spoilt_windows_reason,
    unusable_reason,
)
from stresstest.statistics.recorded import RecordedSample, certify_outputs
from stresstest.statistics.replays import old_answers_reason

if TYPE_CHECKING:
    from stresstest.store.repository import Store

GROUP_KEYS = ("model", "task")
MAX_NAMED = 3
_NO_TEXT = TokenSummary.of([Token("")]).digest
MAX_READ_GENERATIONS = 40
"""Generations of a run whose token ids are read."""
_OTHER_SCALE = 1.25
"""Tokens a word of one side over the other's from which on one tokenizer cannot have counted both."""


@dataclass(frozen=True, slots=True)
class CheckSample:
    """A measured side. run: None for recorded outputs; files: then those.

    observations: identical outputs counted once. by_prompt: the first observation of each topic (of a
    run) or prompt (of recorded outputs). lacking: why this sample decides nothing, whatever it shows.
    further: later outputs of prompts, which are not among the observations. empty: for each answer
    without text that no service failure explains, its key of `by_prompt`, or "". refused: the prompts
    that the server took no request with. unread: lines without an answer; lost: answers that the service
    gave up. tokens_a_word: of healthy text, None where nothing tells. languages: of recorded answers, with
    their number, where known. complete: False where prompts were left out by chance. token_texts: token
    id → its most frequent text in first answers.
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
    certifying: tuple[GenerationRecord, ...] = ()
    token_texts: Mapping[int, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    unit: str = "tokens"
    lacking: str | None = None
    notes: tuple[str, ...] = ()
    further: tuple[Observation, ...] = ()
    empty: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    unread: int = 0
    lost: int = 0
    tokens_a_word: float | None = None
    languages: Mapping[str, int] = field(default_factory=dict)
    complete: bool = True
    tokens_spent: int = 0
    seconds: float = 0.0
    measured_now: bool = False
    limit_without_cap: int | None = None

    @property
    def simulated(self) -> bool:
        return self.run is not None and self.run.profile.simulated

    @property
    def run_ids(self) -> tuple[str, ...]:
        return () if self.run is None else (self.run.id,)

    def to_side(self, *, failed: int | None = None, at_risk: int | None = None) -> ComparisonSide:
        """What the outcome shows of it."""
        settings = None if self.run is None else self.run.settings
        return ComparisonSide(
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
            limit_without_cap=self.limit_without_cap,
            without_onset=self.threshold.censored_at is not None,
        )


def sample_of_run(store: Store, run_id: str, *, measured_now: bool = False) -> CheckSample:
    """A stored run's certifying sample."""
    result = conclude(store, run_id)
    run, certifying = result.run, result.certifying
    observations = known_observations(certifying)
    kinds = Counter(str(g.verdict.symptom) for g in certifying if g.verdict.symptom is not None)
    token_texts, tokens_a_word = read_tokens(map(store.loader(run.id), certifying[:MAX_READ_GENERATIONS]))
    first: dict[str, Observation] = {}
    for generation, observation in zip(certifying, observations, strict=True):
        # By topic, not by text: the requested length is the ladder's choice and may differ.
        first.setdefault(str(generation.job.prompt_index), observation)
    empty = tuple(str(g.job.prompt_index) for g in certifying if is_empty(g))
    of_subject = results_of_subject(store, run.settings.subject)
    chance = chance_note(result, results_beside(store, of_subject, run, result.threshold))
    noted = [
        *([] if chance is None else [chance]),
        *prompts_note(certifying),
        *doubts(run, result.generations, result.samples),
    ]
    return CheckSample(
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
        token_texts=token_texts,
        tokens_a_word=tokens_a_word,
        lacking=_incomplete_reason(run)
        or unusable_reason(certifying)
        or spoilt_windows_reason(certifying, RIGORS[run.settings.rigor], run.settings.decoding.temperature)
        or old_answers_reason(certifying, run.profile.clock),
        notes=(
            *_empty_note(f"run {run.id}", len(empty)),
            *(f"run {run.id}: {note}" for note in noted),
        ),
        empty=empty,
        refused=tuple(str(g.job.prompt_index) for g in certifying if is_refused(g)),
        tokens_spent=result.tokens_spent,
        seconds=result.seconds,
        measured_now=measured_now,
    )


def is_empty(generation: GenerationRecord) -> bool:
    """Whether the model ended the answer before any text: an end-of-sequence token has none."""
    textless = generation.verdict.tokens == 0 or generation.token_summary.digest == _NO_TEXT
    return generation.failure is None and textless


def is_refused(generation: GenerationRecord) -> bool:
    """Whether the server took no request with this prompt: it may be too long for its context."""
    failure = generation.failure
    return failure is not None and failure.kind.is_refusal and not generation.verdict.tokens


def _empty_note(label: str, count: int) -> tuple[str, ...]:
    if not count:
        return ()
    return (f"{label}: {count} answers are empty. For a pass, a candidate's empty answers count as failed.",)


def read_tokens(generations: Iterable[Generation]) -> tuple[dict[int, str], float | None]:
    """(token id → its most frequent text; tokens a word before the onsets, None without words)."""
    seen: dict[int, Counter[str]] = {}
    tokens = words = 0
    for generation in generations:
        onset = generation.verdict.onset
        healthy = generation.tokens[: None if onset is None else onset - 1]
        tokens += len(healthy)
        words += piece_count("".join(token.text for token in healthy))
        for token in generation.tokens:
            if token.id is not None and token.text.strip():
                seen.setdefault(token.id, Counter())[token.text.strip()] += 1
    texts_of = {each: max(texts, key=lambda t: (texts[t], t)) for each, texts in seen.items()}
    return texts_of, tokens / words if words else None


def counts_note(baseline: float | None, candidate: float | None) -> str | None:
    """That two tokenizers have counted the two sides' tokens, by the tokens a word of each."""
    if not baseline or not candidate:
        return None
    if max(baseline, candidate) < _OTHER_SCALE * min(baseline, candidate):
        return None
    return (
        f"The baseline's answers have {baseline:.2f} tokens a word, the candidate's {candidate:.2f}: "
        f"different tokenizers have counted them, or the texts are of different kinds."
    )


def _incomplete_reason(run: Run) -> str | None:
    if run.status is RunStatus.DONE:
        return None
    return (
        f"run {run.id} is not complete ({run.status}), and the missing part is not random. To continue "
        f"it: stresstest run --resume {run.id}"
    )


def join_samples(first: CheckSample, second: CheckSample) -> CheckSample:
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
        notes=(*first.notes, *second.notes),
        empty=(*first.empty, *second.empty),
        refused=(*first.refused, *second.refused),
        tokens_spent=second.tokens_spent + (first.tokens_spent if first.measured_now else 0),
        seconds=second.seconds + (first.seconds if first.measured_now else 0.0),
        measured_now=True,
    )


@dataclass(slots=True)
class RecordedOutputs:
    """Judged outputs of some files. groups: (model, task) → answers. cut: files not read to their ends.
    malformed: damaged lines that no layout can read.
    lengths: of all texts; places: where they were read."""

    files: tuple[str, ...]
    tally: GroupTally
    groups: Counter[tuple[str | None, ...]]
    damaged: int = 0
    cut: int = 0
    malformed: int = 0
    lengths: TextLengths = field(default_factory=TextLengths)
    places: Counter[str] = field(default_factory=Counter)


def read_recorded(
    files: Sequence[str], job: ScanJob, stopped: Callable[[], bool] = lambda: False
) -> RecordedOutputs:
    """Judge every answer of the files, as `scan` does. stopped: called after each batch.

    Raises UsageError for what cannot be read, InconclusiveError for files without an answer,
    InterruptedEarlyError when stopped.
    """
    records.check_files(list(files))
    if job.tokenizer:
        require_tokenizer(job.tokenizer)
    job = replace(job, keys=GROUP_KEYS)
    found = RecordedOutputs(tuple(files), GroupTally(), Counter())
    for batch in detect_chunks(read_chunks(files, job), job, default_workers()):
        if stopped():
            raise InterruptedEarlyError(
                "Interrupted while reading the recorded outputs; nothing was compared."
            )
        found.damaged += sum(not each.textless for each in batch.damaged)
        found.cut += sum(each.rest for each in batch.damaged)
        found.malformed += sum(each.malformed or each.rest for each in batch.damaged)
        found.lengths.merge(batch.texts.lengths)
        found.places.update(batch.texts.places)
        for each in batch.judged:
            found.tally.add(each)
            found.groups[each.group] += 1
    if not found.tally.requests:
        broken = 0 < found.damaged == found.malformed
        raise InconclusiveError(
            f"No answer to check in {_file_names(files)}.",
            hint=JSON_LINES_HINT if broken else LAYOUT_HINT,
        )
    return found


def sample_of_recorded(found: RecordedOutputs, unit: str, rigor: str, margin: float) -> CheckSample:
    """Recorded outputs on one scale. unit: "tokens", "tokens (estimate)" or "words"."""
    tokens = unit != "words"
    tally = found.tally
    threshold = _withhold_cap(
        certify_outputs(tally.sample, RIGORS[rigor], tokens=tokens), tally.sample, margin, tokens=tokens
    )
    lacking = _missing_reason(found)
    if lacking is not None:
        threshold = without_certificate(threshold, lacking)
    observations = tally.sample.observations(tokens=tokens, doubt_lost=True)
    language = tally.languages.most_common(1)[0][0]
    return CheckSample(
        label=_file_names(found.files),
        subject=Subject(
            _single_value(found, 0), _single_value(found, 1), "" if language == "unknown" else language
        ),
        threshold=threshold,
        safe_max_tokens=safe_max_tokens(threshold, margin) if tokens else None,
        limit_without_cap=limit_without_cap(threshold, margin) if tokens else None,
        observations=tuple(observations),
        by_prompt={o.cluster: o for o in observations if o.cluster},
        symptoms=dict(tally.symptoms.most_common()),
        generations=tally.requests,
        onsets=tally.degenerate,
        files=found.files,
        unit=unit,
        lacking=lacking,
        notes=_notes(found),
        further=tuple(tally.sample.repeated_observations(tokens=tokens)),
        empty=("",) * (tally.missing - tally.lost),
        unread=found.damaged,
        lost=tally.lost,
        tokens_a_word=tally.tokens_a_word,
        languages={name: count for name, count in tally.languages.items() if name != "unknown"},
        complete=tally.sample.complete,
    )


def _withhold_cap(threshold: Threshold, sample: RecordedSample, margin: float, *, tokens: bool) -> Threshold:
    """The threshold, with a reason for no cap where one would cut most of the healthy answers, as `scan`
    has it."""
    safe = safe_max_tokens(threshold, margin)
    cut = None if safe is None or not tokens else sample.share_cut(safe, tokens=True)
    if cut is None or cut <= MOST_HEALTHY_CUT:
        return threshold
    why = f"a cap of {safe:,} would cut {percent(cut, 1)} of the healthy answers"
    return replace(threshold, withheld=why)


def _missing_reason(found: RecordedOutputs) -> str | None:
    """Why these outputs decide nothing: nobody knows how many there are, or more than half are missing, which
    is the rule of a run that lost so many of its generations."""
    if found.cut:
        return f"{_file_names(found.files)} could not be read to the end: what is missing may have failed."
    for note in cut_notes(found.lengths.limits()):
        return f"{_file_names(found.files)}: {note[0].lower()}{note[1:].rstrip('.')}"
    lines, missing = found.tally.requests + found.damaged, found.tally.missing + found.damaged
    if 2 * missing <= lines:
        return None
    return (
        f"{missing} of {lines} lines of {_file_names(found.files)} have no answer, an empty one, or "
        f"one that the service gave up: more than half of the sample is missing, and the rest is not "
        f"representative."
    )


def _single_value(found: RecordedOutputs, place: int) -> str:
    """The model or task of the records, where they agree on one; else nothing is known of it."""
    named = {group[place] for group in found.groups}
    return str(named.pop()) if len(named) == 1 and None not in named else ""


def _notes(found: RecordedOutputs) -> tuple[str, ...]:
    notes = []
    for place, what in enumerate(GROUP_KEYS):
        named = sorted({str(group[place]) for group in found.groups if group[place] is not None})
        if len(named) > 1:
            some = ", ".join(named[:MAX_NAMED]) + (", …" if len(named) > MAX_NAMED else "")
            notes.append(f"{_file_names(found.files)} mixes {len(named)} {what}s: {some}.")
    tally = found.tally
    if found.damaged:
        notes.append(f"{_file_names(found.files)}: {found.damaged} lines have no answer.")
    if tally.lost:
        notes.append(
            f"{_file_names(found.files)}: {tally.lost} answers were given up by the service or never started."
        )
    if tally.caps_refute_counts:
        notes.append(
            f"{_file_names(found.files)}: {tally.beyond_cap} answers have more tokens counted than their "
            f"max_tokens. The counts are another tokenizer's, or of several calls, and are not used."
        )
    notes += _empty_note(_file_names(found.files), tally.empty)
    sample = tally.sample
    for note in prompt_notes(
        found.places,
        answers=len(sample),
        promptless=sample.promptless,
        prompts=sample.prompts or 0,
        questions=sample.questions,
    ):
        notes.append(f"{_file_names(found.files)}: {note[0].lower()}{note[1:]}")
    if tally.sample.one_text:
        notes.append(
            f"{_file_names(found.files)}: {tally.sample.one_text} answers are one short text, to many "
            f"prompts: a refusal, or words in place of an answer. What they stand for may have failed."
        )
    elif tally.sample.brief:
        notes.append(
            f"{_file_names(found.files)}: {tally.sample.brief} answers have a few words at most, beside "
            f"longer ones. If they are labels or scores, leave them out."
        )
    if not found.tally.sample.complete:
        notes.append(f"{_file_names(found.files)}: the statistics use a random part of its prompts.")
    return tuple(notes)


def _file_names(files: Sequence[str]) -> str:
    return ", ".join(files[:MAX_NAMED]) + (f" and {len(files) - MAX_NAMED} more" if files[MAX_NAMED:] else "")
