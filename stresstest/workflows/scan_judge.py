"""One chunk of recorded lines to verdicts: what a worker of `scan` does, in its own process.

Everything here is a function of the chunk and the job, so that any number of workers gives one answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import accumulate
from typing import TYPE_CHECKING

from stresstest.detectors import PanelSpec, can_judge
from stresstest.detectors.features import piece_ends
from stresstest.detectors.panel import judge_tokens, text_tokens
from stresstest.detectors.recorded import Recorded, judge_many
from stresstest.detectors.screen import OPEN_TAIL
from stresstest.economics.spans import tail_repeats
from stresstest.model import SymptomKind, Token, Verdict
from stresstest.model.scanned import Judged, Shown
from stresstest.records import Chunk, Damaged, Mapped, Record, TextlessError, UnreadableError, records
from stresstest.records.finish import LENGTH, LOST, REPETITION, STOP, ending
from stresstest.workflows.scan_scale import Scale, length_class, needs_places

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOWN_BEFORE, SHOWN_AFTER = 240, 480
"""Characters around an onset that are kept of the worst outputs."""

OTHER_LANGUAGE = "other language than the group's"
"""Source of the language of an answer that plainly begins in another one than its group."""

_FIRST = 40
"""First answers of a group from which its language is told."""
_LATE = (3, 12)
"""Fewest and most that tell it in a chunk, of a group that begins after the file's first."""

_CLOSED = "closed"
"""For the panel: no reason is known, but the text ends like one that ended by itself. Nothing is left open;
a truncation is concluded from known reasons only, and this word is none of them."""
_CHOSEN = (STOP, _CLOSED)
_TERMINAL = tuple(".!?…؟।۔。！？｡:;\"'»”’)]}*_`」』>~|")

_OF_ANOTHER_LANGUAGE = (SymptomKind.LANGUAGE_DRIFT, SymptomKind.GIBBERISH)
"""What a healthy text shows that is judged in a language it is not in."""

Group = tuple[str | None, ...]
Languages = dict[Group, str]
"""What each group is written in."""


@dataclass(frozen=True, slots=True)
class Job:
    """What every worker needs to know. keys: to group by. tokenizer: a file. by_length: a key."""

    mapped: Mapped = field(default_factory=Mapped)
    keys: tuple[str, ...] = ()
    language: str | None = None
    tokenizer: str | None = None
    by_length: str | None = None
    show: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """A chunk's verdicts in order, and its damage. text_bytes: of the answers' text, in UTF-8."""

    judged: tuple[Judged, ...]
    damaged: tuple[Damaged, ...]
    text_bytes: int
    done: int
    source: str


def judge_chunk(chunk: Chunk, job: Job, languages: Mapping[Group, str]) -> Batch:
    """Judge every answer of a chunk. languages: what is wanted in a group, where its first answers tell; of a
    group that begins later, those of this chunk do."""
    damaged = list(chunk.damaged)
    found = list(readable(chunk, job, damaged))
    if job.language is None:
        languages = {**languages_in(found, job, languages, *_LATE), **languages}
    size = sum(_bytes(record.text) + _bytes(record.reasoning) for record in found)
    damaged.sort(key=lambda each: each.line)
    return Batch(tuple(judge_records(found, job, languages)), tuple(damaged), size, chunk.done, chunk.source)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def readable(chunk: Chunk, job: Job, damaged: list[Damaged]) -> Iterator[Record]:
    """The records of a chunk; lines without one are added to `damaged`."""
    for line, raw in chunk.items:
        try:
            yield from records(raw, chunk.source, line, job.mapped)
        except UnreadableError as error:
            textless = isinstance(error, TextlessError)
            damaged.append(Damaged(chunk.source, line, str(error), textless))


def group_of(record: Record, keys: Sequence[str]) -> Group:
    """The values of the keys to group by; None for a key that the record does not have."""
    return tuple(_value(record, key) for key in keys)


def languages_in(
    found: Iterable[Record], job: Job, known: Collection[Group], least: int = 1, most: int = _FIRST
) -> Languages:
    """Group → the language of its first answers, so many, for groups not known yet that agree."""
    from stresstest.detectors.infer import infer_group

    texts: dict[Group, list[str]] = {}
    for record in found:
        group = group_of(record, job.keys)
        if group not in known and record.language is None:
            there = texts.setdefault(group, [])
            if len(there) < most:
                there.append(record.text)
    told = {group: infer_group(each) for group, each in texts.items() if len(each) >= least}
    return {group: language for group, language in told.items() if language is not None}


