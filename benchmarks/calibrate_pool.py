"""A pool of answers of one simulated model: written once by the engine, judged by the suite, truth beside it.

Every answer is asked for the longest cap and written in virtual time under continuous batching. The client
reads it token by token and goes away some tokens after its alarm, as the product does; the engine writes on
until the true onset is known, unread. What the client would have had under a shorter cap is judged again
from the tokens up to there, for the caps that are asked for and no others.
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.calibrate_scenes import Scene, request
from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.suite import DetectorSuite
from stresstest.diagnosis import annotate_planes
from stresstest.model import (
    EndpointProfile,
    FailureKind,
    Generation,
    GenerationRecord,
    GenerationVerdict,
    Job,
    Observation,
    Phase,
    Plane,
    ServiceFailure,
    SymptomKind,
    Token,
)
from stresstest.simulation.engine import Engine, SimRequest
from stresstest.simulation.engine import Sequence as Running
from stresstest.simulation.engine.hazards import stable_uniform
from stresstest.simulation.engine.virtual import run_virtual
from stresstest.simulation.engine.vocabulary import EOS, token_bytes
from stresstest.simulation.engine.writing import EmittedToken
from stresstest.statistics import observations
from stresstest.statistics.sample import CensoredObservation, censor
from stresstest.tasks import Prompt

CONCURRENCY = 8
# Tokens observed after an alarm, and how often one looks for it: as the product does.
KEPT_AFTER = 256
_LOOKED_EVERY = 8
_ATTEMPTS = 4
_BATCH = 250
_PROFILE = EndpointProfile("", "simulated")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the client had of one answer, and the truth.

    output: tokens read. reason: of the finish; None where the client went away or the service lost it.
    verdict: the suite's, under the longest cap. lost: how. onset: true, None when it ends in health or
    nothing began within the longest cap. end: tokens of an answer that ended in health, else the longest cap.
    """

    prompt: Prompt
    output: tuple[EmittedToken, ...]
    reason: str | None
    verdict: GenerationVerdict
    lost: ServiceFailure | None
    attempts: int
    onset: int | None
    end: int

    def stands(self, cap: int) -> bool:
        """Would it have been the same under this cap? The model's own end may fall on the cap."""
        return len(self.output) < cap or (len(self.output) == cap and self.reason == "stop")


@dataclass(slots=True)
class Found:
    """What the suite made of the answers, each once, against the truth; late and delay in tokens.

    missed: failing, and counted healthy at the onset. doubtful: no onset found, and not counted healthy there
    without doubt: as failing after its last healthy token, or not at all from there on. false: an onset where
    there was none. late: verdict's onset (in doubt: the token after the last healthy one) - true onset.
    delay: alarm - true onset.
    """

    answers: int = 0
    failing: int = 0
    missed: int = 0
    doubtful: int = 0
    false: int = 0
    lost: int = 0
    lost_as_system: int = 0
    late: list[int] = field(default_factory=list)
    delay: list[int] = field(default_factory=list)

    def take(self, answer: Answer, generation: GenerationRecord) -> None:
        verdict = generation.verdict
        onset = answer.onset
        if onset is not None and answer.lost is not None and onset > len(answer.output):
            onset = None  # lost before it
        self.answers += 1
        self.failing += onset is not None
        if generation.failure is not None and verdict.onset is None:
            self.lost += 1
            self.lost_as_system += generation.plane is Plane.SYSTEM
        if onset is None:
            self.false += verdict.onset is not None
        elif verdict.onset is None:
            self._take_unfound(onset, censor(observations([generation])[0]))
        else:
            self.late.append(verdict.onset - onset)
            self.delay.append((verdict.alarm or onset) - onset)

    def _take_unfound(self, onset: int, seen: CensoredObservation) -> None:
        if seen.doubtful:
            self.late.append(seen.reach + 1 - onset)
        missed = not seen.doubtful and seen.reach >= onset
        self.missed += missed
        self.doubtful += not missed


