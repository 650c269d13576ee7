"""Sentences about a run's result that all reports share."""

from __future__ import annotations

from collections import Counter
from shlex import quote
from statistics import median

from stresstest.campaign.conclusion.withheld import count_cut
from stresstest.detectors.registry import symptom_info
from stresstest.diagnosis.planes import TO_TEST
from stresstest.model import (
    AnswerPart,
    Diagnosis,
    GenerationRecord,
    Phase,
    RunResult,
    RunSettings,
    RunStatus,
    ThinkingBudget,
)
from stresstest.model.server import UNLISTED_MODEL
from stresstest.render.text import (
    capital,
    certified_sentence,
    format_count,
    load_words,
    margin_words,
    subject_name,
)
from stresstest.statistics.sample import ended_by_itself


def condition(result: RunResult) -> str:
    """What a limit holds for only: " for this 1 prompt" or " for these 3 prompts" where some were asked more
    than once, so that their answers are not independent; " with at most 1 request in flight" where a larger
    load makes it fail."""
    prompts, words = result.distinct_prompts, ""
    if prompts == 1:
        words = " for this 1 prompt"
    elif 0 < prompts < max(result.threshold.n, len(result.certifying)):
        words = f" for these {prompts} prompts"
    if result.holds_up_to is not None:
        words += f"{' and' if words else ''} with at most {load_words(result.holds_up_to)}"
    return words


UNFIT = "Unfit for this task and language"
"""The verdict where the limit has no room for one unit of the task."""


def headline(result: RunResult) -> str:
    """The result in one sentence: safe max_tokens, subject, threshold, confidence and n."""
    threshold = result.threshold
    subject = subject_name(result.run.settings.subject)
    if result.run.profile.gap(UNLISTED_MODEL) is not None:
        subject += " (a model name that the server does not list)"
    if not threshold.certified or threshold.tokens is None:
        lacking = capital(threshold.lacking or "too few data").rstrip(".")
        if threshold.unfit:
            return f"{UNFIT}: {subject}. {lacking}."
        return f"No safe max_tokens for {subject}: nothing is certified. {lacking}."
    certified = f"{capital(certified_sentence(threshold, len(result.certifying)))}."
    if threshold.withheld:
        if threshold.unfit:
            return f"{UNFIT}: {subject}. {capital(threshold.withheld)}. {certified}"
        return f"No cap is recommended for {subject}: {threshold.withheld}. {certified}"
    safe = format_count(result.safe_max_tokens)
    only = condition(result)
    margin = margin_words(result.run.settings.margin)
    return f"Safe max_tokens {safe} for {subject}{only and ','}{only}. {certified} {safe} is {margin}."


def thinking_words(thinking: ThinkingBudget, margin: float) -> str:
    """The thinking budget, its grounds, and which tokens it counts."""
    threshold = thinking.threshold
    if not threshold.certified or threshold.tokens is None:
        lacking = (threshold.lacking or "too few data").rstrip(".")
        return f"No safe thinking budget: nothing is certified for the reasoning. {capital(lacking)}."
    certified = f"{capital(certified_sentence(threshold, reasoning=True))}."
    if threshold.withheld:
        return f"No thinking budget is recommended: {threshold.withheld}. {certified}"
    return (
        f"Safe thinking budget {format_count(thinking.safe_tokens)}: {margin_words(margin)}. {certified} It "
        f"counts the output tokens to the end of the reasoning; max_tokens counts reasoning and answer "
        f"together."
    )


def thinking_advice(thinking: ThinkingBudget, settings: RunSettings) -> str | None:
    """How to apply a thinking budget; None where none is recommended. settings: of its run."""
    if thinking.safe_tokens is None:
        return None
    if thinking.supported:
        cuts = _cut_words(thinking.cut or 0, thinking.healthy, "chain of thought", "chains of thought")
        return (
            f"Send thinking_token_budget {thinking.safe_tokens} with each request, beside max_tokens. "
            f"It cuts {cuts} short.{_long_texts(settings) if thinking.cut else ''}"
        )
    return (
        f"This server takes no thinking_token_budget (vLLM 0.20 and later with --reasoning-parser do): stop "
        f"the reasoning after {format_count(thinking.safe_tokens)} tokens in the client."
    )


def what_to_do(result: RunResult) -> list[str]:
    """The actions to choose from: the cap, with what it would have cut, the thinking budget, and the advice
    of the verdict."""
    thinking = result.thinking
    budget = None if thinking is None else thinking_advice(thinking, result.run.settings)
    done = result.run.status is RunStatus.DONE
    advice = [line for line in result.verdict.advice if done or not line.startswith(TO_TEST)]
    return [*_cap_advice(result), *([] if budget is None else [budget]), *advice]


