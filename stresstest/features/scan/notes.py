"""Notes needed to interpret a scan's numbers: columns, units, languages, samples, missing limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stresstest.detectors.screening.screen import OPEN_TAIL
from stresstest.model import SymptomKind
from stresstest.model.percent import percent
from stresstest.model.scanned import OTHER_LANGUAGE, UNKNOWN_NAME, GroupResult, ScanResult
from stresstest.records.formats.limit import MAX_CHARACTERS, MAX_PIECES
from stresstest.render.text import NOT_MEASURED, duration, format_count, language_name, risk_words
from stresstest.scanning.texts_read import prompt_notes
from stresstest.scanning.wrong_language import is_likely_wrong

MAX_NAMED_GROUPS = 3
"""Most groups that a note names; the others are counted."""

MAX_NAMED_TEXTS = 4
"""Most texts that were not judged that are named; the others are counted."""

MAX_NAMED_LANGUAGES = 6
"""Most languages that are named; the others are counted."""


def left_out_lines(result: ScanResult) -> str:
    """How many lines were left out and why, as a clause."""
    what = "no answer of a model (turns of users and tools, other spans and calls)"
    if result.left_out == 1:
        return f"1 line holds {what} and is left out"
    return f"{format_count(result.left_out)} lines hold {what} and are left out"


def scan_notes(result: ScanResult, left_out: Sequence[str] = ()) -> list[str]:
    """The notes on a scan. left_out: columns that do not fit on the terminal."""
    found = []
    certified = [group.threshold for group in result.groups if group.threshold.certified]
    if certified:
        confidence = percent(certified[0].confidence)
        found.append(f"T: with {confidence} confidence, {risk_words(certified[0])} by T.")
        if len(certified) > 1:
            found.append("Each T holds for its group alone; the largest of several may be chance.")
    if result.damaged:
        lines = "line was" if result.damaged == 1 else "lines were"
        shown = "; ".join(result.damaged_examples[:2])
        examples = f"for example {shown}" if shown else ""
        found.append(f"{format_count(result.damaged)} damaged {lines} skipped; {examples}")
    if result.textless:
        answers = count_answers(result.textless, "is", "are")
        found.append(f"{answers} only tool calls and no text. They are skipped and do not count as damaged.")
    if result.left_out:
        found.append(f"{left_out_lines(result)}.")
    empty = sum(group.empty for group in result.groups)
    if empty:
        found.append(f"Empty answers: {format_count(empty)}. They count, but cannot degenerate.")
    if any(group.parts for group in result.groups):
        found.append(
            "Answers with reasoning: T and every length count reasoning and answer together, as max_tokens "
            "does. Only answers after healthy reasoning count as such."
        )
    found += _capped(result)
    undecided = [group for group in result.groups if group.undecided]
    if undecided:
        number = sum(group.undecided for group in undecided)
        answers = "1 healthy answer" if number == 1 else f"{format_count(number)} healthy answers"
        found.append(
            f"Open at the end: {answers} {_group_prefix(undecided, result)}ended while a symptom may have "
            f"been starting. For T, each counts as failed where that starts; for the rate, as healthy."
        )
    found += _lost(result)
    found += _unknown_language(result)
    found += _unseen(result)
    found += _unsure_stops(result)
    sources, languages = Counter[str](), Counter[str]()
    for group in result.groups:
        sources.update(group.language_sources)
        languages.update(group.languages)
    found += _texts_read(result)
    found += _mixed_models(result)
    found += _unit_notes(result)
    found += _language_notes(sources, languages)
    found += _wrong_language(result)
    if result.requests:
        found.append(
            "Structure (numbering, lengths of units) was not checked: that needs a task, as `run` has one."
        )
    found.append(_columns(result, left_out))
    found += _samples(result)
    return [*found, *result.notes, *_work_done(result)]


def count_answers(number: int, one: str = "", several: str = "") -> str:
    """``1 answer is``, ``3 answers are``."""
    return f"1 answer {one}".rstrip() if number == 1 else f"{format_count(number)} answers {several}".rstrip()


def _counted(result: ScanResult, name: str, one: str, several: str, sentence: str) -> list[str]:
    """A sentence on the answers that the groups count under a name; none where there are none. sentence: with
    {} in place of the answers and their verb."""
    number = sum(getattr(group, name) for group in result.groups)
    return [sentence.format(count_answers(number, one, several))] if number else []


def _unknown_language(result: ScanResult) -> list[str]:
    """That answers may be in a language that nothing here knows, or be gibberish."""
    return _counted(
        result,
        "unknown_language",
        "is",
        "are",
        "No known language: {} healthy if a language that is not known here was wanted, and degenerate in "
        "that of the group. For T and --fail-above, each counts as failed where that starts. If one language "
        "was wanted of all answers: --lang CODE.",
    )


def _prompts(result: ScanResult) -> str:
    known = sum(group.prompts or 0 for group in result.groups if group.clustered)
    return "prompt, and there is only 1" if known == 1 else f"of {format_count(known)} prompts"


def _samples(result: ScanResult) -> list[str]:
    """What counts as one answer, and what as several: prompts, copies."""
    found = []
    if any(group.clustered for group in result.groups):
        found.append(
            "Several outputs of one prompt count as a cluster: intervals are wider, and the threshold "
            f"uses one output of each {_prompts(result)}."
        )
    found += prompt_notes(
        result.read_from,
        answers=sum(group.sampled or group.requests for group in result.groups),
        promptless=sum(group.promptless for group in result.groups),
        prompts=sum(group.prompts or 0 for group in result.groups),
        questions=sum(group.questions for group in result.groups),
    )
    found += _one_text(result)
    found += _brief(result)
    copies = sum(group.copies for group in result.groups)
    if copies:
        found.append(_copies(copies, at_least=any(group.sampled for group in result.groups)))
    if any(group.sampled for group in result.groups):
        found.append("Thresholds of very large groups use a random part of their prompts.")
    return found


def _one_text(result: ScanResult) -> list[str]:
    """That many answers are one message, whatever was asked."""
    alike = sum(group.one_text for group in result.groups)
    if not alike:
        return []
    return [
        f"One short text: {format_count(alike)} of {format_count(result.requests)} answers are one, to many "
        f"prompts, beside longer answers: a refusal, or the words of an application or a gateway in place of "
        f"an answer. What they stand for may have failed, and counts as healthy here."
    ]


def _brief(result: ScanResult) -> list[str]:
    """That answers as short as labels count beside long ones."""
    groups = [group for group in result.groups if group.brief > group.one_text]
    if not groups:
        return []
    return [
        f"Very short answers: {format_count(sum(group.brief for group in groups))} of "
        f"{format_count(sum(group.requests for group in groups))} have a few words at most, beside longer "
        f"ones, and lower the rate: none can degenerate. If they are labels, scores or steps of an "
        f"application, leave them out, or tell them apart with --group-by."
    ]


def _copies(copies: int, *, at_least: bool) -> str:
    """That records repeat others, and what the interval makes of them."""
    counted = f"{'at least ' if at_least else ''}{format_count(copies)}"
    return (
        f"Identical answers: {counted} repeat another record, or its long text with another prompt or none "
        f"(as two loggers write one request). They count in the rate, but each set of copies is one prompt "
        f"for the interval, which is wider."
    )


def _texts_read(result: ScanResult) -> list[str]:
    """Where the answers were read, and the long texts beside them that were not judged."""
    if not result.read_from:
        return []
    places = ", ".join(f"{place} ({format_count(n)})" for place, n in result.read_from.items())
    found = [f"Answers read from: {places}."]
    if result.not_judged:
        names = list(result.not_judged.items())
        shown = ", ".join(f"{name!r} ({format_count(n)})" for name, n in names[:MAX_NAMED_TEXTS])
        more = len(names) - MAX_NAMED_TEXTS
        found.append(
            f"Not judged: {shown}{f' and {format_count(more)} more' if more > 0 else ''}, texts beside the "
            f"answers in the {format_count(result.looked_at)} lines looked at. If the model wrote one, "
            f"--field response=NAME judges it instead."
        )
    return found


def _capped(result: ScanResult) -> list[str]:
    """How far healthy answers that a cap ended count as observed."""
    capped = sum(group.capped for group in result.groups)
    if not capped:
        return []
    answers = (
        "1 healthy answer. It counts"
        if capped == 1
        else f"{format_count(capped)} healthy answers. They count"
    )
    return [
        f"Ended by a cap: {answers} for T only up to {OPEN_TAIL} words before the end, since a failure may "
        f"be seen that much later than it begins."
    ]


def _lost(result: ScanResult) -> list[str]:
    """How many answers were given up before they could fail."""
    return _counted(
        result,
        "lost",
        "was",
        "were",
        "Given up by the service or the client: {} healthy so far, or empty (finish reason abort, error or "
        "content_filter, or a failed request). Later they may have failed: the rate takes them as healthy, "
        "--fail-above leaves them out.",
    )


def _unseen(result: ScanResult) -> list[str]:
    """How many answers may have failed in text that is not in the log."""
    return _counted(
        result,
        "unseen",
        "has",
        "have",
        "Text not in the log: {} far more tokens than text, or no text, or one that the log has cut. Of "
        f"more than {MAX_PIECES:,} words or {MAX_CHARACTERS:,} characters, the rest is not judged and "
        "counts as such. Whether they degenerate there is not known: the rate takes them as healthy, "
        "its interval and --fail-above as possible failures, and T as failed where their text ends.",
    )


def _unsure_stops(result: ScanResult) -> list[str]:
    """How many ends a log leaves open, and how many of those are repetitions by their text."""
    unsure = sum(group.unsure_stops for group in result.groups)
    if not unsure:
        return []
    repetitions = sum(group.repetitions for group in result.groups)
    answers = count_answers(unsure)
    return [
        f"LiteLLM writes vLLM's finish reason `repetition` as `stop`, so a loop that the server "
        f"stopped looks like an ordinary end. Of {answers} with `stop`, {format_count(repetitions)} "
        f"end in copies of one text and count as stopped by the server."
    ]


def _mixed_models(result: ScanResult) -> list[str]:
    """That one rate and one T are stated for several models."""
    mixed = [group for group in result.groups if len(group.models) > 1]
    if not mixed:
        return []
    names = sorted({name for group in mixed for name in group.models})
    shown = ", ".join(names[:MAX_NAMED_GROUPS]) + (" and others" if names[MAX_NAMED_GROUPS:] else "")
    return [
        f"Several models share a rate and a T {_group_prefix(mixed, result)}({shown}): "
        f"--group-by model gives each its own."
    ]


def _work_done(result: ScanResult) -> list[str]:
    """The amount of text read, and the totals of several groups."""
    if not result.text_bytes:
        return []
    text = f"{result.text_bytes / 1e6:.1f} MB of text in {duration(result.seconds)}"
    if len(result.groups) < 2:
        return [f"Read {text}."]
    bad = sum(group.degenerate for group in result.groups)
    share = percent(bad / result.requests, 2)
    number = len(result.groups)
    every = "Both groups" if number == 2 else f"All {format_count(number)} groups"
    return [
        f"{every}: {format_count(result.requests)} answers, {format_count(bad)} degenerate ({share}); {text}."
    ]


def _unit_notes(result: ScanResult) -> list[str]:
    """The units of lengths; the groups are named where they differ."""
    found = []
    words = [group for group in result.groups if group.unit == "words"]
    if words:
        uncounted, requests = (sum(g.uncounted for g in words), sum(g.requests for g in words))
        if sums := sum(g.sums for g in words):
            found.append(
                f"Token counts: those of {format_count(sums)} answers grow faster than their texts, as sums "
                f"of running counts do that a client adds up while it streams (LangChain.js with Gemini). "
                f"They are not used."
            )
        beyond = sum(g.beyond_cap for g in words if not g.uncounted)
        if beyond:
            found.append(
                f"Token counts: those of {format_count(beyond)} answers are higher than their max_tokens, so "
                f"that another tokenizer has made them (LiteLLM's own, for a stream without usage), or they "
                f"are of several calls. They are not used."
            )
        lacking = "the records have no token counts"
        if beyond:
            lacking = "the counts are not the model's"
        elif uncounted < requests:
            lacking = f"{format_count(uncounted)} of {format_count(requests)} answers have no token count"
        found.append(
            f"Lengths {_group_prefix(words, result)}are in words, counting punctuation marks and line "
            f"breaks: {lacking}. To get max_tokens, give --tokenizer FILE or records with completion_tokens."
        )
    estimates = [group for group in result.groups if group.unit == "tokens (estimate)"]
    if estimates:
        found.append(
            f"Token positions {_group_prefix(estimates, result)}are estimated by spreading "
            f"completion_tokens over the text. {_who_counted(estimates)} --tokenizer FILE makes them exact."
        )
    return found


def _who_counted(groups: Sequence[GroupResult]) -> str:
    """Whether the counts are the served model's: a cap ends an answer at just so many of its tokens."""
    confirmed = sum(group.at_cap for group in groups)
    if all(group.at_cap for group in groups):
        return (
            f"The server counted them itself: {format_count(confirmed)} that its cap ended have max_tokens."
        )
    return (
        "Nothing tells who counted them: a gateway may have, with another tokenizer (LiteLLM does for a "
        "stream without usage), and T is then wrong by as much as the two differ."
    )


