"""What makes two samples incomparable, and what else changed between them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, replace

from stresstest.campaign.served_model import profile_changes
from stresstest.errors import UsageError
from stresstest.features.check.sides.sample import CheckSample
from stresstest.model import ChangedSetting, Run, RunSettings

INCOMPARABLE = ("task", "language", "decoding", "tokenizer")
"""What --allow-different may name."""
QUANTIZATION = "quantization, by its name"
_FEWEST_IDS = 20
_MAX_DIFFERING_SHARE = 0.2
"""Share of common token ids that mean another text; the text of one id differs a little by its position."""
_QUANTIZATION = re.compile(
    r"(?i)(?<![a-z])(awq|gptq|fp8|nvfp4|mxfp4|int[48]|w\da\d+|bnb|nf4|gguf|q\d_[a-z0-9_]+|[48]bit)(?![a-z])"
)


def find_differences(
    baseline: CheckSample, candidate: CheckSample, allowed: Collection[str]
) -> tuple[ChangedSetting, ...]:
    """Everything known to differ, what was allowed first. UsageError for what makes the two incomparable."""
    found = _incomparable_differences(baseline, candidate)
    refused = [each for each in found if each.name not in allowed]
    if refused:
        raise _refusal_message(refused)
    others = _other_differences(baseline, candidate)
    return (*(replace(each, allowed=True) for each in found), *others)


def _refusal_message(refused: Sequence[ChangedSetting]) -> UsageError:
    what = "; ".join(f"{each.name} was {each.before}, is {each.after}" for each in refused)
    names = [each.name for each in refused if each.name in INCOMPARABLE]
    flags = " ".join(f"--allow-different {name}" for name in names)
    hint = f"To compare anyway, with a note in the result: {flags}" if len(names) == len(refused) else None
    return UsageError(f"The two runs cannot be compared: {what}.", hint=hint)


def _incomparable_differences(baseline: CheckSample, candidate: CheckSample) -> list[ChangedSetting]:
    found = []
    before, after = baseline.subject, candidate.subject
    if before.task and after.task and before.task != after.task:
        found.append(ChangedSetting("task", before.task, after.task))
    elif _prompts_digest(baseline) != _prompts_digest(candidate) and None not in (
        _prompts_digest(baseline),
        _prompts_digest(candidate),
    ):
        found.append(ChangedSetting("task", _version(before.task, baseline), _version(after.task, candidate)))
    if before.language and after.language and before.language != after.language:
        found.append(ChangedSetting("language", before.language, after.language))
    if baseline.run is not None and candidate.run is not None:
        found += _decoding(baseline.run.settings, candidate.run.settings)
        if baseline.simulated != candidate.simulated:
            kinds = ["simulated" if side.simulated else "measured" for side in (baseline, candidate)]
            found.append(ChangedSetting("kind of server", kinds[0], kinds[1]))
    if uses_same_tokenizer(baseline, candidate) is False:
        found.append(_tokenizers(baseline, candidate))
    return found


def _prompts_digest(sample: CheckSample) -> str | None:
    return None if sample.run is None else sample.run.prompts_digest


def _version(task: str, sample: CheckSample) -> str:
    return f"{task} (text {_prompts_digest(sample)})"


def refuse_other_decoding(before: RunSettings, after: RunSettings, allowed: Collection[str]) -> None:
    """UsageError before anything is sent for a comparison that would be refused afterwards."""
    found = _decoding(before, after)
    if found and "decoding" not in allowed:
        raise _refusal_message(found)


def _decoding(before: RunSettings, after: RunSettings) -> list[ChangedSetting]:
    old, new = asdict(before.decoding), asdict(after.decoding)
    names = [name for name in old if old[name] != new[name]]
    if not names:
        return []
    words = [_sent_values((name, side[name]) for name in names) for side in (old, new)]
    return [ChangedSetting("decoding", words[0], words[1])]


def _sent_values(values: Iterable[tuple[str, object]]) -> str:
    return ", ".join(f"{name} {'not sent' if value is None else repr(value)}" for name, value in values)


def uses_same_tokenizer(baseline: CheckSample, candidate: CheckSample) -> bool | None:
    """Whether both have the same tokenizer; None where that is unknown.

    By the texts of common token ids; else by the prompt tokens of common prompts: lengths that differ by
    other amounts from prompt to prompt are another tokenizer's.
    """
    old, new = baseline.token_texts, candidate.token_texts
    common = old.keys() & new.keys()
    if len(common) >= _FEWEST_IDS:
        other = sum(old[each] != new[each] for each in common)
        return other <= _MAX_DIFFERING_SHARE * len(common)
    lengths = [
        {g.prompt_text: g.prompt_tokens for g in side.certifying if g.prompt_tokens is not None}
        for side in (baseline, candidate)
    ]
    steps = {lengths[0][text] - lengths[1][text] for text in lengths[0].keys() & lengths[1].keys()}
    if len(steps) > 1:
        return False
    return True if steps == {0} and len(lengths[0].keys() & lengths[1].keys()) > 1 else None


def _tokenizers(baseline: CheckSample, candidate: CheckSample) -> ChangedSetting:
    """Shows a token of both, where ids are known: the names of two tokenizers may be the same."""
    old, new = baseline.token_texts, candidate.token_texts
    each = min((token for token in old.keys() & new.keys() if old[token] != new[token]), default=None)
    if each is None:
        before, after = (f"the tokenizer of {side.subject.model}" for side in (baseline, candidate))
    else:
        before, after = (f"one whose token {each} is {side[each]!r}" for side in (old, new))
    return ChangedSetting("tokenizer", before, after)


def _other_differences(baseline: CheckSample, candidate: CheckSample) -> list[ChangedSetting]:
    found = []
    if (
        baseline.subject.model
        and candidate.subject.model
        and baseline.subject.model != candidate.subject.model
    ):
        found.append(ChangedSetting("model", baseline.subject.model, candidate.subject.model))
    if baseline.run is None or candidate.run is None:
        return found
    before, after = baseline.run, candidate.run
    found += profile_changes(before.profile, after.profile)
    pairs = (
        (QUANTIZATION, quantization(before), quantization(after)),
        ("requested length", _rung(baseline), _rung(candidate)),
        ("rigor", before.settings.rigor, after.settings.rigor),
        ("concurrency", str(before.settings.concurrency), str(after.settings.concurrency)),
        ("seeds", _yes(before.settings.send_seed, "sent"), _yes(after.settings.send_seed, "sent")),
        (
            "logprobs",
            _yes(before.settings.logprobs, "requested"),
            _yes(after.settings.logprobs, "requested"),
        ),
        ("logprobs mode", before.profile.logprobs_mode, after.profile.logprobs_mode),
        ("stresstest version", before.tool_version, after.tool_version),
    )
    return [*found, *(ChangedSetting(name, old, new) for name, old, new in pairs if old != new)]


def _yes(done: bool, what: str) -> str:
    return what if done else f"not {what}"


def quantization(run: Run) -> str | None:
    """The quantization in the name of the served files or of the model: the server does not report it."""
    match = _QUANTIZATION.search(run.profile.root or "") or _QUANTIZATION.search(run.settings.subject.model)
    return match[0].lower() if match else None


def _rung(sample: CheckSample) -> str | None:
    """The length that the certifying answers requested."""
    requested = {(g.job.units, g.job.max_tokens) for g in sample.certifying}
    found = (f"{f'{units} units, ' if units else ''}at most {cap:,} tokens" for units, cap in requested)
    return "; ".join(sorted(found)) or None