def _cap_advice(result: RunResult) -> list[str]:
    if result.safe_max_tokens is None:
        return []
    only = condition(result)
    if result.threshold.censored_at is not None and not any(g.verdict.degenerate for g in result.generations):
        found = f"No failure was found up to {format_count(result.threshold.tokens)} tokens"
        safe = f"any max_tokens up to {format_count(result.safe_max_tokens)} is safe{only}"
        ended = sum(map(ended_by_itself, result.certifying))
        more = "raise --horizon"
        if 2 * ended > len(result.certifying):
            more = (
                f"measure prompts with longer answers: {ended} of {len(result.certifying)} end on their own"
            )
        return [f"{found}: {safe}. To certify more, {more}."]
    cap = f"Now: set max_tokens to {format_count(result.safe_max_tokens)}{only and ','}{only}."
    return [f"{cap} {_cap_effect(result, result.safe_max_tokens)}"]


def _cap_effect(result: RunResult, cap: int) -> str:
    """What the cap would have done to the answers that certify it, degenerate at any length or healthy."""
    onsets = [g.verdict.onset for g in result.certifying if g.verdict.onset is not None]
    healthy, cut = count_cut(result.certifying, cap)
    total, failing = len(result.certifying), len(onsets)
    long = _long_texts(result.run.settings) if cut else ""
    if not onsets:
        none = f"None of the sample's {total} answers degenerates."
        return f"{none} The cap cuts {_cut_words(cut, healthy)} short.{long}"
    begun = sum(1 for onset in onsets if onset <= cap)
    cuts = f" The cap cuts {_cut_words(cut, healthy)} short.{long}" if healthy else ""
    return (
        f"In the sample, {begun} of {total} answers degenerate{'s' if begun == 1 else ''} within "
        f"{format_count(cap)} tokens, and {'all ' if failing == total > 1 else ''}{failing} at some point "
        f"if they are not capped.{cuts}"
    )


def _long_texts(settings: RunSettings) -> str:
    """Why so much is cut: a task's prompts ask for long texts, your own are what they are."""
    if settings.prompts_file:
        return ""
    return " This task asks for long texts: if your traffic asks for shorter ones, fewer are cut."


def _cut_words(cut: int, healthy: int, one: str = "answer", several: str = "answers") -> str:
    """How many of the healthy answers a cap cuts short, as its object. one, several: what is cut."""
    if not cut:
        return f"no healthy {one}"
    if cut == healthy:
        return f"all {healthy} healthy {several}" if cut > 1 else f"the one healthy {one}"
    return f"{cut} of the {healthy} healthy {several}"


def unfinished_notes(result: RunResult, diagnosis: Diagnosis | None) -> list[str]:
    """What of the run and of its diagnosis is not complete, for the first screen of a report."""
    run, status, found = result.run, result.run.status, []
    if status is RunStatus.RUNNING:
        found.append("This run is still running or was killed. The results so far are shown.")
    elif run.profile.replaced is not None:
        found.append(
            f"The server was replaced during this run ({run.profile.replaced}): its answers are those of two "
            "models, and certify nothing for either."
        )
    elif status is not RunStatus.DONE:
        found.append(
            f"This run was {status}. The results so far are shown; an unfinished sample certifies nothing. "
            f"To continue: stresstest run --resume {run.id}"
        )
    if diagnosis is not None and not diagnosis.complete:
        found.append(
            "The diagnosis of this run is not complete: causes and advice may still change. "
            f"To continue: stresstest diagnose {diagnosis.run_id}"
        )
    return found


def answer_counts(result: RunResult) -> str:
    """How many answers the run has, and what for: "44 answers (6 to find the length, 38 to certify it)"."""
    total, certify = len(result.generations), len(result.certifying)
    climb = sum(1 for g in result.generations if g.job.phase is Phase.CLIMB)
    parts = [f"{climb:,} to find the length"] if climb else []
    if total > climb + certify:
        parts.append(f"{total - climb - certify:,} of a length that certifies nothing")
    if certify:
        parts.append(f"{certify:,} to certify it" if climb else f"{certify:,} to certify")
    return f"{total:,} answer{'' if total == 1 else 's'}" + (f" ({', '.join(parts)})" if parts else "")


def decoding_words(result: RunResult) -> str:
    """The decoding in force: the parameters sent, and the server's defaults if known."""
    decoding = result.run.settings.decoding
    sent = [f"{k} {v}" for k, v in decoding.sent().items()] + decoding.extra_words()
    words = ", ".join(sent) or "the server's defaults (no option sent)"
    if decoding.system_prompt is not None:
        words += ", with a system prompt"
    defaults = result.run.profile.defaults
    if defaults:
        words += f" (generation_config.json: {', '.join(f'{k} {v}' for k, v in defaults.items())})"
    return words


def rigor_words(result: RunResult) -> str:
    """The rigor, marked if it is for a first look only."""
    rigor = result.run.settings.rigor
    return "quick (before production, use standard)" if rigor == "quick" else rigor


