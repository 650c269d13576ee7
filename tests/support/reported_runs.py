"""Runs as reports draw them: a campaign with loops, losses and a diagnosis, every text of it chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stresstest.diagnosis.concluded import apply_diagnosis
from stresstest.diagnosis.evidence.metrics_series import summarize_server
from stresstest.diagnosis.representative import representative_failure
from stresstest.model import (
    RIGORS,
    ArmResult,
    Basis,
    CauseLink,
    Decoding,
    Diagnosis,
    DocumentKind,
    EndpointProfile,
    Evidence,
    FailureKind,
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
    ServiceFailure,
    Subject,
    Symptom,
    SymptomKind,
    Threshold,
    Token,
    Zone,
    ZoneKind,
)
from stresstest.render.report_data import ReportData
from stresstest.statistics import certified_threshold, safe_max_tokens, survival_curve
from stresstest.store import StoredDocument
from tests.support.generations import whole

START = 1.79e9
_STORY = "Paragrafo 1. Il guardiano del faro aprì la porta e vide che il mare non era più quello di prima . "
_STEP = 0.02


def tokens(
    n: int, *, period: int | None = None, onset: int = 0, text: str = _STORY, start: float = START
) -> tuple[Token, ...]:
    """n tokens of a story with numbers of its own; from `onset` - period on, one passage again and again."""
    words = text.split(" ")
    made = []
    for i in range(n):
        looping = period is not None and i >= onset - 1 - period
        place = (i - (onset - 1 - period)) % period if looping and period is not None else i
        word = f"giro{place}" if looping else f"{words[i % len(words)]}{i // len(words)}"
        made.append(Token(f" {word}", 7 * place + looping, -0.2, 0.05 if looping else 0.8, start + _STEP * i))
    return tuple(made)


def looping(
    index: int, onset: int, n: int, *, phase: Phase = Phase.CERTIFY, text: str = _STORY, period: int = 12
) -> Generation:
    """A generation that loops from `onset` on and was stopped at n tokens."""
    start = START + 3.0 * index
    warning = Symptom(SymptomKind.ENTROPY_SHIFT, onset - 20, onset - 5, confirmed=False, summary=text)
    loop = Symptom(
        SymptomKind.LOOP, onset, onset + 30, start=onset - period, detail={"period": period}, summary=text
    )
    zones = (
        Zone(ZoneKind.STABLE, 1, onset - 21),
        Zone(ZoneKind.DRIFTING, onset - 20, onset - 1),
        Zone(ZoneKind.COLLAPSED, onset, n),
    )
    verdict = GenerationVerdict(
        n, onset - 1, onset, onset + 30, SymptomKind.LOOP, (warning, loop), zones, units=4, loops_to_end=True
    )
    made = tokens(n, period=period, onset=onset, text=text, start=start)
    return _generation(index, made, verdict, phase, text, aborted=True, plane=Plane.DECODING)


def healthy(index: int, n: int, *, phase: Phase = Phase.CERTIFY, text: str = _STORY) -> Generation:
    """A generation that ended by itself."""
    verdict = GenerationVerdict(n, n, zones=(Zone(ZoneKind.STABLE, 1, n),), units=8)
    return _generation(
        index, tokens(n, text=text, start=START + 3.0 * index), verdict, phase, text, finish="stop"
    )


def lost(index: int, n: int, message: str = "the connection was cut") -> Generation:
    """A generation that a service failure took."""
    failure = ServiceFailure(FailureKind.CUT, message, at_token=n)
    made = healthy(index, n)
    return replace(made, failure=failure, finish_reason=None, plane=Plane.SYSTEM)


def _generation(
    index: int,
    made: tuple[Token, ...],
    verdict: GenerationVerdict,
    phase: Phase,
    text: str,
    *,
    finish: str | None = None,
    aborted: bool = False,
    plane: Plane | None = None,
) -> Generation:
    rung = 1 if phase is Phase.CLIMB else 2
    return Generation(
        Job(phase, rung, index, 16, index, 100 + index, 4096),
        f"p{index}",
        text,
        verdict,
        finish_reason=finish,
        aborted=aborted,
        prompt_tokens=40,
        output_tokens=len(made),
        started=made[0].arrived - 0.1 if made else START,
        first_token=made[0].arrived if made else None,
        ended=made[-1].arrived if made else START,
        plane=plane,
        tokens=made,
    )


def campaign(n: int = 24, text: str = _STORY) -> tuple[Generation, ...]:
    """A climb and a certifying sample of n, nearly all of which loop between tokens 300 and 500."""
    climb = (
        healthy(0, 200, phase=Phase.CLIMB, text=text),
        looping(1, 340, 480, phase=Phase.CLIMB, text=text),
    )
    return (*climb, *(looping(i, 300 + 8 * i, 480 + 9 * i, text=text) for i in range(n)))


def result(
    generations: tuple[Generation, ...] | None = None,
    *,
    text: str = _STORY,
    model: str = "Qwen/Qwen2.5-7B-Instruct-AWQ",
    simulated: bool = False,
    status: RunStatus = RunStatus.DONE,
    run_id: str = "20261121-173000-4f2a",
) -> RunResult:
    """What `conclude` would give for these generations. text: in every field that may hold foreign text."""
    made = campaign(text=text) if generations is None else generations
    certifying = [g for g in made if g.job.phase is Phase.CERTIFY]
    threshold = certified_threshold(certifying, RIGORS["quick"])
    if status is not RunStatus.DONE:
        threshold = Threshold(0.1, 0.9, n=threshold.n, lacking="the run is not complete; resume the run")
    samples = tuple(
        ServerSample(START + i, 3.0, 0.0, 0.1 + 0.001 * i, 0.0, 100.0 * i, 300.0 * i, {"stop": float(i)})
        for i in range(80)
    )
    settings = RunSettings(
        Subject(model, text if text != _STORY else "narrative", "it"),
        "http://localhost:8000/v1",
        "narrative",
        rigor="quick",
        decoding=Decoding(temperature=0.7, system_prompt=text),
    )
    profile = EndpointProfile(
        "http://localhost:8000/v1", model, version=text, max_model_len=32_768, root=text, metrics=True,
        top_logprobs=20, simulated=simulated, fingerprint=text, missing=(MissingCapability(text, text),),
    )  # fmt: skip
    failing = any(g.verdict.degenerate for g in made)
    evidence = (
        Evidence(Plane.SYSTEM, False, text, f"no preemption before any of the 41 onsets. {text}", 0.0),
        Evidence(Plane.DECODING, True, "detector:loop", text, 41.0),
    )
    verdict = PlaneVerdict(
        Plane.DECODING if failing else None,
        Basis.OBSERVED if failing else None,
        text,
        evidence if failing else (),
        (text,) if failing else (),
    )
    shown = representative_failure(certifying) or representative_failure(made)
    return RunResult(
        run=Run(run_id, settings, profile, status, START, START + 90, "0.1.0", "abc", text),
        threshold=threshold,
        safe_max_tokens=safe_max_tokens(threshold, 0.1),
        verdict=verdict,
        generations=made,
        samples=samples,
        distinct_prompts=len(certifying),
        tokens_spent=sum(g.output_tokens for g in made),
        seconds=75.0,
        survival=survival_curve(certifying),
        server=summarize_server(samples),
        notes=(text,),
        representative=None if shown is None else whole(shown),
    )


def diagnosis(
    text: str = (
        "loop from about token 380 (median of the tested answers), "
        "caused by decoding; confirmed: it goes away with "
        "repetition_penalty 1.15"
    ),
) -> Diagnosis:
    """One link, two arms."""
    arms = (
        ArmResult("B", None, text, 24, 24, 24, 1.0, 1.0, clears=False, symptoms={text: 24}),
        ArmResult("D1", Plane.DECODING, text, 24, 0, 24, 6e-8, 0.11, clears=True),
    )
    link = CauseLink(
        "r", Plane.DECODING, Basis.CONFIRMED, SymptomKind.LOOP, 380.0, 24, text, text,
        Decoding(repetition_penalty=1.15), lacking=text, arms=arms, notes=(text,),
    )  # fmt: skip
    return Diagnosis(
        "r", (link,), complete=True, recommended=Decoding(repetition_penalty=1.15), notes=(text,)
    )


def documents(text: str = "narrative") -> list[StoredDocument]:
    """One of each kind, with this text wherever a document holds any."""
    bodies: dict[DocumentKind, dict[str, Any]] = {
        DocumentKind.COST: {
            "requests": 160, "degenerate": 6, "rate": 0.0375, "rate_ci": [0.014, 0.08], "dharma_rate": None,
            "wall_clock_s": 438.0, "counterfactual_s": 252.0, "share_of_time": 0.425, "inflation": 0.738,
            "healthy_slowdown": {"ratio": 1.31, "ci": [1.2, 1.43]}, "step_ratio": None, "money": {text: text},
        },
        DocumentKind.SWEEP: {
            "cells": [{"values": {text: text}, "safe_max_tokens": 425, "generations": 38, "failed": 38,
                       "median_onset": 611, "symptoms": {text: 38}}],
            "answers": [text],
        },
        DocumentKind.CHECK: {"baseline": text, "candidate": text, "verdict": text, "lacking": text},
        DocumentKind.SCAN: {"requests": 10, "damaged": 1, "groups": [{"key": {text: text}, "requests": 10}]},
    }  # fmt: skip
    return [
        StoredDocument(f"{kind}-1", kind, START, complete=True, simulated=False, runs=(), body=body)
        for kind, body in bodies.items()
    ]


def gpu_samples() -> tuple[GpuSample, ...]:
    """A busy GPU, a reading a second."""
    return tuple(GpuSample(START + i, "0", "NVML", utilisation=0.9, temperature=61.0) for i in range(80))


def dossier(text: str | None = None, **options: Any) -> ReportData:
    """Everything at once. text: put wherever foreign text can stand; None for an ordinary report."""
    if text is None:
        made, found, beside = result(**options), diagnosis(), documents()
    else:
        made, found = result(text=text, model=text, **options), diagnosis(text)
        beside = documents(text)
    made = replace(made, verdict=apply_diagnosis(made.verdict, found, made.run))
    return ReportData(made, whole, found, gpu_samples(), beside)
