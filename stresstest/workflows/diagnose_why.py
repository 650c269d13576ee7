"""After a link is decided: why (structure, length, entropy), and whether the remedy holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from stresstest.detectors import PanelSpec
from stresstest.diagnosis.ablation import LONGER, LONGER_PROMPTS, OPEN, compared, open_prompts
from stresstest.diagnosis.entropy_shape import entropy_shape
from stresstest.diagnosis.evidence import lost
from stresstest.diagnosis.forks import KEPT_UNITS, Fork, unit_starts
from stresstest.diagnosis.wording import split_sentence
from stresstest.execution.driver import Work
from stresstest.model import Ablation, Generation, Job, Link, Phase, Plane, Remedy, SymptomKind, Token
from stresstest.tasks import Prompt
from stresstest.threshold import upper_bound
from stresstest.workflows.diagnose_bench import ALARM_ROOM, Bench
from stresstest.workflows.diagnose_link import Examined

_ARMS = {OPEN: "open-structure", LONGER: "twice-the-length"}
_BLIND = (
    "whether the numbered structure matters was not measured: without it a break of structure cannot be seen"
)
_OUTPUTS = 4
_SHARE = 0.5
"""The split's context stays below this share of the onset's place in the context."""
_ROOM = 1.1
"""Tokens that a piece may take, over those of its units; what it does not reach comes with the next."""
_MOST_PIECES = 40


async def explain(bench: Bench, examined: Examined, generations: Sequence[Generation]) -> Link:
    """The link with its why, and for a context limit with the split that was tried over the whole task."""
    link = examined.link
    shape = entropy_shape([f.source for f in examined.forks], generations)
    link = replace(link, why=shape)
    if link.plane in (Plane.DECODING, Plane.CONTEXT) and bench.prompts.task is not None:
        certifying = [g for g in generations if g.job.phase is Phase.CERTIFY and not lost(g)]
        if link.symptom is SymptomKind.STRUCTURE_BREAK:
            link = replace(link, notes=(*link.notes, _BLIND))
        found = await _ablations(bench, examined.forks, certifying, link)
        link = replace(link, ablations=tuple(found))
    if link.plane is Plane.CONTEXT and not bench.scratch:
        link = replace(link, remedy=await _remedy(bench, examined.forks))
    return link


async def _ablations(
    bench: Bench, forks: Sequence[Fork], certifying: Sequence[Generation], link: Link
) -> list[Ablation]:
    """Open structure and, for the context, twice the length: the first forks' topics, from scratch."""
    task = bench.prompts.task
    assert task is not None
    language = bench.run.settings.subject.language
    window = round(median(f.window for f in forks))
    decoding = bench.run.settings.decoding
    asked: dict[str, int] = {}
    if task.language(language).open_instruction is not None and _BLIND not in link.notes:
        asked[OPEN] = open_prompts(certifying, window)
    if link.plane is Plane.CONTEXT:
        asked[LONGER] = LONGER_PROMPTS
    found = []
    for name, many in asked.items():
        prompts: list[tuple[Fork, Prompt]] = []
        for fork in forks[:many]:
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
        answers = await _fresh(bench, _ARMS[name], prompts, window + ALARM_ROOM, structured=name != OPEN)
        found.append(compared(name, answers, certifying, window))
    return found


async def _fresh(
    bench: Bench, arm: str, prompts: Sequence[tuple[Fork, Prompt]], limit: int, *, structured: bool
) -> list[Generation]:
    """Answers from scratch, what is stored first."""

    async def make(job: Job, prompt: Prompt) -> Work:
        work = await bench.continued(job, prompt, bench.run.settings.decoding, (), limit)
        if structured:
            return work
        return replace(work, spec=PanelSpec(work.spec.language, None, None, work.spec.prompt_text))

    jobs = [(bench.job(fork, arm, limit), prompt) for fork, prompt in prompts]
    wanted = {job.key: partial(make, job, prompt) for job, prompt in jobs}
    return await bench.once(f"{arm}: from scratch", wanted)


