"""The answers of a stored run, and forks of a diagnosis, as an export needs them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from stresstest.campaign.conclusion.conclude import find_diagnosis
from stresstest.campaign.prompt_source import PromptSource, load_prompt_source, prompt_text
from stresstest.detectors.identification.inference import infer_language
from stresstest.diagnosis.evidence.server import is_lost
from stresstest.diagnosis.intervention.forks import cut_fork
from stresstest.errors import UsageError
from stresstest.features.export.answers import (
    IN_DOUBT,
    LOST,
    NOT_ENDED,
    OFFERED,
    OTHER_LANGUAGE,
    PARTIAL_PROMPT,
    REASONING,
    AskedPrompt,
    ExportedAnswer,
    LeftOutAnswer,
)
from stresstest.features.export.pairing import PreferencePair
from stresstest.model import CauseLink, Generation, GenerationRecord, Run, Token
from stresstest.model.request import request_fields
from stresstest.records.formats.bodies.turns import beside_text
from stresstest.store.repository import Store

_SENTENCE_END = re.compile(r"[.!?…。！？][\"'»”’)\]]*(?=\s|$)")


def run_answers(store: Store, run: Run, copies: int) -> Iterator[ExportedAnswer | LeftOutAnswer]:
    """Every answer of a run; a degenerate one is cut `copies` copies after its onset.

    Raises UsageError where the run's prompts are no longer what they were.
    """
    prompts = load_prompt_source(run.settings)
    for generation in store.generations(run.id):
        if is_lost(generation):
            yield LeftOutAnswer(LOST)
        elif _reasons(generation):
            yield LeftOutAnswer(REASONING)
        else:
            answer = _answer(run, prompts, generation, copies)
            reason = _without_place(answer)
            yield answer if reason is None else LeftOutAnswer(reason)


def _without_place(answer: ExportedAnswer) -> str | None:
    """Why an answer cannot be in a pair, or None. A stored run does not tell a call's arguments from text."""
    prompt = answer.prompt
    fields = answer.decoding.extra() | request_fields(prompt.body)
    if (fields.get("tools") or fields.get("functions")) and fields.get("tool_choice") != "none":
        return OFFERED
    wires = [json.loads(turn.wire) for turn in prompt.messages if turn.wire is not None]
    return PARTIAL_PROMPT if beside_text(wires) else None


def _reasons(generation: Generation) -> bool:
    """Marked by a parser, or, as the verdict knows, between tags in the text."""
    return generation.verdict.reasoning > 0 or any(token.reasoning for token in generation.tokens)


def _answer(run: Run, prompts: PromptSource, generation: Generation, copies: int) -> ExportedAnswer:
    verdict, end = generation.verdict, rejected_end(generation, copies)
    kept = generation.tokens[:end]
    text = joined(kept)
    return ExportedAnswer(
        source=run.id,
        key=generation.key,
        prompt=asked_prompt(run, prompts, generation),
        subject=run.settings.subject,
        decoding=run.settings.decoding,
        text=text,
        tokens=len(kept),
        prompt_tokens=generation.prompt_tokens,
        onset=verdict.onset,
        onset_char=None if verdict.onset is None else len(joined(kept[: verdict.onset - 1])),
        symptom=verdict.symptom and str(verdict.symptom),
        flaw=None if verdict.degenerate else _flaw(generation, text, run.settings.subject.language),
    )


def rejected_end(generation: Generation, copies: int) -> int:
    """Last token kept of an answer: all of a healthy one, `copies` copies from the onset of a degenerate one.

    Never before the alarm, so that what is rejected shows the failure; and that much where nothing repeats.
    """
    verdict = generation.verdict
    if verdict.onset is None:
        return len(generation.tokens)
    return max(verdict.onset - 1 + copies * verdict.copy_length, verdict.alarm or verdict.onset)


def joined(tokens: Sequence[Token]) -> str:
    """The text of some tokens."""
    return "".join(token.text for token in tokens)


def _flaw(generation: Generation, text: str, language: str) -> str | None:
    if generation.finish_reason != "stop" or generation.aborted or not text.strip():
        return NOT_ENDED
    if generation.verdict.observed < generation.verdict.tokens:
        return IN_DOUBT
    if language and infer_language(text) not in (None, language):
        return OTHER_LANGUAGE
    return None


