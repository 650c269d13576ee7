"""Scenes of the terminal from known data, drawn at known widths."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from rich.console import Console, Group

from stresstest.campaign.execution.events import (
    AlarmRaised,
    GenerationAdvanced,
    GenerationFinished,
    GenerationStarted,
)
from stresstest.campaign.ladder import CertifyStep, ClimbStep, LadderSetup, Rung, ladder_job, worst_case_plan
from stresstest.diagnosis.representative import representative_failure
from stresstest.features.plan.console import print_plan
from stresstest.features.runs.console import print_runs
from stresstest.features.scan.console import print_scan
from stresstest.model import (
    RIGORS,
    Decoding,
    EndpointProfile,
    Evidence,
    Generation,
    GenerationVerdict,
    GpuSample,
    Job,
    MissingCapability,
    Phase,
    Plane,
    PlaneVerdict,
    Run,
    RunResult,
    RunSettings,
    RunStatus,
    ServerSample,
    Subject,
    SymptomKind,
    Threshold,
    Token,
)
from stresstest.model.scanned import GroupResult, ScanExample, ScanResult
from stresstest.model.words import Basis
from stresstest.options.streams import ENCODING_ERRORS, replace_unencodable
from stresstest.render.glyphs import glyphs_for
from stresstest.render.live.draw import live_view_lines
from stresstest.render.live.live_state import LiveState
from stresstest.render.live.view import ProvisionalThreshold
from stresstest.render.run_summary import print_run
from stresstest.statistics import survival_curve
from stresstest.store import RunSummary
from tests.support.generations import whole

HEALTHY = "Il faro taceva da anni e Agnese saliva ogni sera le scale con la lampada spenta. "
COPY = "La marea tornava piano e nessuno la guardava. "
SETTINGS = RunSettings(
    Subject("Qwen/Qwen2.5-7B-Instruct-AWQ", "narrative", "it"),
    "http://gpu-1:8000/v1",
    "narrative",
    rigor="quick",
    decoding=Decoding(temperature=0.7),
    horizon=8192,
    budget_tokens=500_000,
)
PROFILE = EndpointProfile(
    "http://gpu-1:8000/v1",
    "Qwen/Qwen2.5-7B-Instruct-AWQ",
    version="0.32.0",
    max_model_len=32768,
    missing=(MissingCapability("GPU readings", "no throttling evidence for the system plane"),),
)


def generation(at: Job, length: int, onset: int | None = None) -> Generation:
    """An answer of `length` tokens, a word each; from `onset` on it says one sentence again and again."""
    words = (HEALTHY * (length // 16 + 1)).split(" ")[: (onset or length + 1) - 1]
    words += (COPY * (length // 8 + 1)).split(" ")[: length - len(words)]
    tokens = tuple(Token(f"{word} ", id=n) for n, word in enumerate(words))
    symptom = SymptomKind.LOOP if onset else None
    seen = GenerationVerdict(length, (onset or length + 1) - 1, onset, (onset or 0) + 40 or None, symptom)
    finish = None if onset else "stop"
    return Generation(
        at,
        f"p{at.index}",
        "ask",
        seen,
        finish,
        aborted=onset is not None,
        output_tokens=length,
        tokens=tokens,
    )


def certifying_answers(number: int) -> list[Generation]:
    """The first certifying answers of a campaign, two thirds of which loop."""
    rung = Rung(4, 25, 1371, 1800)
    setup = LadderSetup(RIGORS["quick"], 8192, 56.0, distinct_prompts=40)
    made = []
    for n in range(number):
        at = ladder_job(setup, Phase.CERTIFY, rung, n)
        made.append(generation(at, 1300 + 7 * n, None if n % 3 == 2 else 880 + 97 * n % 400))
    return made


def run_result(*, certified: bool = True, failing: bool = True) -> RunResult:
    """A run of 38 certifying answers, two thirds of which loop, or none."""
    sample = certifying_answers(38)
    if not failing:
        sample = [replace(g, verdict=GenerationVerdict(1400, 1400)) for g in sample]
    threshold = Threshold(0.10, 0.90, 891, 38, 1, 0.099, certified=True)
    if not failing:
        threshold = replace(threshold, tokens=1400, onsets=0, censored_at=1400)
    lacking = (
        "22 answers at risk are needed, but there were only 14; measure at least 8 more "
        "answers that reach 1400 tokens."
    )
    if not certified:
        threshold = Threshold(0.10, 0.90, n=14, lacking=lacking)
    evidence = (
        Evidence(Plane.DECODING, True, "detector:loop", "loop in 26 of 26 failing answers", 26.0),
        Evidence(Plane.SYSTEM, False, "vllm /metrics", "KV cache ≤ 4 % before every onset", 0.04),
    )
    verdict = PlaneVerdict(
        Plane.DECODING,
        Basis.OBSERVED,
        "Suspected cause: decoding (not tested yet). 26 of the sample's 38 answers loop; their median onset "
        "is at token 1,070 (interquartile range 180 tokens).",
        evidence,
        ("To test the cause and look for a setting with a higher cap: stresstest diagnose latest",),
    )
    if not failing:
        verdict = PlaneVerdict(None, None, "No degeneration seen up to 1559 tokens in 38 answers.")
    shown = representative_failure(sample)
    return RunResult(
        Run("20261121-173000-4f2a", SETTINGS, PROFILE, RunStatus.DONE, 0.0, tool_version="0"),
        threshold,
        {True: 801 if failing else 1260, False: None}[certified],
        verdict,
        tuple(sample),
        distinct_prompts=38,
        tokens_spent=54_321,
        seconds=75.0,
        survival=survival_curve(sample),
        notes=("Entropy was not measured: the server gave no logprobs.",),
        representative=None if shown is None else whole(shown),
    )


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def _climbed(board: LiveState, clock: Clock) -> LadderSetup:
    """Two healthy rungs and one that fails, at a steady pace."""
    setup = LadderSetup(RIGORS["quick"], 8192, 56.0, max_units=240, distinct_prompts=40)
    plan = worst_case_plan(setup)
    board.started(SETTINGS)
    board.planned(plan)
    for rung in plan.rungs[:3]:
        jobs = tuple(ladder_job(setup, Phase.CLIMB, rung, n) for n in range(2))
        board.stage(ClimbStep(rung, jobs, "first rung"))
        for at in jobs:
            _answer(board, clock, generation(at, rung.target_tokens, 954 if rung.number == 3 else None))
    return setup


def _answer(board: LiveState, clock: Clock, made: Generation) -> None:
    board.event(GenerationStarted(made.key, clock.now))
    for tokens in range(16, made.output_tokens, 16):
        clock.now += 0.02
        board.event(GenerationAdvanced(made.key, tokens))
        if tokens % 400 == 0:
            board.sample(ServerSample(clock.now, running=8.0, waiting=0.0, kv_usage=0.001 * (tokens % 700)))
            board.snapshot()
    if made.verdict.onset is not None:
        board.event(AlarmRaised(made.key, made.output_tokens))
    board.event(GenerationFinished(made))


def live(answers: int) -> tuple[LiveState, ProvisionalThreshold]:
    """The board after the climb and so many answers of the certifying sample, two more under way."""
    clock = Clock()
    board = LiveState(clock)
    setup = _climbed(board, clock)
    reading = GpuSample(clock.now, "0", "NVML", utilisation=0.97, memory_used=71, memory_total=100)
    board.gpus([reading, replace(reading, gpu="1", utilisation=0.91)])
    rung = Rung(4, 25, 1371, 1800)
    jobs = tuple(ladder_job(setup, Phase.CERTIFY, rung, n) for n in range(38))
    board.stage(CertifyStep(rung, jobs, 38, "the climb's answers degenerated at about 954 tokens", 38))
    for made in certifying_answers(answers):
        _answer(board, clock, made)
    for under_way in jobs[answers : answers + 2]:
        board.event(GenerationStarted(under_way.key, clock.now))
        board.event(GenerationAdvanced(under_way.key, 512))
    return board, ProvisionalThreshold(SETTINGS)


def climbing() -> tuple[LiveState, ProvisionalThreshold]:
    """The board before the first onset counts for anything: no GPU, no certifying sample."""
    clock = Clock()
    board = LiveState(clock)
    _climbed(board, clock)
    return board, ProvisionalThreshold(SETTINGS)


def diagnosing() -> tuple[LiveState, ProvisionalThreshold]:
    """Two arms of a diagnosis of a stored run: no ladder, no length asked for."""
    clock = Clock()
    board = LiveState(clock)
    rung = Rung(4, 25, 1371, 1800)
    for arm, onset in (
        ("unchanged: 16 forks, nothing changed", 120),
        ("penalty-1.15: 16 forks, with repetition_penalty 1.15", None),
    ):
        jobs = [
            Job(Phase.DIAGNOSE, rung.number, n, None, n, n, 600, arm.partition(":")[0]) for n in range(12)
        ]
        board.measuring(arm, 16, {job.key: 830 for job in jobs})
        for at in jobs:
            _answer(board, clock, generation(at, 400, onset))
    return board, ProvisionalThreshold(SETTINGS)


def draw_live(console: Console, board: LiveState, sample: ProvisionalThreshold, height: int = 30) -> None:
    picture = board.snapshot()
    sample.update(picture.certifying)
    judged = (sample.rigor, sample.threshold()) if picture.sample_size is not None else None
    console.print(Group(*live_view_lines(picture, judged, console.width, height, glyphs_for(console))))


def scan_result(*, certified: bool = True) -> ScanResult:
    threshold = Threshold(0.05, 0.95, 1802, 131, 2, 0.047, certified=True)
    if not certified:
        threshold = Threshold(
            0.05, 0.95, n=30, lacking="59 answers at risk are needed, but there were only 30."
        )
    group = GroupResult(
        {"model": "Qwen/Qwen2.5-7B-Instruct-AWQ", "task": "summary"},
        400,
        9,
        0.0225,
        (0.0103, 0.0423),
        threshold,
        "tokens",
        dharma_rate=0.0125,
        dharma_known=400,
        symptoms={"loop": 7, "language_drift": 2},
        safe_max_tokens=1621 if certified else None,
        healthy_cut=0.031 if certified else None,
        wasted=51_200,
        total=612_000,
        recovered=1,
    )
    shown = ScanExample("req-81", SymptomKind.LOOP, 0.97, 900, HEALTHY, COPY * 4, "the same 8 words 41 times")
    return ScanResult(400, 1, (group,), ("model", "task"), ("log.jsonl:17: no text in it",), (shown,))


def _plan(console: Console) -> None:
    setup = LadderSetup(RIGORS["quick"], 8192, 56.0, max_units=240, distinct_prompts=40)
    print_plan(console, SETTINGS, worst_case_plan(setup), 900.0)


def stored_runs() -> list[RunSummary]:
    """One subject measured by a person, by the diagnosis of that run, and as a cell of a sweep."""
    first = RunSummary(
        "20261121-173000-d877",
        SETTINGS.subject,
        SETTINGS.decoding,
        "quick",
        RunStatus.DONE,
        False,
        0.0,
        75.0,
        75.0,
        38,
        26,
        0,
        54_321,
        Threshold(0.10, 0.90, 891, 38, 1, 0.099, certified=True),
        801,
        None,
        8,
    )
    penalised = replace(SETTINGS.decoding, repetition_penalty=1.15)
    child = replace(first, id="20261121-174500-0c1e", decoding=penalised, degenerate=0, parent=first.id)
    cell = replace(child, id="20261121-180000-77aa", parent=None, sweep="20261121-180200-5e3b")
    return [cell, child, first]


Draw = Callable[[Console], None]
SCENES: dict[str, Draw] = {
    "run_certified": lambda console: print_run(console, run_result()),
    "run_at_least": lambda console: print_run(console, run_result(failing=False)),
    "run_inconclusive": lambda console: print_run(console, run_result(certified=False)),
    "live_climb": lambda console: draw_live(console, *climbing()),
    "live_certify": lambda console: draw_live(console, *live(26)),
    "live_diagnose": lambda console: draw_live(console, *diagnosing()),
    "live_low": lambda console: draw_live(console, *live(26), height=12),
    "scan_certified": lambda console: print_scan(console, scan_result()),
    "scan_uncertified": lambda console: print_scan(console, scan_result(certified=False)),
    "plan": _plan,
    "runs": lambda console: print_runs(console, stored_runs()),
}
SIZES = (("60", 60, "utf-8"), ("80", 80, "utf-8"), ("120", 120, "utf-8"), ("80_ascii", 80, "ascii"))


def capture(draw: Draw, width: int, encoding: str) -> str:
    """What `draw` prints on a terminal without colour, trailing blanks left out."""
    codecs.register_error(ENCODING_ERRORS, replace_unencodable)
    buffer = io.BytesIO()
    with io.TextIOWrapper(buffer, encoding=encoding, errors=ENCODING_ERRORS, newline="\n") as file:
        draw(
            Console(
                file=file, width=width, height=30, color_system=None, legacy_windows=False, highlight=False
            )
        )
        file.flush()
        text = buffer.getvalue().decode(encoding)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def captures() -> Iterator[tuple[str, int, Callable[[], str]]]:
    """(name of scene and size, width, what draws it)."""
    for scene, draw in SCENES.items():
        for size, width, encoding in SIZES:
            yield f"{scene}_{size}", width, partial(capture, draw, width, encoding)
