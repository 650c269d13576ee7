"""One recorded answer to its verdict, on the scales that it can be measured in."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import accumulate

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.languages.named import NOT_NAMED, NamedLanguages
from stresstest.detectors.registry import symptom_info
from stresstest.detectors.screening.recorded import RecordedText, detect_many
from stresstest.detectors.screening.screen import OPEN_TAIL
from stresstest.detectors.suite import detect_tokens
from stresstest.detectors.text.features import piece_ends
from stresstest.detectors.text.tokens import text_tokens
from stresstest.economics.timeline import has_repeated_tail
from stresstest.model import GenerationVerdict, SymptomKind, Token
from stresstest.model.scanned import ScanVerdict
from stresstest.model.texts.times_and_ids import without_times_and_ids
from stresstest.records import Record
from stresstest.records.record import LONG_ANSWER
from stresstest.scanning.answer.endings import (
    CHOSEN,
    counted_to_cap,
    ended_as_repetition,
    finish_reason,
    is_unresolved,
    lacks_its_end,
    lacks_its_text,
    was_capped,
    was_cut_repeating,
    was_lost,
)
from stresstest.scanning.answer.examples import build_example
from stresstest.scanning.answer.languages import (
    STATED,
    infer_own_language,
    languages_named,
    wanted_language,
)
from stresstest.scanning.densities import HealthyAnswers
from stresstest.scanning.job import GroupKey, ScanJob, group_key, shorten
from stresstest.scanning.position_scale import (
    ESTIMATE,
    SUMS,
    PositionScale,
    counts_are_sums,
    length_class,
    needs_text_positions,
)


def detect_records(
    records: Sequence[Record], job: ScanJob, languages: Mapping[GroupKey, str]
) -> list[ScanVerdict]:
    """The suite's verdicts on some records, on the scales that each can be measured in."""
    wanted = [wanted_language(each, job, languages.get(group_key(each, job.keys))) for each in records]
    verdicts = _detect_all(records, [language for language, _ in wanted])
    healthy = HealthyAnswers(records, verdicts, [language for language, _ in wanted])
    sums = job.tokenizer is None and counts_are_sums(records, verdicts)
    return [
        build_verdict(*row, job, healthy, sums=sums) for row in zip(records, verdicts, wanted, strict=True)
    ]


def build_verdict(
    record: Record,
    verdict: GenerationVerdict,
    wanted: tuple[str | None, str | None],
    job: ScanJob,
    healthy: HealthyAnswers,
    *,
    sums: bool = False,
) -> ScanVerdict:
    """What is kept of an answer's verdict. wanted: the language that the suite judged it against, and its
    source, as `wanted_language` says. healthy: of its log. sums: the counts of the log are sums of
    running counts."""
    language, source = wanted
    unknown = False
    group = group_key(record, job.keys)
    sums = sums and record.tokens is None and record.completion_tokens is not None and record.text != ""
    if sums:
        record = replace(record, completion_tokens=None)
    if verdict.symptom is SymptomKind.TRUNCATION and lacks_its_end(record):
        record = replace(record, finish_reason=None)
        (verdict,) = _detect_all([record], [language])
    if source not in STATED and verdict.symptom and symptom_info(verdict.symptom).by_language:
        own = infer_own_language(record, language) if language and source == "group" else wanted
        named = languages_named(record)
        if named != NOT_NAMED:
            verdict = _detect_all([record], [language], named)[0]
        # Of an answer in several languages nobody knows the one wanted: healthy in one of them is healthy.
        if own != wanted and (named == NOT_NAMED or verdict.degenerate):
            language, source = own
            suspected, verdict = verdict, _detect_all([record], [language], named)[0]
            if language is None and suspected.degenerate and not verdict.degenerate:
                unknown = True
                verdict = replace(verdict, observed=min(verdict.observed, suspected.observed))
    capped, end = was_capped(record), finish_reason(record)
    cut = capped is True or not record.has_text or (record.finish_reason is None and end is None)
    if cut and not verdict.degenerate:
        # A cap cuts healthy and failing answers alike: what it cut counts as observed as far as an alarm
        # may be late, whether something is open there or not.
        verdict = replace(verdict, observed=min(verdict.observed, max(verdict.tokens - OPEN_TAIL, 0)))
    if record.hole is not None:
        verdict = _as_far_as_the_hole(record, verdict)
    placed = not _is_plain(record) or needs_text_positions(record, verdict, job.tokenizer)
    scale = PositionScale.of(
        record, _token_ends(record) if placed else (), job.tokenizer, healthy.like(record, wanted[0])
    )
    # Of an answer that ended by itself, the log may have left healthy reasoning out.
    beyond = scale.is_overcounted and not verdict.degenerate and (capped is True or end not in CHOSEN)
    unattributed = record.several_turns and not verdict.degenerate
    if unattributed:
        verdict = replace(verdict, observed=0)
    shown_to_fail = record.hole is not None and verdict.degenerate
    unseen = (beyond or lacks_its_text(record, capped)) and not shown_to_fail
    copied = cut and was_cut_repeating(record, verdict)
    judged = ScanVerdict(
        id=record.id,
        group=group,
        words=scale.word_extent(verdict),
        tokens=scale.token_extent(verdict),
        token_source=SUMS if sums else scale.source,
        symptom=verdict.symptom,
        onset_char=scale.char_offset(verdict.onset),
        alarm_char=scale.char_offset(verdict.alarm),
        copy_chars=_copy_chars(scale, verdict),
        recovered=verdict.recovered,
        loops_to_end=verdict.loops_to_end,
        score=round(_score(verdict), 4),
        capped=capped,
        counted_to_cap=counted_to_cap(record) if scale.source == ESTIMATE else None,
        ended_looping=_ended_looping(record, capped),
        ended=not (verdict.degenerate or unseen) and capped is not True and end in CHOSEN,
        unresolved=is_unresolved(record, verdict, cut)
        or copied
        or unknown
        or unattributed
        or (unseen and not verdict.degenerate),
        unseen=unseen,
        unknown_language=unknown and not unseen,
        several_turns=unattributed and not (unseen or unknown),
        lost=was_lost(record, verdict),
        stop_unsure=record.stop_unsure,
        repetition=ended_as_repetition(record),
        copied_end=copied,
        cluster=_stable_hash(record.prompt_key),
        question=_stable_hash(without_times_and_ids(record.prompt_text)),
        digest=_stable_hash(_compared_text(record)),
        identity=record.row_key or _stable_hash(f"{record.source}:{record.line}"),
        request=_stable_hash(
            f"{record.trace} {_compared_text(record)}" if record.trace and record.text else None
        ),
        length_class=length_class(record, job.by_length),
        language=language,
        language_source=source,
        onset_in=verdict.onset_in,
        reasoned=verdict.reasoning > 0,
        answered=verdict.tokens > verdict.reasoning,
        model=None if "model" in job.keys else shorten(record.model),
    )
    return replace(judged, shown=build_example(record, judged, verdict)) if job.show else judged


