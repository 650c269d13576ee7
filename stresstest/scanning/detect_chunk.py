"""One chunk of recorded lines to verdicts: what a worker of `scan` does, in its own process.

Everything here is a function of the chunk and the job, so that any number of workers gives one answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import accumulate
from typing import Any

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.identification.inference import infer_group_language, infer_language
from stresstest.detectors.identification.names import read_language_name
from stresstest.detectors.languages.named import NOT_NAMED, NamedLanguages, named_languages
from stresstest.detectors.registry import symptom_info
from stresstest.detectors.screening.recorded import RecordedText, detect_many
from stresstest.detectors.screening.screen import OPEN_TAIL
from stresstest.detectors.suite import detect_tokens
from stresstest.detectors.text.features import piece_ends
from stresstest.detectors.text.thinking import thinking_end
from stresstest.detectors.text.tokens import count_words, text_tokens
from stresstest.economics.timeline import has_repeated_tail
from stresstest.model import GenerationVerdict, SymptomKind, Token
from stresstest.model.scanned import OTHER_LANGUAGE, UNKNOWN_NAME, ScanExample, ScanVerdict
from stresstest.model.tokens import MIN_UNSEEN_TOKENS
from stresstest.model.words import REPETITION_REASON
from stresstest.records import DamagedLine, FieldMapping, Record, RecordChunk, UnreadableError, parse_line
from stresstest.records.record import (
    LENGTH,
    LOST_REASONS,
    STOP,
    TextlessError,
    normalize_finish_reason,
)
from stresstest.scanning.position_scale import (
    PositionScale,
    is_implausible,
    length_class,
    needs_text_positions,
)
from stresstest.scanning.texts_read import TextsRead

SHOWN_BEFORE, SHOWN_AFTER = 240, 480
"""Characters around an onset that are kept of the worst outputs."""

_LONGEST_VALUE = 512
"""Characters of a group's key."""
_FIRST_ANSWERS = 40
"""First answers of a group from which its language is inferred."""
_LATE_ANSWERS = (3, 12)
"""Fewest and most that tell it in a chunk, of a group that begins after the file's first."""

_ENDED_CLEANLY = "closed"
"""For the suite: no reason is known, but the text ends like one that ended by itself. Nothing is left open;
a truncation is concluded from known reasons only, and this word is none of them."""
_CHOSEN = (STOP, _ENDED_CLEANLY)
_STATED = ("record", "given")
"""Sources of a language that was stated. A prompt that names another one may be forbidding it; where the
language is a guess from answers, the prompt knows better."""
_TERMINAL = tuple(".!?…؟।۔。！？｡:;\"'»”’)]}*_`」』>~|")

GroupKey = tuple[str | None, ...]
GroupLanguages = dict[GroupKey, str]
"""What each group is written in."""


@dataclass(frozen=True, slots=True)
class ScanJob:
    """What every worker needs to know. keys: to group by. tokenizer: a file. by_length: a key.

    extract: makes of each answer and its verdict what a feature needs of them. It is called in the worker, so
    that no record is parsed twice or sent back whole, and must therefore be picklable.
    """

    mapped: FieldMapping = field(default_factory=FieldMapping)
    keys: tuple[str, ...] = ()
    language: str | None = None
    tokenizer: str | None = None
    by_length: str | None = None
    show: bool = False
    extract: Callable[[Record, ScanVerdict], Any] | None = None


@dataclass(frozen=True, slots=True)
class ParsedChunk:
    """The records of a chunk. damaged: its lines that hold none. The rest as in `RecordChunk`."""

    records: tuple[Record, ...]
    damaged: tuple[DamagedLine, ...]
    done: int
    source: str
    size: int


@dataclass(frozen=True, slots=True)
class ChunkVerdicts:
    """A chunk's verdicts in order, and its damage. text_bytes: of the answers' text, in UTF-8.
    texts: where they were read. extracted: what `ScanJob.extract` made of each answer, in order; empty
    without it."""

    judged: tuple[ScanVerdict, ...]
    damaged: tuple[DamagedLine, ...]
    text_bytes: int
    done: int
    source: str
    texts: TextsRead
    extracted: tuple[Any, ...] = ()