class Pool:
    """Answers to one requested length. `generation` judges one under a cap, and remembers."""

    def __init__(self, scene: Scene, units: int, answers: Sequence[Answer]) -> None:
        self.scene = scene
        self.units = units
        self.answers = tuple(answers)
        self.judged_again = 0
        self._judged: dict[tuple[int, int], GenerationRecord] = {}
        self._truth: dict[float, int] = {}

    def generation(self, index: int, job: Job) -> GenerationRecord:
        """Answer `index` as the product would have stored it for this job, without its text."""
        answer = self.answers[index]
        cap = min(job.max_tokens, self.scene.horizon)
        key = (index, self.scene.horizon if answer.stands(cap) else cap)
        if key not in self._judged:
            self.judged_again += key[1] != self.scene.horizon
            self._judged[key] = _generation(self.scene, answer, key[1])
        return replace(self._judged[key], job=job)

    def found(self) -> Found:
        """The suite against the truth, over all answers at the longest cap."""
        found = Found()
        for index, answer in enumerate(self.answers):
            job = Job(Phase.CERTIFY, 1, index, self.units, index, index, self.scene.horizon)
            found.take(answer, self.generation(index, job))
        return found

    def known(self, index: int, cap: int) -> Observation:
        """The observation that a detector without error would have made."""
        answer = self.answers[index]
        stop = min(answer.end, cap)
        if answer.lost is not None:
            stop = min(stop, answer.lost.at_token)
        if answer.onset is not None and answer.onset <= stop:
            return Observation(answer.onset, answer.onset - 1)
        return Observation(None, stop)

    def risk(self, tokens: int) -> float:
        """q(T), counted over all answers by their true onsets."""
        bad = sum(a.onset is not None and a.onset <= tokens for a in self.answers)
        gone = sum(a.onset is None and a.end < tokens for a in self.answers)
        return bad / (len(self.answers) - gone)

    def truth(self, alpha: float) -> int:
        """The largest T with q(T) <= alpha, counted over all answers; the horizon if q never exceeds it."""
        if alpha not in self._truth:
            failed = np.sort([a.onset for a in self.answers if a.onset is not None])
            ended = np.sort([a.end for a in self.answers if a.onset is None])
            grid = np.arange(1, self.scene.horizon + 1)
            bad = np.searchsorted(failed, grid, side="right")
            gone = np.searchsorted(ended, grid, side="left")
            over = np.flatnonzero(bad > alpha * (len(self.answers) - gone))
            self._truth[alpha] = int(grid[over[0]]) - 1 if len(over) else self.scene.horizon
        return self._truth[alpha]


class _Client:
    """Reads one stream into a suite; away some tokens after an alarm, or where its connection is lost.

    end: tokens from which on the answer is closed with its sentence, whatever is written after it.
    """

    def __init__(self, spec: DetectorSpec, end: float | None = None) -> None:
        self.suite = DetectorSuite(spec)
        self.read = 0
        self.away = self.closed = False
        self._end = math.inf if end is None else end
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._alarm: int | None = None

    def take(self, written: Iterable[EmittedToken]) -> bool:
        """New tokens; True once the client has gone."""
        for each in written:
            text = "" if each.id == EOS else self._decoder.decode(token_bytes(each.id))
            self.suite.update(Token(text, each.id, each.logprob, each.entropy))
            self.read += 1
            if self._alarm is None and self.read % _LOOKED_EVERY == 0 and self.suite.alarm is not None:
                self._alarm = self.read
            self.closed = self.read >= self._end and text.rstrip().endswith(".")
            self.away = self.closed or (self._alarm is not None and self.read - self._alarm >= KEPT_AFTER)
            if self.away:
                break
        return self.away

    def verdict(self, reason: str | None) -> GenerationVerdict:
        """Of all that was read; without the symptoms and zones, which nothing here asks for."""
        return replace(self.suite.finish(reason), symptoms=(), zones=())


def make_pool(scene: Scene, units: int, answers: int) -> Pool:
    """Independent answers: each has its own seed, and prompts go round."""
    found: list[Answer] = []
    for start in range(0, answers, _BATCH):
        engine = scene.engine(start)
        waiting = []
        for number in range(start, min(start + _BATCH, answers)):
            prompt = scene.prompt(number, units)
            waiting.append((prompt, request(prompt, scene.horizon, 1_000_003 + number)))
        for attempt in range(1, _ATTEMPTS + 1):
            waiting = _written(scene, engine, waiting, attempt, found)
    return Pool(scene, units, found)


