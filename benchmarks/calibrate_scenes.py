"""Simulated models for calibration through text: scenarios with short onsets, and how jobs are played."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from stresstest.detectors import Panel, PanelSpec
from stresstest.diagnosis import annotate
from stresstest.model import (
    EndpointProfile,
    FailureKind,
    Generation,
    Job,
    ServiceFailure,
    SymptomKind,
    Token,
    Verdict,
)
from stresstest.simulation.engine import Engine, EngineSpec, Hazard, ModelSpec, Scenario, SimRequest
from stresstest.simulation.engine import Sequence as Running
from stresstest.simulation.engine.distribution import Distribution, Lognormal, Uniform
from stresstest.simulation.engine.virtual import run_virtual
from stresstest.simulation.engine.vocabulary import EOS, chat, piece
from stresstest.tasks import Prompt, Task, load_task

CONCURRENCY = 8
# Tokens observed after an alarm. The product keeps 256; fewer cost less and change the dating of few onsets.
KEPT_AFTER = 64
_LOOKED_EVERY = 8
_ATTEMPTS = 4
_PROFILE = EndpointProfile("", "simulated")


@dataclass(frozen=True, slots=True)
class Written:
    """A generation as the product would store it (without its tokens), and the truth: its onset, if begun."""

    generation: Generation
    onset: int | None


@dataclass(frozen=True, slots=True)
class Scene:
    """A scenario, its prompts and how far to look. truth_limit: tokens within which the true T lies."""

    name: str
    scenario: Scenario
    horizon: int = 2048
    truth_limit: int = 264
    language: str = "it"
    tokens_per_unit: float = 60.0

    @property
    def task(self) -> Task:
        return _TASK

    def engine(self, seed: int) -> Engine:
        return Engine(self.scenario, seed=seed)

    def prompt(self, index: int, units: int) -> Prompt:
        return self.task.prompt(self.language, index, units)

    def spec(self, prompt: Prompt) -> PanelSpec:
        text = "\n".join(m.content for m in prompt.messages)
        pattern = self.task.language(self.language).unit_pattern
        return PanelSpec(language=self.language, unit_pattern=pattern, units=prompt.units, prompt_text=text)

    def unjudged(
        self, engine: Engine, units: int, numbers: Iterable[int], limit: int
    ) -> list[tuple[int | None, int]]:
        """(true onset, tokens) of answers to the scene's prompts, written up to `limit` or their onset."""
        distinct = self.task.distinct(self.language)
        asked = [request(self.prompt(n % distinct, units), limit, 1_000_003 + n) for n in numbers]
        run = run_virtual(engine, asked, concurrency=256, leave=lambda s: s.onset is not None)
        return [(_onset(s), s.written) for s in run.sequences]


def request(prompt: Prompt, max_tokens: int, seed: int) -> SimRequest:
    messages = tuple((m.role, m.content) for m in prompt.messages)
    return SimRequest(tuple(chat(messages)), max_tokens, messages=messages, seed=seed)


class Reader:
    """The client of one sequence: its tokens into a panel, away some tokens after an alarm."""

    def __init__(self, spec: PanelSpec) -> None:
        self.panel = Panel(spec)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._read = 0
        self._alarm: int | None = None

    def read(self, running: Running) -> bool:
        """Take what is new; True when enough was seen after an alarm."""
        for written in running.output[self._read :]:
            text = "" if written.id == EOS else self._decoder.decode(piece(written.id))
            self.panel.update(Token(text, written.id, written.logprob, written.entropy))
        self._read = len(running.output)
        if self._alarm is None:
            if self._read % _LOOKED_EVERY == 0 and self.panel.alarm is not None:
                self._alarm = self._read
            return False
        return self._read - self._alarm >= KEPT_AFTER