def sample_words(result: RunResult) -> str:
    """The rigor and the concurrency of the sample."""
    return f"{rigor_words(result)}, {load_words(result.run.settings.in_flight)}"


def symptom_rows(generations: tuple[GenerationRecord, ...]) -> list[tuple[str, int, int, int, int]]:
    """(symptom, generations, median onset, earliest, latest), most frequent first; those in the reasoning
    apart."""
    onsets: dict[str, list[int]] = {}
    for generation in generations:
        verdict = generation.verdict
        if verdict.onset is not None and verdict.symptom is not None:
            where = " in the reasoning" if verdict.onset_in is AnswerPart.REASONING else ""
            onsets.setdefault(symptom_info(verdict.symptom).label + where, []).append(verdict.onset)
    rows = [(s, len(o), int(median(o)), min(o), max(o)) for s, o in onsets.items()]
    return sorted(rows, key=lambda row: (-row[1], row[2]))


def ending_counts(generations: tuple[GenerationRecord, ...]) -> str:
    """How the generations ended, with counts."""
    endings: Counter[str] = Counter()
    for generation in generations:
        if generation.failure is not None:
            endings["lost to a service failure"] += 1
        elif generation.aborted:
            endings["stopped by stresstest after the onset"] += 1
        elif generation.finish_reason == "length":
            endings["reached the cap"] += 1
        elif generation.finish_reason == "stop":
            endings["ended on their own"] += 1
        else:
            endings[f"finish reason {generation.finish_reason}"] += 1
    return ", ".join(f"{n} {what}" for what, n in endings.most_common()) or "none"


def unit_words(result: RunResult) -> str:
    """How many answers have fewer units than requested, or none at all."""
    short = f"{result.short} ended on their own with fewer units than requested"
    return f"{short}, {result.without_units} with none" if result.without_units else short


FORK_GLOSS = (
    "Fork: a failing answer, cut before its onset and continued; it may fail in another way than before. "
    "Clears: with the change, fewer than 30 % of the forks fail (with 95 % confidence), and the drop from "
    "those continued unchanged is larger than chance explains (exact test, p at most 0.001 over all "
    "changes). Stopped early: the change could no longer clear. Control: forks continued unchanged, or with "
    "a change that should have no effect, together with the last ones of a change; where too few of them "
    "fail again, it is not the change that helped."
)
"""The terms of an intervention, each in a few words."""

_GLOSSES = {
    "onset": "Onset: the token at which the failure begins; for a loop, the start of the second copy.",
    "plane": "Plane: where the cause lies (system, decoding or context).",
}


def glosses(*texts: str) -> str:
    """The terms of a verdict that occur in the texts, each in a few words; may be empty."""
    said = " ".join(texts).lower()
    return " ".join(words for term, words in _GLOSSES.items() if term in said)


BLIND_SPOTS = (
    "Known blind spots, where a failure can go unnoticed: repeats that are reworded each time, "
    "real words in random order, invented words among real function words, random letters and signs, one or "
    "two foreign sentences, closely related languages."
)


def reproduce_command(result: RunResult) -> str:
    """The command line that repeats the measurement."""
    settings = result.run.settings
    parts = ["stresstest run", f"--model {quote(settings.subject.model)}"]
    if settings.subject.language:
        parts.append(f"--lang {settings.subject.language}")
    if settings.prompts_file:
        parts.append(f"--prompts {quote(settings.prompts_file)}")
    else:
        parts.append(f"--task {quote(settings.task_source)}")
    parts += [f"--base-url {quote(settings.base_url)}", f"--rigor {settings.rigor}"]
    parts += [f"--{k.replace('_', '-')} {v}" for k, v in settings.decoding.sent().items()]
    if settings.decoding.system_prompt is not None:
        parts.append(f"--system-prompt {quote(settings.decoding.system_prompt)}")
    if settings.decoding.extra_body is not None:
        parts.append(f"--extra-body {quote(settings.decoding.extra_body)}")
    if settings.horizon:
        parts.append(f"--horizon {settings.horizon}")
    parts += [f"--concurrency {settings.concurrency}", f"--seed {settings.seed}"]
    if settings.margin != 0.10:
        parts.append(f"--margin {settings.margin:g}")
    if settings.gpus != "auto":
        parts.append(f"--gpus {quote(settings.gpus)}")
    if settings.gpu_exporter:
        parts.append(f"--gpu-exporter {quote(settings.gpu_exporter)}")
    parts += [
        flag
        for flag, on in (
            ("--no-seed", not settings.send_seed),
            ("--no-logprobs", not settings.logprobs),
            ("--tighten", settings.tighten),
            ("--no-abort", not settings.abort),
        )
        if on
    ]
    if result.run.profile.simulated:
        parts.append(" # while the simulated server runs there: stresstest sim")
    return " ".join(parts)