def detect_chunk(
    chunk: RecordChunk | ParsedChunk, job: ScanJob, languages: Mapping[GroupKey, str]
) -> ChunkVerdicts:
    """Judge every answer of a chunk. languages: what is wanted in a group, where its first answers tell; of a
    group that begins later, those of this chunk do."""
    parsed = parse_chunk(chunk, job) if isinstance(chunk, RecordChunk) else chunk
    found = parsed.records
    if job.language is None:
        languages = {**infer_languages(found, job, languages, *_LATE_ANSWERS), **languages}
    size = sum(_utf8_size(record.text) + _utf8_size(record.reasoning) for record in found)
    verdicts = tuple(detect_records(found, job, languages))
    extracted = () if job.extract is None else tuple(map(job.extract, found, verdicts))
    texts = TextsRead.of(found)
    return ChunkVerdicts(verdicts, parsed.damaged, size, parsed.done, parsed.source, texts, extracted)


def parse_chunk(chunk: RecordChunk, job: ScanJob) -> ParsedChunk:
    """The records of a chunk, and its damage in the order of its lines."""
    damaged = list(chunk.damaged)
    found: list[Record] = []
    for line, raw in chunk.items:
        try:
            found += parse_line(raw, chunk.source, line, job.mapped)
        except UnreadableError as error:
            textless = isinstance(error, TextlessError)
            damaged.append(DamagedLine(chunk.source, line, str(error), textless))
    damaged.sort(key=lambda each: each.line)
    return ParsedChunk(tuple(found), tuple(damaged), chunk.done, chunk.source, chunk.size)


def _utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def group_key(record: Record, keys: Sequence[str]) -> GroupKey:
    """The values of the keys to group by; None for a key that the record does not have."""
    return tuple(_shorten(_value(record, key)) for key in keys)


def _shorten(value: str | None) -> str | None:
    """A value; of a long one, which every answer of its group would hold, the beginning and a digest."""
    if value is None or len(value) <= _LONGEST_VALUE:
        return value
    digest = blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{value[: _LONGEST_VALUE - 18]}… {digest}"


def infer_languages(
    found: Iterable[Record],
    job: ScanJob,
    known: Collection[GroupKey],
    least: int = 1,
    most: int = _FIRST_ANSWERS,
) -> GroupLanguages:
    """Group → the language of its first answers, so many, for groups not known yet that agree."""
    texts: dict[GroupKey, list[str]] = {}
    for record in found:
        group = group_key(record, job.keys)
        if group not in known and not (record.language and read_language_name(record.language)):
            there = texts.setdefault(group, [])
            if len(there) < most:
                there.append(_answer_text(record))
    told = {group: infer_group_language(each) for group, each in texts.items() if len(each) >= least}
    return {group: language for group, language in told.items() if language is not None}


def _value(record: Record, key: str) -> str | None:
    if key in ("id", "model", "task", "language", "finish_reason", "source"):
        return record.extra.get(key) or getattr(record, key)
    if key in ("max_tokens", "prompt_tokens", "completion_tokens"):
        value = getattr(record, key)
        return None if value is None else str(value)
    return record.prompt_key if key == "prompt" else record.extra.get(key)


def detect_records(
    records: Sequence[Record], job: ScanJob, languages: Mapping[GroupKey, str]
) -> list[ScanVerdict]:
    """The suite's verdicts on some records, on the scales that each can be measured in."""
    wanted = [wanted_language(each, job, languages.get(group_key(each, job.keys))) for each in records]
    verdicts = _detect_all(records, [language for language, _ in wanted])
    return [build_verdict(*row, job) for row in zip(records, verdicts, wanted, strict=True)]


