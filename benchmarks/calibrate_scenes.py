"""Simulated models for calibration through text: scenarios with short onsets, and what is asked of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stresstest.detectors.entry import DetectorSpec
from stresstest.simulation.engine import Engine, EngineSpec, Hazard, ModelSpec, Scenario, SimRequest
from stresstest.simulation.engine.scenario.distribution import (
    Distribution,
    LognormalDistribution,
    UniformDistribution,
)
from stresstest.simulation.engine.vocabulary import encode_chat
from stresstest.simulation.engine.writing.unit_failures import FORMS
from stresstest.tasks import Prompt, Task, load_task

UNITS = 4
"""Most units that a prompt may ask for: short answers, and one length for nearly all campaigns."""
PER_UNIT = 100.0
# Somewhat more than the model takes, so that the ladder's first rung asks for all UNITS.
GUESS = 110.0
HORIZON = 450
_SERVICE = ("http_500", "disconnect", "stall")
_TASK = load_task("narrative")


@dataclass(frozen=True, slots=True)
class Scene:
    """A scenario, and the campaign that is run against it.

    ends: tokens after which every answer, failing or not, ends itself with its sentence. units: the most that
    a prompt may ask for, or with `prompts_fixed` what each asks for.
    """

    name: str
    scenario: Scenario
    horizon: int = HORIZON
    language: str = "it"
    ends: Distribution | None = None
    task: Task = _TASK
    units: int = UNITS
    prompts_fixed: bool = False

    @property
    def quiet(self) -> Scenario:
        """The same model behind a service without failures: the same requests get the same text."""
        text = tuple(h for h in self.scenario.hazards if h.symptom not in _SERVICE)
        return replace(self.scenario, hazards=text)

    def engine(self, seed: int) -> Engine:
        return Engine(self.scenario, seed=seed)

    def prompt(self, index: int, units: int) -> Prompt:
        return self.task.prompt(self.language, index % self.task.distinct(self.language), units)

    def spec(self, prompt: Prompt) -> DetectorSpec:
        text = "\n".join(m.content for m in prompt.messages)
        asked = self.task.language(self.language)
        return DetectorSpec(
            language=None if asked.unit == "function" else self.language,
            unit_pattern=asked.unit_pattern,
            units=prompt.units,
            prompt_text=text,
            unit=asked.unit,
        )


def request(prompt: Prompt, max_tokens: int, seed: int) -> SimRequest:
    messages = tuple((m.role, m.content) for m in prompt.messages)
    return SimRequest(tuple(encode_chat(messages)), max_tokens, messages=messages, seed=seed)


_TOKENS = {"json": 120.0, "code": 180.0, "catalogue": 45.0}
"""Of a short unit."""
_SHORT = LognormalDistribution(200.0, 0.25)
_FAULTS = (
    Hazard("http_500", probability=0.2 / 3),
    Hazard("disconnect", onset=UniformDistribution(1.0, 300.0), probability=0.2 / 3),
    Hazard("stall", onset=UniformDistribution(1.0, 300.0), probability=0.2 / 3),
)


def _scene(name: str, *hazards: Hazard) -> Scene:
    return Scene(name, Scenario(name, "", ModelSpec(tokens_per_unit=PER_UNIT), EngineSpec(), hazards))


def _alone(symptom: str, onset: Distribution = _SHORT) -> Scene:
    return _scene(symptom, Hazard(symptom, onset=onset))


def _structured(task: str, horizon: int, form: str, *hazards: Hazard) -> Scene:
    """English records, functions or rows, more than reach the horizon; one rung, as of the user's own
    prompts: a repetition of units takes long to show."""
    units = round(1.5 * horizon / _TOKENS[task])
    scene = Scene(f"{task}: {form}", Scenario(form, "", hazards=hazards), horizon, "en", task=load_task(task))
    return replace(scene, units=units, prompts_fixed=True)


def _units(task: str, form: str, horizon: int) -> Scene:
    symptom = next(kind for kind, forms in FORMS.items() if form in forms)
    return _structured(
        task, horizon, form, Hazard(symptom, onset=LognormalDistribution(400.0, 0.25), form=form)
    )


def _early(scene: Scene, median: float) -> Scene:
    model = replace(scene.scenario.model, early_end=LognormalDistribution(median, 0.5))
    return replace(scene, name=f"{scene.name}, early ends", scenario=replace(scene.scenario, model=model))


_SYMPTOMS = (
    "loop",
    "near_loop",
    "flooding",
    "language_drift",
    "gibberish",
    "structure_break",
    "truncation",
)
CELLS: dict[str, Scene] = {
    scene.name: scene
    for scene in (
        *map(_alone, _SYMPTOMS),
        _scene(
            "mixture, a quarter healthy",
            Hazard("loop", onset=_SHORT, probability=0.4),
            Hazard("language_drift", onset=LognormalDistribution(260.0, 0.3), probability=0.4),
            Hazard("flooding", onset=LognormalDistribution(230.0, 0.5), probability=0.3),
        ),
        _early(_alone("language_drift"), 230.0),
        replace(
            _alone("structure_break"),
            name="structure_break, failing answers end too",
            ends=LognormalDistribution(230.0, 0.35),
        ),
        _scene("loop, 20 % of requests fail", Hazard("loop", onset=_SHORT), *_FAULTS),
        _scene("healthy"),
    )
}
STRUCTURED_CELLS: dict[str, Scene] = {
    scene.name: scene
    for scene in (
        _units("json", "counter", 2000),
        _units("json", "shuffled", 2600),
        _units("json", "blanks", 1000),
        _units("json", "value", 1000),
        _units("json", "list", 1000),
        _units("code", "counter", 2400),
        _units("code", "renamed", 2800),
        _units("catalogue", "counter", 1200),
        _units("catalogue", "shuffled", 1400),
        _units("catalogue", "value", 1000),
        _structured("json", 1000, "healthy"),
        _structured("code", 1000, "healthy"),
        _structured("catalogue", 1000, "healthy"),
    )
}
"""Answers of records, functions and rows."""