def asked_prompt(run: Run, prompts: PromptSource, generation: GenerationRecord) -> AskedPrompt:
    """The prompt of a generation. Raises UsageError where the task or file no longer holds it."""
    job = generation.job
    if prompt_text(prompts.prompt_at(job.prompt_index, job.units)) != generation.prompt_text:
        raise UsageError(
            f"The prompts of run {run.id} have changed since it was measured.",
            hint="Put its task or --prompts file back as it was, or export another run.",
        )
    settings = replace(run.settings, decoding=replace(run.settings.decoding, system_prompt=None))
    prompt = replace(prompts, settings=settings).prompt_at(job.prompt_index, job.units)
    topic = None if prompt.topic is None else f"{run.settings.subject.task}/{prompt.topic}"
    pattern = prompts.unit_pattern
    return AskedPrompt(prompt.id, prompt.messages, prompt.text, topic, prompt.units, pattern, prompt.body)


def forked_pairs(store: Store, run: Run, copies: int) -> Iterator[PreferencePair | LeftOutAnswer]:
    """Of each fork of a run's diagnosis: what followed the cut, and what the first arm that held made of it.

    Raises UsageError where the run's prompts are no longer what they were.
    """
    link = fork_link(store, run)
    if link is None:
        return
    prompts = load_prompt_source(run.settings)
    arms = {arm.name: arm.changed for arm in link.arms}
    answers: dict[tuple[int | None, ...], dict[str, GenerationRecord]] = {}
    sources = [record for record in store.records(run.id) if record.verdict.degenerate]
    for record in store.arm_records(run.id):
        if record.job.arm in arms:
            answers.setdefault(_fork_key(record), {})[record.job.arm] = record
        elif record.verdict.degenerate:
            sources.append(record)
    load = store.loader(run.id)
    for source in sources:
        continued = answers.pop(_fork_key(source), None)
        if continued is None:
            continue
        rejected = load(source)
        if _reasons(rejected):
            yield LeftOutAnswer(REASONING)
            continue
        cut = cut_fork(rejected, prompts.unit_pattern).cut
        end = rejected_end(rejected, copies)
        held = [continued[name] for name in arms if name in continued]
        held = [each for each in held if _holds(each, (rejected.verdict.onset or 1) - cut)]
        parts = ((each, _whole_sentences(load(each), end - cut)) for each in held)
        arm, kept = next(((each, part) for each, part in parts if part), (None, 0))
        if arm is None:
            yield LeftOutAnswer("forks that no arm of the diagnosis kept healthy")
            continue
        bad = _answer(run, prompts, rejected, copies)
        prefix = joined(rejected.tokens[:cut])
        good = replace(
            bad,
            key=arm.key,
            text=prefix + joined(load(arm).tokens[:kept]),
            tokens=cut + kept,
            onset=None,
            onset_char=None,
            symptom=None,
        )
        yield PreferencePair(good, bad, len(prefix), arms[arm.job.arm])


def fork_link(store: Store, run: Run) -> CauseLink | None:
    """The link of a stored diagnosis that continued this run's answers; None without one."""
    found = find_diagnosis(store, run)
    links = () if found is None else found.chain
    return next((link for link in links if link.run_id == run.id and not link.from_scratch), None)


def _fork_key(record: GenerationRecord) -> tuple[int | None, ...]:
    """What an arm's answer shares with the answer that it continues."""
    job = record.job
    return job.rung, job.index, job.prompt_index, job.units


def _holds(continuation: GenerationRecord, needed: int) -> bool:
    """Whether a continuation stayed healthy past the place of the original onset."""
    verdict = continuation.verdict
    return continuation.failure is None and not verdict.degenerate and verdict.observed >= needed


def _whole_sentences(continuation: Generation, most: int) -> int:
    """How many of at most `most` tokens of a continuation end with a sentence; 0 where none does."""
    most = min(most, continuation.verdict.observed)
    if most == len(continuation.tokens) and continuation.finish_reason == "stop":
        return most
    end = max(
        (match.end() for match in _SENTENCE_END.finditer(joined(continuation.tokens[:most]))), default=0
    )
    length = 0
    for count, token in enumerate(continuation.tokens[:most], 1):
        length += len(token.text)
        if length > end:
            return count - 1
    return most if end else 0