@dataclass(slots=True)
class _Output:
    """One whole task, written in pieces."""

    fork: Fork
    prompt: Prompt
    tail: tuple[Token, ...] = ()
    units: int = 0
    pieces: int = 0
    failed: bool = False
    ended: bool = False
    tokens: int = 0


async def _remedy(bench: Bench, forks: Sequence[Fork]) -> Remedy | None:
    """Write whole tasks in pieces, each with the instruction and the last units only; count what fails."""
    pattern = bench.prompts.unit_pattern
    sized = [(f, n) for f in forks if (n := len(unit_starts(f.history, pattern))) > 0]
    if pattern is None or not sized:
        return None
    per_unit = median(f.cut / n for f, n in sized)
    onset = median(f.onset for f in forks)
    carried = KEPT_UNITS if onset >= 8 * KEPT_UNITS * per_unit else 1
    per_request = max(1, int(_SHARE * onset / per_unit) - carried)
    decoding = bench.run.settings.decoding
    outputs = [_Output(f, bench.prompt(f, decoding)) for f in forks[:_OUTPUTS]]
    limit = round(_ROOM * per_unit * per_request) + 32
    bench.progress.note(f"split: {per_request} units a request, {carried} carried, {len(outputs)} outputs")
    while True:
        going = [o for o in outputs if not o.ended and o.pieces < _MOST_PIECES]
        if not going:
            break
        await _piece(bench, going, pattern, limit, carried, per_request)
    return _judge_split(outputs, per_request, carried)


async def _piece(
    bench: Bench, going: Sequence[_Output], pattern: str, limit: int, carried: int, per_request: int
) -> None:
    """The next piece of each output that goes on."""
    decoding = bench.run.settings.decoding
    jobs = [bench.job(output.fork, f"split-{output.pieces}", limit) for output in going]
    wanted = {
        job.key: partial(bench.continued, job, output.prompt, decoding, output.tail, limit)
        for job, output in zip(jobs, going, strict=True)
    }
    written = {g.key: g for g in await bench.once(f"split: piece {going[0].pieces + 1}", wanted)}
    for key, output in zip(wanted, going, strict=True):
        generation = written.get(key)
        if generation is None:
            output.ended = True
        else:
            _append(output, generation, pattern, carried, per_request)


def _append(output: _Output, generation: Generation, pattern: str, carried: int, per_request: int) -> None:
    """Take what a piece has written, whole units only, and what the next one carries on."""
    output.pieces += 1
    output.tokens += generation.output_tokens
    verdict = generation.verdict
    starts = unit_starts(generation.tokens, pattern)
    stopped = generation.finish_reason == "stop"
    if verdict.onset is not None or lost(generation):
        output.failed = verdict.onset is not None
        output.ended = True
        return
    whole = starts if stopped else starts[:-1]
    taken = min(len(whole), per_request)
    end = len(generation.tokens) if stopped and taken == len(whole) else starts[taken] - 1 if taken else 0
    output.units += taken
    asked = output.prompt.units or 0
    output.ended = taken == 0 or (stopped and taken == len(whole)) or output.units >= asked
    kept = (*output.tail, *generation.tokens[:end])
    again = unit_starts(kept, pattern)
    output.tail = kept[again[-carried] - 1 :] if len(again) >= carried else kept


def _judge_split(outputs: Sequence[_Output], per_request: int, carried: int) -> Remedy:
    n, failed = len(outputs), sum(o.failed for o in outputs)
    units = median(o.units for o in outputs)
    upper = upper_bound(failed, n, 0.95)
    tokens = sum(o.tokens for o in outputs)
    found = Remedy(per_request, carried, n, failed, units, upper, sentence="", tokens=tokens)
    return replace(found, sentence=split_sentence(found))