def play(scene: Scene, engine: Engine, jobs: Sequence[Job]) -> list[Written]:
    """One stage, at the campaign's concurrency; refused requests are tried again, as the product does."""
    found: list[Written] = []
    waiting = [(job, scene.prompt(job.prompt_index, job.units or 1)) for job in jobs]
    for attempt in range(1, _ATTEMPTS + 1):
        asked = [request(prompt, job.max_tokens, job.seed) for job, prompt in waiting]
        readers = {id(r): Reader(scene.spec(p)) for r, (_, p) in zip(asked, waiting, strict=True)}
        run = run_virtual(engine, asked, concurrency=CONCURRENCY, leave=partial(_enough, readers))
        answered = {id(s.request): s for s in run.sequences}
        refused = []
        for r, (job, prompt) in zip(asked, waiting, strict=True):
            if (sequence := answered.get(id(r))) is not None:
                found.append(_written(job, prompt, sequence, readers[id(r)], attempt))
            elif attempt == _ATTEMPTS:
                found.append(_refused(job, prompt, attempt))
            else:
                refused.append((job, prompt))
        waiting = refused
        if not waiting:
            break
    judged = annotate([w.generation for w in found], (), _PROFILE)
    return [Written(g, w.onset) for g, w in zip(judged, found, strict=True)]


def _enough(readers: Mapping[int, Reader], running: Running) -> bool:
    return readers[id(running.request)].read(running)


def _written(job: Job, prompt: Prompt, sequence: Running, reader: Reader, attempts: int) -> Written:
    reader.read(sequence)
    fault = sequence.fault
    failure = None
    if sequence.finish_reason == "abort" and fault is not None and sequence.written >= fault.at_token:
        kind = FailureKind.CUT if fault.kind == "disconnect" else FailureKind.STALL
        failure = ServiceFailure(kind, f"simulated {fault.kind}", at_token=sequence.written)
    aborted = sequence.finish_reason == "abort" and failure is None
    reason = None if sequence.finish_reason == "abort" else sequence.finish_reason
    verdict: Verdict = reader.panel.finish(reason)
    generation = Generation(
        job=job,
        prompt_id=prompt.id,
        prompt_text="",
        tokens=(),
        verdict=verdict,
        finish_reason=reason,
        failure=failure,
        aborted=aborted,
        output_tokens=sequence.written,
        attempts=attempts,
    )
    return Written(generation, _onset(sequence))


def _onset(sequence: Running) -> int | None:
    """The true onset, if it has begun: an answer that ends (EOS) where it would have begun is healthy."""
    onset = sequence.onset
    if onset is None or onset > sequence.written:
        return None
    ended = sequence.output[onset - 1].id == EOS and sequence.symptom != SymptomKind.TRUNCATION
    return None if ended else onset


def _refused(job: Job, prompt: Prompt, attempts: int) -> Written:
    failure = ServiceFailure(FailureKind.HTTP_ERROR, "HTTP 500 (simulated)", status=500)
    verdict = Verdict(tokens=0, observed=0)
    return Written(Generation(job, prompt.id, "", (), verdict, failure=failure, attempts=attempts), None)


_TASK = load_task("narrative")
_SHORT = Lognormal(300.0, 0.25)


def _scene(name: str, *hazards: Hazard) -> Scene:
    return Scene(name, Scenario(name, "", ModelSpec(tokens_per_unit=60.0), EngineSpec(), hazards))


def _alone(symptom: str, onset: Distribution = _SHORT) -> Scene:
    return _scene(symptom, Hazard(symptom, onset=onset))


_FAULTS = (
    Hazard("http_500", probability=0.2 / 3),
    Hazard("disconnect", onset=Uniform(1.0, 350.0), probability=0.2 / 3),
    Hazard("stall", onset=Uniform(1.0, 350.0), probability=0.2 / 3),
)


def _early(scene: Scene, median: float) -> Scene:
    model = replace(scene.scenario.model, early_end=Lognormal(median, 0.5))
    return replace(scene, name=f"{scene.name}, early ends", scenario=replace(scene.scenario, model=model))


CELLS: dict[str, Scene] = {
    scene.name: scene
    for scene in (
        *map(
            _alone,
            (
                "loop",
                "near_loop",
                "flooding",
                "language_drift",
                "gibberish",
                "structure_break",
                "truncation",
            ),
        ),
        _scene(
            "mixture",
            Hazard("loop", onset=_SHORT, probability=0.5),
            Hazard("language_drift", onset=Lognormal(400.0, 0.3), probability=0.5),
            Hazard("flooding", onset=Lognormal(350.0, 0.5), probability=0.3),
        ),
        _early(_alone("language_drift"), 350.0),
        _scene("loop, 20 % of requests fail", Hazard("loop", onset=_SHORT), *_FAULTS),
        replace(_scene("healthy"), horizon=768, truth_limit=768),
    )
}
