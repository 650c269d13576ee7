"""What a reader must know of a scan's numbers: columns, units, languages, samples, missing limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stresstest.model.scanned import GroupResult, ScanResult
from stresstest.report.text import NOT_MEASURED, count, duration, percent

MOST_NAMED = 3
"""Groups that a note names; the others are counted."""

MOST_LANGUAGES = 6
"""Languages that are named; the others are counted."""

OTHER_LANGUAGE = "other language than the group's"
"""As `scan` names this source of a language."""


def notes(result: ScanResult, left_out: Sequence[str] = ()) -> list[str]:
    """What a reader must know of the numbers: damage, units, languages, clusters, samples.

    left_out: columns that the terminal is too narrow for.
    """
    found = []
    standing = [group.threshold for group in result.groups if group.threshold.certified]
    if standing:
        alpha, confidence = percent(standing[0].alpha), percent(standing[0].confidence)
        found.append(
            f"T: with {confidence} confidence at most {alpha} of the requests that run so long degenerate "
            "by then."
        )
    if result.damaged:
        lines = "line was" if result.damaged == 1 else "lines were"
        found.append(f"{count(result.damaged)} damaged {lines} left out; {_first(result)}")
    if result.textless:
        answers = "1 answer is" if result.textless == 1 else f"{count(result.textless)} answers are"
        found.append(f"{answers} only tool calls, with no text to judge: left out, and no damage.")
    empty = sum(group.empty for group in result.groups)
    if empty:
        found.append(f"Empty answers: {count(empty)}. They count as requests; nothing can fail in them.")
    doubtful = [group for group in result.groups if group.undecided]
    if doubtful:
        found.append(
            f"In doubt: {count(sum(group.undecided for group in doubtful))} healthy answers "
            f"{_of(doubtful, result)}ended while a symptom may have been under way; for T each counts as "
            "failed where that begins."
        )
    sources, languages = Counter[str](), Counter[str]()
    for group in result.groups:
        sources.update(group.language_sources)
        languages.update(group.languages)
    found += _unit_notes(result)
    found += _language_notes(sources, languages)
    found.append(_columns(result, left_out))
    if any(group.clustered for group in result.groups):
        found.append(
            "Prompts with several outputs count as clusters: wider intervals, and one output of each for the "
            "threshold."
        )
    if any(group.sampled for group in result.groups):
        found.append("Thresholds of very large groups stand on a random part of their prompts.")
    return [*found, *result.notes, *_work_done(result)]


def _work_done(result: ScanResult) -> list[str]:
    """How much was read, and all groups together where there are several."""
    if not result.text_bytes:
        return []
    text = f"{result.text_bytes / 1e6:.1f} MB of text in {duration(result.seconds)}"
    if len(result.groups) < 2:
        return [f"Read {text}."]
    bad = sum(group.degenerate for group in result.groups)
    share = percent(bad / result.requests, 2)
    return [
        f"All {count(len(result.groups))} groups: {count(result.requests)} requests, {count(bad)} degenerate "
        f"({share}); {text}."
    ]


def _unit_notes(result: ScanResult) -> list[str]:
    """What lengths are counted in; the groups are named where they differ."""
    found = []
    words = [group for group in result.groups if group.unit == "words"]
    if words:
        uncounted, requests = (sum(g.uncounted for g in words), sum(g.requests for g in words))
        lacking = (
            "the records have no token counts"
            if uncounted >= requests
            else f"{count(uncounted)} of {count(requests)} answers have no token count"
        )
        found.append(
            f"Lengths {_of(words, result)}are in words (punctuation marks and line breaks count too): "
            f"{lacking}. For max_tokens give --tokenizer FILE, or records with completion_tokens."
        )
    estimates = [group for group in result.groups if group.unit == "tokens (estimate)"]
    if estimates:
        found.append(
            f"Token positions {_of(estimates, result)}are estimates: completion_tokens spread over the text. "
            "--tokenizer FILE is exact."
        )
    return found


def _of(groups: Sequence[GroupResult], result: ScanResult) -> str:
    """``of mistral, qwen `` where not every group is one of these; nothing where all are."""
    if len(groups) == len(result.groups):
        return ""
    names = ", ".join(group_name(group) for group in groups[:MOST_NAMED])
    more = len(groups) - MOST_NAMED
    return f"of {names}{f' and {count(more)} more groups' if more > 0 else ''} "


def group_name(group: GroupResult) -> str:
    """The values of its key, or nothing where all requests are one group."""
    return " · ".join(value or NOT_MEASURED for value in group.key.values())


def _language_notes(sources: Counter[str], languages: Counter[str]) -> list[str]:
    words = {
        "record": "said by the record",
        "given": "given by --lang",
        "group": "inferred from the group's first answers",
        "prompt": "that of the prompt",
        OTHER_LANGUAGE: "its own, plainly another than its group's",
        "answer": "inferred from the start of the answer itself",
        "unknown": "not known, so drift was not looked for",
    }
    if not sources:
        return []
    ways = "; ".join(f"{words.get(source, source)} ({count(n)})" for source, n in sources.most_common())
    known = [(language, n) for language, n in languages.most_common() if language != "unknown"]
    most = [f"{language} {count(n)}" for language, n in known[:MOST_LANGUAGES]]
    if known[MOST_LANGUAGES:]:
        rest = known[MOST_LANGUAGES:]
        most.append(f"{len(rest)} more {count(sum(n for _, n in rest))}")
    return [f"Wanted language: {ways}." + (f" Languages: {', '.join(most)}." if most else "")]


def _columns(result: ScanResult, left_out: Sequence[str]) -> str:
    """What two headers of the table mean, and which others had no room."""
    wasted = "wasted: share of the text from its onset on."
    if left_out:
        return f"{wasted} Too narrow here for {' and '.join(left_out)}: --json has them."
    known = sum(group.dharma_known for group in result.groups)
    dharma = "Dharma: share that ended by the cap with a tail that stands four times (DharmaOCR's rule)"
    if known < result.requests:
        where = f"{count(known)} of {count(result.requests)} requests" if known else "no request"
        dharma += f"; it needs a finish reason, or a cap and token counts, known of {where}"
    return f"{wasted} {dharma}."


def uncertified(result: ScanResult) -> str:
    """What the missing limits mean; empty where there is one for every group."""
    lacking = sum(not group.threshold.certified for group in result.groups)
    if not lacking:
        return ""
    if lacking < len(result.groups):
        return f"{lacking} of {len(result.groups)} groups have no certified limit; their rates hold."
    return (
        "Nothing is certified: these answers are too few, too short or fail too early for a limit. The rates "
        "hold all the same; `stresstest run` measures a limit."
    )


def _first(result: ScanResult) -> str:
    shown = "; ".join(result.damaged_examples[:2])
    return f"for example {shown}" if shown else ""