def _as_far_as_the_hole(record: Record, verdict: GenerationVerdict) -> GenerationVerdict:
    """The verdict on an answer with a part missing. Nobody knows where what fails behind it has begun: at
    the latest where an alarm could still come before it."""
    assert record.hole is not None
    known = max(bisect_right(_token_ends(record), record.hole) - OPEN_TAIL, 0)
    if verdict.onset is None:
        return replace(verdict, observed=min(verdict.observed, known))
    onset = min(verdict.onset, known + 1)
    return replace(verdict, onset=onset, observed=onset - 1)


def _ended_looping(record: Record, capped: bool | None) -> bool | None:
    """By DharmaOCR's rule; None too where the end of what the cap cut is not in the log."""
    if not capped or has_repeated_tail(record.text):
        return capped
    return False if record.has_text else None


def _copy_chars(scale: PositionScale, verdict: GenerationVerdict) -> int:
    """Characters of one copy of what repeats, from the onset on; 0 where nothing does."""
    if verdict.onset is None or not verdict.copy_length:
        return 0
    after = min(verdict.onset + verdict.copy_length, verdict.tokens)
    begins, ends = scale.char_offset(verdict.onset), scale.char_offset(after)
    return 0 if begins is None or ends is None else ends - begins


def _detect_all(
    records: Sequence[Record], languages: Sequence[str | None], named: NamedLanguages = NOT_NAMED
) -> list[GenerationVerdict]:
    """In order; plain texts by the fast path, all together. named: by their prompts."""
    specs = [
        DetectorSpec(
            language=language,
            prompt_text=record.prompt_text,
            named=named,
            requested_text=record.requested_text,
        )
        for record, language in zip(records, languages, strict=True)
    ]
    answers = [
        RecordedText(each.text, spec, finish_reason(each))
        for each, spec in zip(records, specs, strict=True)
        if _is_plain(each)
    ]
    quick = iter(detect_many(answers))
    return [
        next(quick) if _is_plain(each) else detect_tokens(_tokens(each), spec, finish_reason(each))
        for each, spec in zip(records, specs, strict=True)
    ]


def _is_plain(record: Record) -> bool:
    return record.tokens is None and not record.reasoning


def _score(verdict: GenerationVerdict) -> float:
    """The verdict's score, without warnings of structure: a recorded text was asked for none."""
    if verdict.degenerate:
        return verdict.score
    warnings = (s for s in verdict.symptoms if not symptom_info(s.kind).needs_units)
    return max((s.score / 2 for s in warnings), default=0.0)


def _tokens(record: Record) -> list[Token]:
    """The record's own tokens, else its words; reasoning first."""
    if record.tokens is not None:
        return list(record.tokens)
    thought = [replace(token, reasoning=True) for token in text_tokens(record.reasoning)]
    return thought + text_tokens(record.text)


def _token_ends(record: Record) -> list[int]:
    """The characters up to and with each position that was passed to the suite."""
    if _is_plain(record):
        return piece_ends(record.text)
    return list(accumulate(len(token.text) for token in _tokens(record)))


def _compared_text(record: Record) -> str:
    """What two lines of one answer have in common: one logger strips it, another leaves its reasoning out. A
    short one may be a message with the number of its request."""
    text = " ".join(record.text.split())
    if len(text) >= LONG_ANSWER:
        return text
    return " ".join(f"{record.reasoning} {without_times_and_ids(text)}".split())


def _stable_hash(value: str | None) -> int:
    """A 64-bit name that is the same in every process; 0 for nothing."""
    if not value:
        return 0
    raw = blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(raw, "big") or 1
