"""Stored limits grouped by model and decoding: one limit for each task and language, and the smallest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stresstest.clock import format_time
from stresstest.model import Decoding, Threshold
from stresstest.render.sentences import thinking_words
from stresstest.render.text import (
    certified_sentence,
    format_count,
    language_name,
    load_words,
    margin_words,
    single_line,
    subject_name,
)
from stresstest.store import StoredThreshold

if TYPE_CHECKING:
    from stresstest.store import RunSummary

LimitRow = StoredThreshold
FLOOR_NOTE = "a lower bound: no onset was seen within the sample"
"""Describes a limit whose T is "≥ C"."""


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """The certified limits of one model under one decoding.

    rows: one for each task and language, sorted; of several (rigors, prompt files) the one with the
    smallest limit. uncovered: newest results of the tasks and languages without a certified limit.
    """

    model: str
    decoding: Decoding
    simulated: bool
    rows: tuple[LimitRow, ...]
    uncovered: tuple[LimitRow, ...] = ()

    @property
    def smallest(self) -> LimitRow:
        """The row with the smallest limit, which is safe for every task and language in `rows`."""
        return min(self.rows, key=safe_limit)


def safe_limit(row: LimitRow) -> int:
    """The safe max_tokens of a certified row."""
    return row.limit or 0


def thinking_budget(rows: Iterable[LimitRow]) -> int | None:
    """The smallest certified thinking budget of the rows; None where no server takes one."""
    found = [row.thinking for row in rows if row.thinking is not None]
    if not any(each.supported for each in found):
        return None
    return min((each.safe_tokens for each in found if each.safe_tokens), default=None)


def group_limits(rows: Sequence[LimitRow]) -> list[ModelLimits]:
    """Rows grouped by model and decoding, in the order of `rows`; groups without a certified limit are
    omitted."""
    groups: dict[tuple[str, Decoding, bool], list[LimitRow]] = {}
    for row in rows:
        groups.setdefault((row.subject.model, row.decoding, row.simulated), []).append(row)
    found = [_limits(key, group) for key, group in groups.items()]
    return [limits for limits in found if limits.rows]


def _limits(key: tuple[str, Decoding, bool], rows: Sequence[LimitRow]) -> ModelLimits:
    model, decoding, simulated = key
    subjects = sorted({(r.subject.task, r.subject.language) for r in rows})
    certified, uncovered = [], []
    for task, language in subjects:
        own = [r for r in rows if (r.subject.task, r.subject.language) == (task, language)]
        usable = [r for r in own if r.threshold.certified and r.limit]
        if usable:
            certified.append(min(usable, key=safe_limit))
        else:
            uncovered.append(next((r for r in own if r.threshold.unfit), own[0]))
    return ModelLimits(model, decoding, simulated, tuple(certified), tuple(uncovered))


def decoding_words(decoding: Decoding, *, nothing: str = "the server's defaults") -> str:
    """``temperature 0.7, top_k 20, system prompt``; the text of the system prompt is not included."""
    words = [f"{name} {value}" for name, value in decoding.sent().items()] + decoding.extra_words()
    return ", ".join([*words, *(["system prompt"] if decoding.system_prompt is not None else [])]) or nothing


def is_floor(row: LimitRow) -> bool:
    """Whether T is limited by the sample, not by failures ("≥ C")."""
    return row.threshold.censored_at is not None


def overruled_words(row: LimitRow) -> str:
    """Why a limit is not recommended although it is certified."""
    return (
        f"{format_count(row.safe_max_tokens)} is not recommended: run {row.overruled_by} of the same model, "
        "task and decoding found no safe length. Repeat that run (same address, no smaller load or sample), "
        f"or name the one that you want: --like {row.run_id}"
    )


def smallest_line(limits: ModelLimits) -> str:
    """A sentence that names the smallest of several limits, and whether it is a floor."""
    row = limits.smallest
    words = (
        f"{limits.model}: the smallest of {len(limits.rows)} limits is {safe_limit(row)} "
        f"({row.subject.task}, {language_name(row.subject.language)})"
    )
    return f"{words}; it is {FLOOR_NOTE}." if is_floor(row) else f"{words}."


def limit_provenance(row: LimitRow) -> tuple[str, ...]:
    """The basis of a limit in lines: subject and limit, risk and n, time and versions of the measurement."""
    threshold, prompts = row.threshold, row.distinct_prompts
    only = "" if prompts is None or prompts >= threshold.n else ", and it holds for these only"
    return tuple(
        single_line(line)
        for line in (
            f"{subject_name(row.subject)}: safe max_tokens {safe_limit(row)}, {margin_words(row.margin)}",
            f"{certified_sentence(threshold)}; distinct prompts {format_count(row.distinct_prompts)}{only}",
            f"measured {format_time(row.created)} UTC, run {row.run_id}, vLLM "
            f"{row.server_version or 'unknown'}, "
            f"stresstest {row.tool_version}, rigor {row.rigor}, {load_words(row.concurrency)}",
            *([] if row.holds_up_to is None else [only_up_to(row.holds_up_to)]),
            *([f"{FLOOR_NOTE}; a sample with longer answers may certify more"] if is_floor(row) else []),
            *([] if row.thinking is None else [thinking_words(row.thinking, row.margin)]),
        )
    )


def only_up_to(concurrency: int) -> str:
    """That a limit does not hold under a larger load."""
    return (
        f"IT HOLDS ONLY WITH AT MOST {load_words(concurrency).upper()}: with more, the same model, task and "
        f"decoding fail earlier"
    )


def largest_load(rows: Iterable[LimitRow]) -> int | None:
    """The requests in flight with which all of the limits hold; None where no run speaks against any."""
    return min((row.holds_up_to for row in rows if row.holds_up_to is not None), default=None)


def safe_words(threshold: Threshold | None, safe: int | None) -> str:
    """A table's cell: the safe max_tokens, "unfit", or "no cap" where T is certified and none is recommended;
    – where nothing is certified."""
    if threshold is not None and threshold.unfit:
        return "unfit"
    if safe is None and threshold is not None and threshold.certified and threshold.withheld is not None:
        return "no cap"
    return format_count(safe)


WIDE = 100
"""Terminal width from which the decoding has a column of its own, instead of a place below the subject."""


def subject_words(row: LimitRow | RunSummary) -> str:
    """Model, task and language on one line, marked if simulated."""
    return single_line(subject_name(row.subject)) + (" (simulated)" if row.simulated else "")
