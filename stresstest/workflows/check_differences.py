"""Apples and pears: what makes two samples incomparable, and what else changed between them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, replace

from stresstest.errors import UsageError
from stresstest.model import Changed, Generation, Run, RunSettings
from stresstest.workflows.check_sample import Sample
from stresstest.workflows.served import changes

INCOMPARABLE = ("task", "language", "decoding", "tokenizer")
"""What --allow-different may name."""
QUANTIZATION = "quantization, by its name"
_READ = 40
"""Generations of each side whose token ids are read."""
_FEWEST_IDS = 20
_OTHER_TOKENIZER = 0.2
"""Share of common token ids that mean another text; pieces of one id differ a little by where they stand."""
_QUANTIZATION = re.compile(
    r"(?i)(?<![a-z])(awq|gptq|fp8|nvfp4|mxfp4|int[48]|w\da\d+|bnb|nf4|gguf|q\d_[a-z0-9_]+|[48]bit)(?![a-z])"
)


def differences(baseline: Sample, candidate: Sample, allowed: Collection[str]) -> tuple[Changed, ...]:
    """Everything known to differ, what was allowed first. UsageError for what makes the two incomparable."""
    pears = _pears(baseline, candidate)
    refused = [each for each in pears if each.name not in allowed]
    if refused:
        raise _refusal(refused)
    others = _others(baseline, candidate)
    return (*(replace(each, allowed=True) for each in pears), *others)


def _refusal(refused: Sequence[Changed]) -> UsageError:
    what = "; ".join(f"{each.name} was {each.before}, is {each.after}" for each in refused)
    names = [each.name for each in refused if each.name in INCOMPARABLE]
    flags = " ".join(f"--allow-different {name}" for name in names)
    hint = (
        f"To compare nevertheless, and have the output say so: {flags}"
        if len(names) == len(refused)
        else None
    )
    return UsageError(f"The two cannot be compared: {what}.", hint=hint)


def _pears(baseline: Sample, candidate: Sample) -> list[Changed]:
    found = []
    before, after = baseline.subject, candidate.subject
    if before.task and after.task and before.task != after.task:
        found.append(Changed("task", before.task, after.task))
    elif _digest(baseline) != _digest(candidate) and None not in (_digest(baseline), _digest(candidate)):
        found.append(Changed("task", _version(before.task, baseline), _version(after.task, candidate)))
    if before.language and after.language and before.language != after.language:
        found.append(Changed("language", before.language, after.language))
    if baseline.run is not None and candidate.run is not None:
        found += _decoding(baseline.run.settings, candidate.run.settings)
        if baseline.simulated != candidate.simulated:
            kinds = ["simulated" if side.simulated else "measured" for side in (baseline, candidate)]
            found.append(Changed("kind of server", kinds[0], kinds[1]))
    if same_tokenizer(baseline.certifying, candidate.certifying) is False:
        found.append(_tokenizers(baseline, candidate))
    return found


def _digest(sample: Sample) -> str | None:
    return None if sample.run is None else sample.run.prompts_digest


def _version(task: str, sample: Sample) -> str:
    return f"{task} (text {_digest(sample)})"


def refuse_other_decoding(before: RunSettings, after: RunSettings, allowed: Collection[str]) -> None:
    """UsageError before anything is sent for a comparison that would be refused afterwards."""
    found = _decoding(before, after)
    if found and "decoding" not in allowed:
        raise _refusal(found)


def _decoding(before: RunSettings, after: RunSettings) -> list[Changed]:
    old, new = asdict(before.decoding), asdict(after.decoding)
    names = [name for name in old if old[name] != new[name]]
    if not names:
        return []
    words = [_sent((name, side[name]) for name in names) for side in (old, new)]
    return [Changed("decoding", words[0], words[1])]


def _sent(values: Iterable[tuple[str, object]]) -> str:
    return ", ".join(f"{name} {'not sent' if value is None else repr(value)}" for name, value in values)


def same_tokenizer(baseline: Sequence[Generation], candidate: Sequence[Generation]) -> bool | None:
    """Whether both speak in the same tokens; None where nobody can know.

    By the texts of common token ids; else by the prompt tokens of common prompts: lengths that differ by
    other amounts from prompt to prompt are another tokenizer's.
    """
    pieces = [_pieces(generations[:_READ]) for generations in (baseline, candidate)]
    common = pieces[0].keys() & pieces[1].keys()
    if len(common) >= _FEWEST_IDS:
        other = sum(pieces[0][each] != pieces[1][each] for each in common)
        return other <= _OTHER_TOKENIZER * len(common)
    lengths = [
        {g.prompt_text: g.prompt_tokens for g in generations if g.prompt_tokens is not None}
        for generations in (baseline, candidate)
    ]
    steps = {lengths[0][text] - lengths[1][text] for text in lengths[0].keys() & lengths[1].keys()}
    if len(steps) > 1:
        return False
    return True if steps == {0} and len(lengths[0].keys() & lengths[1].keys()) > 1 else None


def _tokenizers(baseline: Sample, candidate: Sample) -> Changed:
    """Names do not tell two tokenizers apart; a token of both does, where ids are known."""
    old, new = (_pieces(side.certifying[:_READ]) for side in (baseline, candidate))
    each = min((token for token in old.keys() & new.keys() if old[token] != new[token]), default=None)
    if each is None:
        before, after = (f"the tokenizer of {side.subject.model}" for side in (baseline, candidate))
    else:
        before, after = (f"one whose token {each} is {side[each]!r}" for side in (old, new))
    return Changed("tokenizer", before, after)


def _pieces(generations: Sequence[Generation]) -> dict[int, str]:
    """Token id → its most frequent text."""
    seen: dict[int, Counter[str]] = {}
    for generation in generations:
        for token in generation.tokens:
            if token.id is not None and token.text.strip():
                seen.setdefault(token.id, Counter())[token.text.strip()] += 1
    return {each: max(texts, key=lambda t: (texts[t], t)) for each, texts in seen.items()}


def _others(baseline: Sample, candidate: Sample) -> list[Changed]:
    found = []
    if (
        baseline.subject.model
        and candidate.subject.model
        and baseline.subject.model != candidate.subject.model
    ):
        found.append(Changed("model", baseline.subject.model, candidate.subject.model))
    if baseline.run is None or candidate.run is None:
        return found
    before, after = baseline.run, candidate.run
    found += changes(before.profile, after.profile)
    pairs = (
        (QUANTIZATION, quantization(before), quantization(after)),
        ("requested length", _rung(baseline), _rung(candidate)),
        ("rigor", before.settings.rigor, after.settings.rigor),
        ("concurrency", str(before.settings.concurrency), str(after.settings.concurrency)),
        ("logprobs mode", before.profile.logprobs_mode, after.profile.logprobs_mode),
        ("stresstest version", before.tool_version, after.tool_version),
    )
    return [*found, *(Changed(name, old, new) for name, old, new in pairs if old != new)]


def quantization(run: Run) -> str | None:
    """What the served files' or the model's name says of its quantization: the server does not tell."""
    match = _QUANTIZATION.search(run.profile.root or "") or _QUANTIZATION.search(run.settings.subject.model)
    return match[0].lower() if match else None


def _rung(sample: Sample) -> str | None:
    """What the certifying generations were asked for."""
    asked = {(g.job.units, g.job.max_tokens) for g in sample.certifying}
    found = (f"{f'{units} units, ' if units else ''}at most {cap:,} tokens" for units, cap in asked)
    return "; ".join(sorted(found)) or None
