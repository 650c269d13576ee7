"""Whole campaigns against the simulator, through the command line, and the truth about what they met."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stresstest.campaign.conclusion.conclude import conclude
from stresstest.campaign.prompt_source import load_prompt_source
from stresstest.features.demo.command import simulator
from stresstest.model import Generation, GenerationRecord, Plane, Run, ServerSample
from stresstest.simulation.engine import Engine, SimRequest, vocabulary
from stresstest.simulation.engine.scenario.file import load_scenario
from stresstest.simulation.engine.virtual import run_virtual
from stresstest.store import open_store
from tests.support.commands import command


@dataclass(frozen=True, slots=True)
class Campaign:
    """A `run` that is over. code: its exit code; said: what it wrote on stderr."""

    scenario: str
    code: int
    document: dict[str, Any]
    said: str
    run: Run
    generations: list[Generation]
    samples: list[ServerSample]

    @property
    def failing(self) -> list[Generation]:
        return [g for g in self.generations if g.verdict.degenerate]

    @property
    def onsets(self) -> list[int]:
        return [g.verdict.onset for g in self.generations if g.verdict.onset is not None]

    @property
    def kv_peak(self) -> float:
        """Largest share of the KV cache that /metrics told, 0-1."""
        return max(s.kv_usage for s in self.samples if s.kv_usage is not None)

    @property
    def system_facts(self) -> list[str]:
        """Everything that was held against the system."""
        facts = [e for g in self.generations for e in g.evidence if e.supports and e.plane is Plane.SYSTEM]
        return [e.fact for e in facts]


@dataclass(frozen=True, slots=True)
class Truth:
    """What the simulated model did, by itself: its text, and where and how it failed."""

    text: str
    onset: int | None
    symptom: str | None


def campaign(scenario: str, folder: Path, *options: str, speed: str = "max") -> Campaign:
    """`stresstest run --rigor quick …` against the scenario's own server process, into a store of its own."""
    with simulator(scenario, speed=speed) as base_url:
        return measured(scenario, base_url, folder / "campaign.sqlite3", *options)


def measured(scenario: str, base_url: str, store: Path, *options: str) -> Campaign:
    """The same against a server that runs already. In this process: the imports are paid once."""
    words = ["--store", str(store), "--display", "plain", "run", "--base-url", base_url]
    code, out, err = command(*words, "--rigor", "quick", "--json", *options)
    with open_store(str(store)) as opened:
        result = conclude(opened, "latest")
        generations = [*map(opened.loader(result.run.id), result.generations)]
    return Campaign(scenario, code, json.loads(out), err, result.run, generations, list(result.samples))


def truths(campaign: Campaign) -> dict[str, Truth]:
    """What each generation's request gives on an idle engine without HTTP, by the generation's key.

    The text of an answer depends on its request alone (unless a hazard asks for the load), so that this is
    the same text as the campaign saw; tests compare it. No request fails here.
    """
    scenario = load_scenario(campaign.scenario)
    scenario = replace(scenario, hazards=tuple(h for h in scenario.hazards if h.is_text_failure))
    settings = campaign.run.settings
    prompts, decoding = load_prompt_source(settings), settings.decoding
    found = {}
    for generation in campaign.generations:
        job = generation.job
        said = [(m.role, m.content) for m in prompts.prompt_at(job.prompt_index, job.units).messages]
        request = SimRequest(
            tuple(vocabulary.encode_chat(said)),
            job.max_tokens,
            chat=True,
            messages=tuple(said),
            seed=job.seed,
            temperature=decoding.temperature,
            top_p=decoding.top_p,
            repetition_penalty=decoding.repetition_penalty,
        )
        [sequence] = run_virtual(Engine(scenario), [request], concurrency=1).sequences
        ids = [written.id for written in sequence.output if written.id != vocabulary.EOS]
        found[generation.key] = Truth(vocabulary.decode(ids), sequence.onset, sequence.symptom)
    return found


def as_it_was(generation: GenerationRecord, truth: Truth) -> GenerationRecord:
    """The generation with the true onset in place of the one that was found."""
    verdict = generation.verdict
    onset = truth.onset if truth.onset is not None and truth.onset <= verdict.tokens else None
    observed = verdict.tokens if onset is None else onset - 1
    return replace(generation, verdict=replace(verdict, onset=onset, observed=observed))


def disagreements(campaign: Campaign, known: dict[str, Truth], *, within: int) -> list[str]:
    """Generations whose verdict is not the truth: another symptom, or an onset off by more than `within`."""
    found = []
    for generation in campaign.generations:
        truth, verdict = known[generation.key], generation.verdict
        # What fails beyond the last token that was seen has not failed yet.
        onset = truth.onset if truth.onset is not None and truth.onset <= verdict.tokens else None
        symptom = truth.symptom if onset is not None else None
        ours = None if verdict.symptom is None else str(verdict.symptom)
        if ours != symptom or abs((verdict.onset or 0) - (onset or 0)) > within:
            found.append(f"{generation.key}: {ours} at {verdict.onset}, truth {symptom} at {onset}")
    return found