def _group_prefix(groups: Sequence[GroupResult], result: ScanResult) -> str:
    """``of mistral, qwen `` if these are some of the groups; empty if they are all."""
    if len(groups) == len(result.groups):
        return ""
    names = ", ".join(group_name(group) for group in groups[:MAX_NAMED_GROUPS])
    more = len(groups) - MAX_NAMED_GROUPS
    return f"of {names}{f' and {format_count(more)} more groups' if more > 0 else ''} "


def group_name(group: GroupResult) -> str:
    """The values of the group's key; empty if all requests are one group."""
    return " · ".join(value or NOT_MEASURED for value in group.key.values())


def _language_notes(sources: Counter[str], languages: Counter[str]) -> list[str]:
    words = {
        "record": "stated in the record",
        "given": "given with --lang or by the settings",
        "group": "inferred from the group's first answers",
        "prompt": "the prompt's language",
        OTHER_LANGUAGE: "the answer's own, clearly different from its group's",
        UNKNOWN_NAME: "inferred, since the record names a language that is not known here",
        "answer": "inferred from the start of the answer",
        "unknown": "not known, so language drift was not checked",
    }
    if not sources:
        return []
    ways = "; ".join(
        f"{words.get(source, source)} ({format_count(n)})" for source, n in sources.most_common()
    )
    known = [(language, n) for language, n in languages.most_common() if language != "unknown"]
    most = [f"{language_name(language)} {format_count(n)}" for language, n in known[:MAX_NAMED_LANGUAGES]]
    if known[MAX_NAMED_LANGUAGES:]:
        rest = known[MAX_NAMED_LANGUAGES:]
        most.append(f"{len(rest)} more {format_count(sum(n for _, n in rest))}")
    expected = f"{', '.join(most)}; " if most else ""
    return [f"Expected language: {expected}{ways}."]


