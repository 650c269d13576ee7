"""Explains a decided link (structure, length, entropy) and tries the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from stresstest.campaign.execution.driver import GenerationTask
from stresstest.detectors.entry import DetectorSpec
from stresstest.diagnosis.evidence.server import is_lost
from stresstest.diagnosis.intervention.ablation import (
    LONGER,
    LONGER_PROMPTS,
    OPEN,
    compare_ablation,
    open_prompts_needed,
)
from stresstest.diagnosis.intervention.entropy_shape import entropy_shape
from stresstest.diagnosis.intervention.forks import KEPT_UNITS, Fork, unit_start_tokens
from stresstest.diagnosis.intervention.wording import split_sentence
from stresstest.features.diagnose.cause_step import CauseStep
from stresstest.features.diagnose.intervention_runner import ALARM_HEADROOM, InterventionRunner
from stresstest.model import (
    Ablation,
    CauseLink,
    GenerationRecord,
    Job,
    Phase,
    Plane,
    SplitRemedy,
    SymptomKind,
    Token,
)
from stresstest.statistics import upper_bound
from stresstest.tasks import Prompt

_ARMS = {OPEN: "open-structure", LONGER: "twice-the-length"}
_ASKED = {_ARMS[OPEN]: "asked for without numbering", _ARMS[LONGER]: "asked for at twice the length"}
_BLIND = (
    "whether the numbered structure matters was not measured: without numbers, a structure break "
    "cannot be detected"
)
_OUTPUTS = 4
_MAX_CONTEXT_SHARE = 0.5
"""Longest context of a piece, as a share of the onset's position in the context."""
_PIECE_TOKEN_FACTOR = 1.1
"""Token limit of a piece, relative to the expected length of its units."""
_MOST_PIECES = 40


async def explain_link(
    runner: InterventionRunner, examined: CauseStep, generations: Sequence[GenerationRecord]
) -> CauseLink:
    """The link with its explanation and, for a context limit, the result of writing the task in pieces."""
    link = examined.link
    shape = entropy_shape([f.source for f in examined.forks], map(runner.load, generations))
    link = replace(link, why=shape)
    if link.plane in (Plane.DECODING, Plane.CONTEXT) and runner.prompts.asks_units:
        certifying = [g for g in generations if g.job.phase is Phase.CERTIFY and not is_lost(g)]
        if link.symptom is SymptomKind.STRUCTURE_BREAK:
            link = replace(link, notes=(*link.notes, _BLIND))
        found = await _run_ablations(runner, examined.forks, certifying, link)
        link = replace(link, ablations=tuple(found))
    if link.plane is Plane.CONTEXT and not runner.scratch:
        link = replace(link, remedy=await _run_split(runner, examined.forks))
    return link


async def _run_ablations(
    runner: InterventionRunner, forks: Sequence[Fork], certifying: Sequence[GenerationRecord], link: CauseLink
) -> list[Ablation]:
    """Answer the first forks' topics from scratch: without numbering and, for context, twice as long."""
    task = runner.prompts.task
    assert task is not None
    language = runner.run.settings.subject.language
    window = round(median(f.window for f in forks))
    decoding = runner.run.settings.decoding
    prompt_counts: dict[str, int] = {}
    if task.language(language).open_instruction is not None and _BLIND not in link.notes:
        prompt_counts[OPEN] = open_prompts_needed(certifying, window)
    if link.plane is Plane.CONTEXT:
        prompt_counts[LONGER] = LONGER_PROMPTS
    found = []
    for name, count in prompt_counts.items():
        prompts: list[tuple[Fork, Prompt]] = []
        for fork in forks[:count]:
            job = fork.source.job
            units = (job.units or 1) * (2 if name == LONGER else 1)
            prompt = task.prompt(
                language,
                job.prompt_index,
                units,
                system_prompt=decoding.system_prompt,
                open_structure=name == OPEN,
            )
            prompts.append((fork, prompt))
        answers = await _fresh_answers(
            runner, _ARMS[name], prompts, window + ALARM_HEADROOM, structured=name != OPEN
        )
        found.append(compare_ablation(name, answers, certifying, window))
    return found


async def _fresh_answers(
    runner: InterventionRunner,
    arm: str,
    prompts: Sequence[tuple[Fork, Prompt]],
    limit: int,
    *,
    structured: bool,
) -> list[GenerationRecord]:
    """Answers from scratch; stored ones are not generated again."""

    async def make(job: Job, prompt: Prompt) -> GenerationTask:
        task = await runner.continued_task(job, prompt, runner.run.settings.decoding, (), limit)
        if structured:
            return task
        spec = DetectorSpec(
            task.spec.language,
            prompt_text=task.spec.prompt_text,
            requested_text=task.spec.requested_text,
        )
        return replace(task, spec=spec)

    jobs = [(runner.fork_job(fork, arm, limit), prompt) for fork, prompt in prompts]
    factories = {job.key: partial(make, job, prompt) for job, prompt in jobs}
    return await runner.run_missing(f"{arm}: new answers, {_ASKED[arm]}", factories)


