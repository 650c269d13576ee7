"""Data and child processes for the store's tests."""

from __future__ import annotations

import struct
import sys
from dataclasses import replace

from stresstest.campaign.prompt_source import load_prompt_source
from stresstest.model import (
    Decoding,
    EndpointProfile,
    Evidence,
    Generation,
    GenerationVerdict,
    Job,
    MissingCapability,
    Phase,
    Plane,
    Run,
    RunSettings,
    RunStatus,
    Subject,
    Symptom,
    SymptomKind,
    Token,
    Zone,
    ZoneKind,
)
from stresstest.store import open_store

SUBJECT = Subject("lab", "narrative", "it")


def float32(value: float) -> float:
    """The nearest float32, as the store keeps logprobs and entropies."""
    result: float = struct.unpack("f", struct.pack("f", value))[0]
    return result


def make_run(
    run_id: str = "r1", *, created: float = 1000.0, subject: Subject = SUBJECT, simulated: bool = False
) -> Run:
    """A run with something in every field that a test may read back."""
    settings = RunSettings(
        subject, "http://localhost:8000/v1", "narrative", decoding=Decoding(temperature=0.7, top_k=20)
    )
    return Run(
        id=run_id,
        settings=settings,
        profile=EndpointProfile(
            "http://localhost:8000/v1",
            "lab",
            version="0.32.0",
            metrics=True,
            max_model_len=4096,
            defaults={"stop": ("a", "b")},
            missing=(MissingCapability("NVML", "no temperatures"),),
            simulated=simulated,
        ),
        status=RunStatus.RUNNING,
        created=created,
        tool_version="0.1.0",
        prompts_digest=load_prompt_source(settings).digest(),
    )


def make_generation(
    index: int = 0, *, phase: Phase = Phase.CERTIFY, rung: int = 2, tokens: int = 50
) -> Generation:
    """A degenerate generation whose content follows from its index."""
    start = 1.79e9 + index * 10
    symptom = Symptom(
        SymptomKind.LOOP,
        20,
        33,
        start=8,
        score=0.75,
        detail={"period": 12, "exponent": 3.25, "words": ("uno", "due"), "nested": {"limits": [1, (2, 3)]}},
        summary="Dodici token si ripetono.",
    )
    return Generation(
        job=Job(phase, rung, index, 40, index, 1 + index, 4096),
        prompt_id=f"narrative/it/{index}",
        prompt_text="Scrivi una storia in 40 paragrafi numerati. Tema: il mare.",
        tokens=tuple(
            Token(
                f" parola{(index * 7 + i) % 31}è",
                i * 3 + index,
                float32(-0.1 * (i % 9)),
                float32(0.3 + i / 100),
                start + 0.031 * i,
                i < 3,
            )
            for i in range(tokens)
        ),
        verdict=GenerationVerdict(
            tokens,
            19,
            onset=20,
            alarm=33,
            symptom=SymptomKind.LOOP,
            symptoms=(symptom, replace(symptom, kind=SymptomKind.ENTROPY_SHIFT, confirmed=False)),
            zones=(Zone(ZoneKind.STABLE, 1, 19), Zone(ZoneKind.COLLAPSED, 20, tokens)),
            units=3,
            score=0.75,
        ),
        finish_reason="length",
        aborted=True,
        prompt_tokens=31,
        output_tokens=tokens,
        started=start,
        first_token=start + 0.1,
        ended=start + 5,
        loop_lag=0.004,
        plane=Plane.DECODING,
        evidence=(Evidence(Plane.SYSTEM, False, "vllm /metrics", "no preemption", 0.0, 1.5, 7),),
        answered_by="lab",
        unseen_tokens=3,
        answer_id="chatcmpl-1",
        created=1_790_000_000,
        fingerprint="vllm-0.32.0-tp1",
    )


def write_until_killed(path: str, run_id: str, first: int) -> None:
    """Child process: commit generations from `first` on, saying each key only after its commit."""
    with open_store(path) as store:
        for index in range(first, first + 100_000):
            generation = make_generation(index, tokens=400)
            store.add_generation(run_id, generation)
            sys.stdout.write(generation.key + "\n")
            sys.stdout.flush()


def open_on_command(path: str, run_id: str) -> None:
    """Child process: once its standard input says so, open a store that may not exist and use it."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    with open_store(path) as store:
        store.create_run(make_run(run_id))
        store.add_generation(run_id, make_generation())