def languages_of(chunk: Chunk, job: Job, known: Collection[Group]) -> Languages:
    """:func:`languages_in` of a chunk that is not read yet."""
    return languages_in(readable(chunk, job, []), job, known)


def _value(record: Record, key: str) -> str | None:
    if key in ("id", "model", "task", "language", "finish_reason", "source"):
        return record.extra.get(key) or getattr(record, key)
    if key in ("max_tokens", "prompt_tokens", "completion_tokens"):
        value = getattr(record, key)
        return None if value is None else str(value)
    return record.prompt_key if key == "prompt" else record.extra.get(key)


def judge_records(records: Sequence[Record], job: Job, languages: Mapping[Group, str]) -> list[Judged]:
    """The panel's verdicts on some records, on the scales that each can be measured in."""
    wanted = [wanted_language(each, job, languages.get(group_of(each, job.keys))) for each in records]
    verdicts = _verdicts(records, [language for language, _ in wanted])
    return [_judged(*row, job) for row in zip(records, verdicts, wanted, strict=True)]


def _judged(record: Record, verdict: Verdict, wanted: tuple[str | None, str | None], job: Job) -> Judged:
    language, source = wanted
    group = group_of(record, job.keys)
    if source == "group" and verdict.symptom in _OF_ANOTHER_LANGUAGE:
        own, own_source = _language_of_its_own(record)
        if own and own != language:
            language, source, verdict = own, own_source, _verdicts([record], [own])[0]
    capped, end = _capped(record), _end(record)
    cut = capped is True or (record.finish_reason is None and end is None)
    if cut and not verdict.degenerate:
        # A cap cuts healthy and failing answers alike: what it cut counts as observed as far as an alarm
        # may be late, whether something is open there or not.
        verdict = replace(verdict, observed=min(verdict.observed, max(verdict.tokens - OPEN_TAIL, 0)))
    placed = not _plain(record) or needs_places(record, verdict, job.tokenizer)
    scale = Scale.of(record, _ends(record) if placed else (), job.tokenizer)
    judged = Judged(
        id=record.id,
        group=group,
        words=scale.words(verdict),
        tokens=scale.tokens(verdict),
        token_source=scale.source,
        symptom=verdict.symptom,
        onset_char=scale.char(verdict.onset),
        alarm_char=scale.char(verdict.alarm),
        recovered=verdict.recovered,
        loops_to_end=verdict.loops_to_end,
        score=round(_score(verdict), 4),
        capped=capped,
        tail_repeats=tail_repeats(record.text),
        ended=not verdict.degenerate and capped is not True and end in _CHOSEN,
        unresolved=_unresolved(record, verdict, cut),
        lost=_lost(record, verdict),
        cluster=_name(record.prompt_key),
        digest=_name(record.reasoning + record.text),
        length_class=length_class(record, job.by_length),
        language=language,
        language_source=source,
    )
    return replace(judged, shown=_shown(record, judged, verdict)) if job.show else judged


def _verdicts(records: Sequence[Record], languages: Sequence[str | None]) -> list[Verdict]:
    """In order; plain texts by the fast path, all together."""
    specs = [
        PanelSpec(language=language, prompt_text=record.prompt_text)
        for record, language in zip(records, languages, strict=True)
    ]
    answers = [
        Recorded(each.text, spec, _end(each))
        for each, spec in zip(records, specs, strict=True)
        if _plain(each)
    ]
    quick = iter(judge_many(answers))
    return [
        next(quick) if _plain(each) else judge_tokens(_tokens(each), spec, _end(each))
        for each, spec in zip(records, specs, strict=True)
    ]


def _plain(record: Record) -> bool:
    return record.tokens is None and not record.reasoning


def _end(record: Record) -> str | None:
    """How it ended, as the panel is told: a text that ends in good order, for no known reason, is closed."""
    known = ending(record.finish_reason)
    if known is None:
        return None if _capped(record) or _breaks_off(record.text) else _CLOSED
    return "abort" if known in LOST else known