@dataclass(slots=True)
class _SplitOutput:
    """One whole task, written in pieces."""

    fork: Fork
    prompt: Prompt
    tail: tuple[Token, ...] = ()
    units: int = 0
    pieces: int = 0
    failed: bool = False
    ended: bool = False
    tokens: int = 0


async def _run_split(runner: InterventionRunner, forks: Sequence[Fork]) -> SplitRemedy | None:
    """Write whole tasks in pieces, each from the instruction and the last units only, and count failures."""
    pattern = runner.prompts.unit_pattern
    sized = [(f, n) for f in forks if (n := len(unit_start_tokens(f.history, pattern))) > 0]
    if pattern is None or not sized:
        return None
    per_unit = median(f.cut / n for f, n in sized)
    onset = median(f.onset for f in forks)
    carried = KEPT_UNITS if onset >= 8 * KEPT_UNITS * per_unit else 1
    per_request = max(1, int(_MAX_CONTEXT_SHARE * onset / per_unit) - carried)
    decoding = runner.run.settings.decoding
    outputs = [_SplitOutput(f, runner.fork_prompt(f, decoding)) for f in forks[:_OUTPUTS]]
    limit = round(_PIECE_TOKEN_FACTOR * per_unit * per_request) + 32
    runner.progress.note(
        f"split: {len(outputs)} long outputs, written in requests of {per_request} paragraphs that see the "
        f"last {carried}"
    )
    while unfinished := [o for o in outputs if not o.ended and o.pieces < _MOST_PIECES]:
        await _run_piece(runner, unfinished, pattern, limit, carried, per_request)
    return _evaluate_split(outputs, per_request, carried)


async def _run_piece(
    runner: InterventionRunner,
    unfinished: Sequence[_SplitOutput],
    pattern: str,
    limit: int,
    carried: int,
    per_request: int,
) -> None:
    """Write the next piece of each unfinished output."""
    decoding = runner.run.settings.decoding
    jobs = [runner.fork_job(output.fork, f"split-{output.pieces}", limit) for output in unfinished]
    factories = {
        job.key: partial(runner.continued_task, job, output.prompt, decoding, output.tail, limit)
        for job, output in zip(jobs, unfinished, strict=True)
    }
    written = {
        g.key: g for g in await runner.run_missing(f"split: piece {unfinished[0].pieces + 1}", factories)
    }
    for key, output in zip(factories, unfinished, strict=True):
        generation = written.get(key)
        if generation is None:
            output.ended = True
        else:
            _append_piece(runner, output, generation, pattern, carried, per_request)


def _append_piece(
    runner: InterventionRunner,
    output: _SplitOutput,
    generation: GenerationRecord,
    pattern: str,
    carried: int,
    per_request: int,
) -> None:
    """Add the whole units of a piece to the output, and keep the last ones as context of the next piece."""
    output.pieces += 1
    output.tokens += generation.output_tokens
    verdict = generation.verdict
    if verdict.onset is not None or is_lost(generation):
        output.failed = verdict.onset is not None
        output.ended = True
        return
    tokens = runner.load(generation).tokens
    starts = unit_start_tokens(tokens, pattern)
    stopped = generation.finish_reason == "stop"
    whole = starts if stopped else starts[:-1]
    taken = min(len(whole), per_request)
    end = len(tokens) if stopped and taken == len(whole) else starts[taken] - 1 if taken else 0
    output.units += taken
    requested = output.prompt.units or 0
    output.ended = taken == 0 or (stopped and taken == len(whole)) or output.units >= requested
    kept = (*output.tail, *tokens[:end])
    again = unit_start_tokens(kept, pattern)
    output.tail = kept[again[-carried] - 1 :] if len(again) >= carried else kept


def _evaluate_split(outputs: Sequence[_SplitOutput], per_request: int, carried: int) -> SplitRemedy:
    n, failed = len(outputs), sum(o.failed for o in outputs)
    units = median(o.units for o in outputs)
    upper = upper_bound(failed, n, 0.95)
    tokens = sum(o.tokens for o in outputs)
    found = SplitRemedy(per_request, carried, n, failed, units, upper, sentence="", tokens=tokens)
    return replace(found, sentence=split_sentence(found))