def _written(
    scene: Scene,
    engine: Engine,
    asked: Sequence[tuple[Prompt, SimRequest]],
    attempt: int,
    found: list[Answer],
) -> list[tuple[Prompt, SimRequest]]:
    """One attempt at all of `asked`: answers go to `found`, what was refused comes back."""
    clients = {id(r): _Client(scene.spec(p), _end(scene, r)) for p, r in asked}

    def leave(running: Running) -> bool:
        client = clients[id(running.request)]
        return (client.away or client.take(running.output[client.read :])) and _begun(running)

    run = run_virtual(engine, [r for _, r in asked], concurrency=CONCURRENCY, leave=leave)
    answered = {id(s.request): s for s in run.sequences}
    refused = []
    for prompt, asking in asked:
        sequence = answered.get(id(asking))
        if sequence is not None:
            found.append(_answer(scene, prompt, sequence, clients[id(asking)], attempt))
        elif attempt < _ATTEMPTS:
            refused.append((prompt, asking))
        else:
            onset, end = _truth(scene, asking)
            failure = ServiceFailure(FailureKind.HTTP_ERROR, "HTTP 500 (simulated)", status=500)
            found.append(Answer(prompt, (), None, GenerationVerdict(0, 0), failure, attempt, onset, end))
    return refused


def _end(scene: Scene, asked: SimRequest) -> float | None:
    if scene.ends is None or asked.seed is None:
        return None
    return scene.ends.quantile(stable_uniform(asked.seed, "ends with its sentence"))


def _answer(scene: Scene, prompt: Prompt, sequence: Running, client: _Client, attempts: int) -> Answer:
    if not client.away:
        client.take(sequence.output[client.read :])
    fault, lost, aborted = sequence.fault, None, sequence.finish_reason == "abort"
    if aborted and not client.away and fault is not None:
        kind = FailureKind.CUT if fault.kind == "disconnect" else FailureKind.STALL
        lost = ServiceFailure(kind, f"simulated {fault.kind}", at_token=sequence.written)
    whole = client.read == sequence.written and not aborted
    reason = sequence.finish_reason if whole else None
    onset, end = _onset(sequence), sequence.written
    if onset is None and aborted:
        onset, end = _truth(scene, sequence.request)
    if client.closed:
        reason, end = "stop", client.read
        onset = onset if onset is not None and onset <= end else None
    output = tuple(sequence.output[: client.read])
    return Answer(prompt, output, reason, client.verdict(reason), lost, attempts, onset, end)


def _truth(scene: Scene, asked: SimRequest) -> tuple[int | None, int]:
    """True onset and end of an answer that the service lost: the same request, had nothing failed."""
    (sequence,) = run_virtual(Engine(scene.quiet), [asked], concurrency=1, leave=_begun).sequences
    return _onset(sequence), sequence.written


def _begun(running: Running) -> bool:
    return running.onset is not None and running.written > running.onset


def _onset(sequence: Running) -> int | None:
    """The true onset, if it has begun: an answer that ends (EOS) where it would have begun is healthy."""
    onset = sequence.onset
    if onset is None or onset > sequence.written:
        return None
    ended = sequence.output[onset - 1].id == EOS and sequence.symptom != SymptomKind.TRUNCATION
    return None if ended else onset


def _generation(scene: Scene, answer: Answer, cap: int) -> GenerationRecord:
    """The answer as the product would have stored it under a cap."""
    verdict, reason, lost = answer.verdict, answer.reason, answer.lost
    if cap < scene.horizon:
        client = _Client(scene.spec(answer.prompt))
        client.take(answer.output[:cap])
        verdict, reason, lost = client.verdict("length"), "length", None
    generation = Generation(
        job=Job(Phase.CERTIFY, 1, 0, answer.prompt.units, 0, 0, cap),
        prompt_id=answer.prompt.id,
        prompt_text="",
        tokens=(),
        verdict=verdict,
        finish_reason=reason,
        failure=lost,
        aborted=reason is None and lost is None,
        output_tokens=verdict.tokens,
        attempts=answer.attempts,
    )
    return annotate_planes([generation], (), _PROFILE)[0]