def build_verdict(
    record: Record, verdict: GenerationVerdict, wanted: tuple[str | None, str | None], job: ScanJob
) -> ScanVerdict:
    """What is kept of an answer's verdict. wanted: the language that the suite judged it against, and its
    source, as `wanted_language` says."""
    language, source = wanted
    group = group_key(record, job.keys)
    if verdict.symptom is SymptomKind.TRUNCATION and lacks_its_end(record):
        record = replace(record, finish_reason=None)
        (verdict,) = _detect_all([record], [language])
    if source not in _STATED and verdict.symptom and symptom_info(verdict.symptom).by_language:
        own, own_source = _infer_own_language(record) if source == "group" else (None, "")
        named = named_languages(record.prompt_text)
        if named != NOT_NAMED:
            verdict = _detect_all([record], [language], named)[0]
        # Of an answer in several languages nobody knows the one wanted: healthy in one of them is healthy.
        if own and own != language and (named == NOT_NAMED or verdict.degenerate):
            language, source = own, own_source
            verdict = _detect_all([record], [own], named)[0]
    capped, end = _was_capped(record), _finish_reason(record)
    cut = capped is True or not record.has_text or (record.finish_reason is None and end is None)
    if cut and not verdict.degenerate:
        # A cap cuts healthy and failing answers alike: what it cut counts as observed as far as an alarm
        # may be late, whether something is open there or not.
        verdict = replace(verdict, observed=min(verdict.observed, max(verdict.tokens - OPEN_TAIL, 0)))
    placed = not _is_plain(record) or needs_text_positions(record, verdict, job.tokenizer)
    scale = PositionScale.of(record, _token_ends(record) if placed else (), job.tokenizer)
    # Of an answer that ended by itself, the log may have left healthy reasoning out.
    beyond = scale.is_overcounted and not verdict.degenerate and (capped is True or end not in _CHOSEN)
    unseen = beyond or _lacks_its_text(record, capped)
    judged = ScanVerdict(
        id=record.id,
        group=group,
        words=scale.word_extent(verdict),
        tokens=scale.token_extent(verdict),
        token_source=scale.source,
        symptom=verdict.symptom,
        onset_char=scale.char_offset(verdict.onset),
        alarm_char=scale.char_offset(verdict.alarm),
        copy_chars=_copy_chars(scale, verdict),
        recovered=verdict.recovered,
        loops_to_end=verdict.loops_to_end,
        score=round(_score(verdict), 4),
        capped=capped,
        tail_repeats=has_repeated_tail(record.text),
        ended=not (verdict.degenerate or unseen) and capped is not True and end in _CHOSEN,
        unresolved=_is_unresolved(record, verdict, cut) or (unseen and not verdict.degenerate),
        unseen=unseen,
        lost=_was_lost(record, verdict),
        stop_unsure=record.stop_unsure,
        repetition=normalize_finish_reason(record.finish_reason) == REPETITION_REASON,
        cluster=_stable_hash(record.prompt_key),
        digest=_stable_hash(record.reasoning + record.text),
        identity=record.row_key or _stable_hash(f"{record.source}:{record.line}"),
        length_class=length_class(record, job.by_length),
        language=language,
        language_source=source,
        onset_in=verdict.onset_in,
        reasoned=verdict.reasoning > 0,
        answered=verdict.tokens > verdict.reasoning,
        model=None if "model" in job.keys else _shorten(record.model),
    )
    return replace(judged, shown=_build_example(record, judged, verdict)) if job.show else judged


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
        RecordedText(each.text, spec, _finish_reason(each))
        for each, spec in zip(records, specs, strict=True)
        if _is_plain(each)
    ]
    quick = iter(detect_many(answers))
    return [
        next(quick) if _is_plain(each) else detect_tokens(_tokens(each), spec, _finish_reason(each))
        for each, spec in zip(records, specs, strict=True)
    ]


def _is_plain(record: Record) -> bool:
    return record.tokens is None and not record.reasoning


def _finish_reason(record: Record) -> str | None:
    """The finish reason passed to the suite; a text that ends in good order for no known reason is closed."""
    known = normalize_finish_reason(record.finish_reason)
    if record.stop_unsure and known == REPETITION_REASON:
        return None  # its text alone suggests it
    if known is None:
        return None if _was_capped(record) or _ends_mid_sentence(record.text) else _ENDED_CLEANLY
    return "abort" if known in LOST_REASONS else known


def _answer_text(record: Record) -> str:
    """The text without reasoning, which may be in any language."""
    return record.text[thinking_end(record.text) :]


def _infer_own_language(record: Record) -> tuple[str | None, str]:
    """The language that an answer begins in, and whether its prompt is in that one too.

    A group's language is a guess from other answers; where this one plainly begins otherwise, nobody knows
    that another one was wanted of it.
    """
    own = infer_language(_answer_text(record))
    asked = infer_language(record.prompt_text) if own and record.prompt_text else None
    return own, "prompt" if own == asked else OTHER_LANGUAGE


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


def wanted_language(record: Record, job: ScanJob, of_group: str | None) -> tuple[str | None, str | None]:
    """The language that the answer is wanted in, and its source: record, user, group, or its own start."""
    stated = read_language_name(record.language) if record.language else None
    if stated:
        return stated, "record"
    if job.language:
        return job.language, "given"
    source = UNKNOWN_NAME if record.language else "group" if of_group else "answer"
    found = of_group or infer_language(_answer_text(record))
    return (found, source) if found else (None, None)