def _language_of_its_own(record: Record) -> tuple[str | None, str]:
    """The language that an answer begins in, and whether its prompt is in that one too.

    A group's language is a guess from other answers; where this one plainly begins otherwise, nobody knows
    that another one was wanted of it.
    """
    from stresstest.detectors.infer import infer_language

    own = infer_language(record.text)
    asked = infer_language(record.prompt_text) if own and record.prompt_text else None
    return own, "prompt" if own == asked else OTHER_LANGUAGE


def _score(verdict: Verdict) -> float:
    """The verdict's score, without warnings of structure: a recorded text was asked for none."""
    if verdict.degenerate:
        return verdict.score
    warnings = (s for s in verdict.symptoms if s.kind is not SymptomKind.STRUCTURE_BREAK)
    return max((s.score / 2 for s in warnings), default=0.0)


def _tokens(record: Record) -> list[Token]:
    """The record's own tokens, else its words; reasoning first."""
    if record.tokens is not None:
        return list(record.tokens)
    thought = [replace(token, reasoning=True) for token in text_tokens(record.reasoning)]
    return thought + text_tokens(record.text)


def _ends(record: Record) -> list[int]:
    """The characters up to and with each position that the panel was given."""
    if _plain(record):
        return piece_ends(record.text)
    return list(accumulate(len(token.text) for token in _tokens(record)))


def wanted_language(record: Record, job: Job, of_group: str | None) -> tuple[str | None, str | None]:
    """The language that the answer is wanted in, and who says so: record, user, group, or its own start."""
    if record.language and can_judge(record.language):
        return record.language, "record"
    if job.language:
        return job.language, "given"
    if of_group:
        return of_group, "group"
    from stresstest.detectors.infer import infer_language

    found = infer_language(record.text)
    return (found, "answer") if found else (None, None)


def _capped(record: Record) -> bool | None:
    """Whether max_tokens ended it: by the finish reason, else by the counts; None where nobody knows."""
    known = ending(record.finish_reason)
    if known is not None:
        return known == LENGTH
    if record.max_tokens is not None and record.completion_tokens is not None:
        return record.completion_tokens >= record.max_tokens
    return None


def _unresolved(record: Record, verdict: Verdict, cut: bool) -> bool:
    """Whether it ended with a candidate open, so that nobody knows whether it was failing there.

    Any candidate after an end of its own, which a failing answer reaches with one and a healthy one with
    none, or after a loss, which may be the failure's doing. Where it was cut, by its cap or by what nothing
    tells, one that is open for longer than an alarm may be late.
    """
    if verdict.degenerate:
        return False
    usual = OPEN_TAIL if cut else 0
    return verdict.tokens - verdict.observed > usual or ending(record.finish_reason) == REPETITION


def _lost(record: Record, verdict: Verdict) -> bool:
    """Whether the service gave it up before it failed; nothing at all, without an end of its own, is that."""
    known = ending(record.finish_reason)
    nothing = not verdict.tokens and known != STOP
    return not verdict.degenerate and (nothing or known in LOST)


def _breaks_off(text: str) -> bool:
    """Whether a text stops in mid-sentence: no closing mark, and no closing words on a line of their own."""
    text = text.rstrip()
    last = text[text.rfind("\n") + 1 :]
    signed = len(last.split()) <= 4 and not any(c.isdigit() for c in last) and last[:1].isalpha()
    return bool(text) and not text.endswith(_TERMINAL) and not (signed and len(last) < len(text))


def _name(value: str | None) -> int:
    """A 64-bit name that is the same in every process; 0 for nothing."""
    if not value:
        return 0
    raw = blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(raw, "big") or 1


def _shown(record: Record, judged: Judged, verdict: Verdict) -> Shown | None:
    if judged.symptom is None:
        return None
    extent = judged.tokens or judged.words
    at = judged.onset_char
    text = record.text if at is not None else record.reasoning
    at = at or 0
    summary = next((s.summary for s in verdict.symptoms if s.confirmed and s.kind is judged.symptom), "")
    if record.tokens is None and judged.symptom is SymptomKind.LOOP:  # what the panel was given are words
        summary = summary.replace(" tokens repeat ", " words repeat ", 1)
    return Shown(
        id=judged.id,
        symptom=judged.symptom,
        score=judged.score,
        wasted=extent.length - (extent.onset or extent.length) + 1,
        before=text[max(0, at - SHOWN_BEFORE) : at],
        after=text[at : at + SHOWN_AFTER],
        summary=summary[:400],
    )
