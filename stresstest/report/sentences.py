"""The sentences that a verdict is told in; every report says the same ones."""

from __future__ import annotations

from collections import Counter
from statistics import median

from stresstest.model import Generation, RunResult
from stresstest.report.text import SYMPTOM_WORDS, count, percent


def headline(result: RunResult) -> str:
    """The verdict in one sentence: the number first, then its subject, confidence and n."""
    threshold = result.threshold
    subject = result.run.settings.subject
    if not threshold.certified or threshold.tokens is None:
        lacking = _capital(threshold.lacking or "too few data").rstrip(".")
        return f"No safe max_tokens for {subject}: nothing is certified. {lacking}."
    reach = f"≥ {count(threshold.tokens)}" if threshold.censored_at else count(threshold.tokens)
    risk = (
        f"with {percent(threshold.confidence)} confidence at most {percent(threshold.alpha)} of requests "
        f"that run so long degenerate by then (n = {threshold.n} at risk, {_onsets(threshold.onsets)})"
    )
    safe = count(result.safe_max_tokens)
    return f"Safe max_tokens {safe} for {subject}: coherent up to {reach} tokens; {risk}."


def decoding_words(result: RunResult) -> str:
    """The decoding in force: what was sent, else that the server's defaults ruled."""
    sent = result.run.settings.decoding.sent()
    words = ", ".join(f"{k} {v}" for k, v in sent.items()) or "nothing sent: the server's defaults"
    if result.run.settings.decoding.system_prompt is not None:
        words += ", with a system prompt"
    defaults = result.run.profile.defaults
    if defaults:
        words += f" (generation_config.json: {', '.join(f'{k} {v}' for k, v in defaults.items())})"
    return words


def sample_words(result: RunResult) -> str:
    """What the number stands on: the rigor, and how many requests the server had at once."""
    settings = result.run.settings
    rigor = "quick: a screening" if settings.rigor == "quick" else settings.rigor
    plural = "" if settings.concurrency == 1 else "s"
    return f"{rigor}; {settings.concurrency} request{plural} in flight"


def symptom_rows(generations: tuple[Generation, ...]) -> list[tuple[str, int, int, int, int]]:
    """(symptom, generations, median onset, earliest, latest), most frequent first."""
    onsets: dict[str, list[int]] = {}
    for generation in generations:
        verdict = generation.verdict
        if verdict.onset is not None and verdict.symptom is not None:
            onsets.setdefault(SYMPTOM_WORDS[verdict.symptom], []).append(verdict.onset)
    rows = [(s, len(o), int(median(o)), min(o), max(o)) for s, o in onsets.items()]
    return sorted(rows, key=lambda row: (-row[1], row[2]))


def ending_counts(generations: tuple[Generation, ...]) -> str:
    """How the generations ended, in words."""
    endings: Counter[str] = Counter()
    for generation in generations:
        if generation.failure is not None:
            endings["lost to a service failure"] += 1
        elif generation.aborted:
            endings["stopped by us after the onset"] += 1
        elif generation.finish_reason == "length":
            endings["reached the cap"] += 1
        elif generation.finish_reason == "stop":
            endings["ended by themselves"] += 1
        else:
            endings[f"finish reason {generation.finish_reason}"] += 1
    return ", ".join(f"{n} {what}" for what, n in endings.most_common()) or "none"


def representative(generations: tuple[Generation, ...]) -> Generation | None:
    """The degenerate generation whose onset is the median one: the text to show."""
    failing = sorted(
        (g for g in generations if g.verdict.degenerate), key=lambda g: (g.verdict.onset or 0, g.key)
    )
    return failing[len(failing) // 2] if failing else None


def _onsets(number: int) -> str:
    return f"{number} onset{'' if number == 1 else 's'}"


NOT_SEEN = (
    "Hardly seen by this version: near-loops with edits before about 100 words stand for the third time, "
    "real words in no order, invented words among real function words, signs and letters in no order, one or "
    "two foreign sentences, languages as alike as Malay and Indonesian."
)


def reproduce_command(result: RunResult) -> str:
    """The command line that measures the same again."""
    settings = result.run.settings
    parts = ["stresstest run", f"--model {_quoted(settings.subject.model)}"]
    if settings.subject.language:
        parts.append(f"--lang {settings.subject.language}")
    if settings.prompts_file:
        parts.append(f"--prompts {_quoted(settings.prompts_file)}")
    else:
        parts.append(f"--task {_quoted(settings.task_source)}")
    parts += [f"--base-url {_quoted(settings.base_url)}", f"--rigor {settings.rigor}"]
    parts += [f"--{k.replace('_', '-')} {v}" for k, v in settings.decoding.sent().items()]
    if settings.decoding.system_prompt is not None:
        parts.append(f"--system-prompt {_quoted(settings.decoding.system_prompt)}")
    if settings.horizon:
        parts.append(f"--horizon {settings.horizon}")
    parts += [f"--concurrency {settings.concurrency}", f"--seed {settings.seed}"]
    if settings.margin != 0.10:
        parts.append(f"--margin {settings.margin:g}")
    if settings.gpus != "auto":
        parts.append(f"--gpus {_quoted(settings.gpus)}")
    if settings.gpu_exporter:
        parts.append(f"--gpu-exporter {_quoted(settings.gpu_exporter)}")
    parts += [
        flag for flag, on in (("--tighten", settings.tighten), ("--no-abort", not settings.abort)) if on
    ]
    return " ".join(parts)


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