def _was_capped(record: Record) -> bool | None:
    """Whether max_tokens ended it: by the finish reason, else by the counts; None where nobody knows."""
    known = normalize_finish_reason(record.finish_reason)
    if known is not None:
        return known == LENGTH
    if record.max_tokens is not None and record.completion_tokens is not None:
        return record.completion_tokens >= record.max_tokens
    return None


def _is_unresolved(record: Record, verdict: GenerationVerdict, cut: bool) -> bool:
    """Whether it ended with a candidate open, so that nobody knows whether it was failing there.

    Any candidate after an end of its own, which a failing answer reaches with one and a healthy one with
    none, or after a loss, which may be the failure's doing. Where it was cut, by its cap or by what nothing
    tells, one that is open for longer than an alarm may be late.
    """
    if verdict.degenerate:
        return False
    usual = OPEN_TAIL if cut else 0
    return (
        verdict.tokens - verdict.observed > usual
        or normalize_finish_reason(record.finish_reason) == REPETITION_REASON
    )


def _lacks_its_text(record: Record, capped: bool | None) -> bool:
    """Whether it has no text although tokens were spent, up to a cap or more than special ones, or although
    nothing says how it ended: where reasoning is left out, that is what is left of a loop in it."""
    if not record.has_text:
        return True
    if (record.text or record.reasoning).strip() or record.tokens is not None or record.calls:
        return False
    if record.completion_tokens is None:
        return capped is True or record.finish_reason is None
    return capped is True or record.completion_tokens >= MIN_UNSEEN_TOKENS


def lacks_its_end(record: Record) -> bool:
    """Whether the log kept less text than the answer had: where the text ends the answer did not."""
    return record.completion_tokens is not None and is_implausible(
        record.completion_tokens, record.reasoning + record.text
    )


def _was_lost(record: Record, verdict: GenerationVerdict) -> bool:
    """Whether the service gave it up before it failed; nothing at all, without an end of its own, is that."""
    known = normalize_finish_reason(record.finish_reason)
    nothing = not verdict.tokens and known != STOP
    return not verdict.degenerate and (nothing or known in LOST_REASONS)


def _ends_mid_sentence(text: str) -> bool:
    """Whether a text stops in mid-sentence: no closing mark, and no closing words on a line of their own."""
    text = text.rstrip()
    last = text[text.rfind("\n") + 1 :]
    signed = len(last.split()) <= 4 and not any(c.isdigit() for c in last) and last[:1].isalpha()
    return bool(text) and not text.endswith(_TERMINAL) and not (signed and len(last) < len(text))


def _stable_hash(value: str | None) -> int:
    """A 64-bit name that is the same in every process; 0 for nothing."""
    if not value:
        return 0
    raw = blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(raw, "big") or 1


_TOKENS_REPEAT = re.compile(r"(\d+) tokens repeat ")


def _count_in_words(summary: str, text: str, at: int) -> str:
    """The summary of a loop in plain text, whose tokens are words and signs: only its words are counted.

    at: where its second copy begins, in characters.
    """
    found = _TOKENS_REPEAT.match(summary)
    if found is None:
        return summary
    words = count_words(text, at, int(found[1]))
    if not words:
        return summary.replace(" tokens repeat ", " signs repeat ", 1)
    counted = "1 word repeats" if words == 1 else f"{words:,} words repeat"
    return f"{counted} {summary[found.end() :]}"


def _build_example(record: Record, judged: ScanVerdict, verdict: GenerationVerdict) -> ScanExample | None:
    if judged.symptom is None:
        return None
    extent = judged.tokens or judged.words
    at = judged.onset_char
    text = record.text if at is not None else record.reasoning
    at = at or 0
    summary = next((s.summary for s in verdict.symptoms if s.confirmed and s.kind is judged.symptom), "")
    if record.tokens is None and judged.symptom is SymptomKind.LOOP:
        summary = _count_in_words(summary, text, at)
    return ScanExample(
        id=judged.id,
        symptom=judged.symptom,
        score=judged.score,
        wasted=extent.length - (extent.onset or extent.length) + 1,
        before=text[max(0, at - SHOWN_BEFORE) : at],
        after=text[at : at + SHOWN_AFTER],
        summary=summary[:400],
    )