def _wrong_language(result: ScanResult) -> list[str]:
    """That nearly all answers drift from a language that was given: another one may have been asked for."""
    drifting = [
        group
        for group in result.groups
        if "given" in group.language_sources
        and is_likely_wrong(group.symptoms.get(SymptomKind.LANGUAGE_DRIFT, 0), group.requests)
    ]
    if not drifting:
        return []
    return [
        f"Nearly all answers {_group_prefix(drifting, result)}drift from the language that was given: were "
        f"they asked for in another one? --lang CODE names it."
    ]


def _columns(result: ScanResult, left_out: Sequence[str]) -> str:
    """Explains two columns of the table, and names those that do not fit."""
    wasted = "wasted: share of the text after its onset."
    if left_out:
        return f"{wasted} Not shown for lack of space: {' and '.join(left_out)}. --json has them."
    known = sum(group.dharma_known for group in result.groups)
    dharma = (
        "looped: share of answers that hit the cap with a tail that repeats four times (DharmaOCR's rule)"
    )
    if known < result.requests:
        where = f"{format_count(known)} of {format_count(result.requests)} answers" if known else "no answer"
        dharma += f"; needs a finish reason, or a cap and token counts, known for {where}"
    return f"{wasted} {dharma}."


def uncertified_note(result: ScanResult) -> str:
    """A note on missing limits; empty if every group has one."""
    lacking = sum(not group.threshold.certified for group in result.groups)
    if not lacking:
        return ""
    if lacking < len(result.groups):
        return f"{lacking} of {len(result.groups)} groups have no certified T; their rates are still valid."
    return (
        "Nothing is certified: these answers are too few, too short or fail too early for a limit. The "
        "rates are still valid; `stresstest run` measures a limit."
    )
